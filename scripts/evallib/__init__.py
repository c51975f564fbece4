"""What `scripts/evaluate` is made of."""
