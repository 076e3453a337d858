"""Graphs in processes of their own."""
