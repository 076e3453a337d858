"""The name of a folder that an agent system may choose: below the data folder, whatever the system calls it."""

import re

_BELOW = re.compile(r"(?:\./)?\w[\w.-]*(?:/\w[\w.-]*)*/?")


def below(name: str) -> str:
    """The name without ornament. Every part begins with a letter, a digit or _, so none can lead upwards."""
    if not _BELOW.fullmatch(name):
        raise ValueError(
            f"{name!a} is not a folder below the data folder; "
            "write a relative name such as 'checklists': letters, digits, _, - and dots, parts divided by /"
        )
    return name.removeprefix("./").rstrip("/")
