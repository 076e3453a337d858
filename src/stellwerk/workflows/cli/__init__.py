"""The command group ``stellwerk workflow``."""
