"""Rendering of a session on a terminal."""
