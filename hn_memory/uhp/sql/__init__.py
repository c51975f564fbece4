"""Free queries: SQL in a process that holds nothing but the rows of one memory."""
