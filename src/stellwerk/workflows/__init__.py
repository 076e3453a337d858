"""Workflows: sessions for clients that start, poll and download."""
