"""The use cases that doors call; one file per group. Nothing here parses arguments or prints."""
