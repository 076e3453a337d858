"""Documents: bytes too large or too foreign for the log, kept beside it, named by digest."""
