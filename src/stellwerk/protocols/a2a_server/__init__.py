"""Agent systems as A2A agents. Its modules but ``routes`` need the extra ``a2a``."""
