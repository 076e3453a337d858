"""The demo system: what a new installation answers with, on the scripted model and without a key."""

from importlib.resources import files


def demo_yaml() -> str:
    return (files(__package__) / "demo.yaml").read_text("utf-8")
