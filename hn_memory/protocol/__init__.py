"""hn-memory/0, pure: bytes in, values or errors out. Nothing here opens a file, runs Git or asks the time."""
