"""Processes of our own that end with everything they have started, whatever happens to them or to this server."""
