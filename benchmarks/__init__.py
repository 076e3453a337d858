"""Measurements: each module prints a table and gives its figures; none of them is a test."""
