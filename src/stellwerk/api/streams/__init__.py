"""Readers of a live session: cursors, frames, heartbeats, translations."""
