"""Agents of kind ``workplan``: plan, delegate, review."""
