"""Redaction of known secrets. Pure: text in, text out."""
