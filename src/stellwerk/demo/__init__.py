"""What a new installation starts with, on the scripted model and without a key: the demo, and an office."""

from importlib.resources import files
from importlib.util import find_spec

_OFFICE_NEEDS = ("python_calamine", "xberg", "docx", "xlsxwriter")
"""What reads and makes office documents: the extra ``documents``."""


def demo_yaml() -> str:
    return _text("demo.yaml")


def office_yaml() -> str:
    return _text("office.yaml")


def built_in() -> dict[str, str]:
    """The systems of a new server, by their files; the office only where its first spreadsheet can be read."""
    office = {"office.yaml": office_yaml()} if all(find_spec(name) for name in _OFFICE_NEEDS) else {}
    return {"demo.yaml": demo_yaml(), **office}


def _text(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
