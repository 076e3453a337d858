"""The database: one writer, many readers, and every table there is."""
