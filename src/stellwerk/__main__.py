"""python -m stellwerk."""

from stellwerk.cli import app

app()
