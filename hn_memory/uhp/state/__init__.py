"""The server's own state in SQL: everything above a provider, and nothing that a record says."""
