"""Protocols of other front ends, served from the log: one stored session in all of them."""
