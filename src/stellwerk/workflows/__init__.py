"""Workflows: a plug-in for clients that start something, poll for it and download what was made."""
