"""One file per command; each holds its click command as `command` and is imported only when it runs."""
