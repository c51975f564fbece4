"""What is derived and can be thrown away at any moment."""
