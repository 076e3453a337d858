"""Registered agent systems: their versions, and the agents built from them."""
