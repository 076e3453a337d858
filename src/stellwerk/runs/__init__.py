"""Runs: from an accepted input to its visible end."""
