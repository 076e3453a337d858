"""Documents: bytes that are too large or too foreign for the log, kept beside it and named by their digest."""
