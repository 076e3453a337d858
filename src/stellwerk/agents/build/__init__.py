"""Builds agents: from a resolved agent system to a compiled graph."""
