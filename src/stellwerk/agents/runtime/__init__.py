"""Runs one agent: drives its graph, and turns callbacks and stream parts into facts."""
