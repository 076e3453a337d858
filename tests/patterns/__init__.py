"""Small graphs in the manner of public projects, served unchanged by `tests/test_patterns.py`."""
