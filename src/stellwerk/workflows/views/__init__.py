"""Workflow views: folds of a session's envelopes for clients that poll. Pure."""
