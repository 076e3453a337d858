"""Processes of our own that end with all they started, whatever happens to them or the server."""
