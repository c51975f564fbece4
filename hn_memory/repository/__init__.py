"""The only room that touches Git, the file system and the clock."""
