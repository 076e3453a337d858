"""The name of a folder that an agent system may choose: below the data folder, whatever the system calls it."""

import re

_OURS = re.compile(r"documents|lock|tenants|(?:stellwerk|store|master)\..*")
"""What the server itself keeps in the data folder."""
_BELOW = re.compile(r"(?:\./)?\w[\w.-]*(?:/\w[\w.-]*)*/?")


def below(name: str) -> str:
    """The name without ornament. Every part begins with a letter, a digit or _, so none can lead upwards."""
    if not _BELOW.fullmatch(name):
        raise ValueError(
            f"{name!a} is not a folder below the data folder; "
            "write a relative name such as 'checklists': letters, digits, _, - and dots, parts divided by /"
        )
    plain = name.removeprefix("./").rstrip("/")
    if _OURS.fullmatch(plain.partition("/")[0]):
        raise ValueError(f"{name!a} is where the server keeps its own; take another name, such as 'checklists'")
    return plain
