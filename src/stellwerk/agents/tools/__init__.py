"""Tools: how a function becomes one, and how a call is checked, run, timed out and typed."""
