"""Names that the copilot takes: of projects, so that they are safe as folders, and of the types of projects."""

import re

NAME = re.compile(r"[a-z][a-z0-9-]{1,38}[a-z0-9]")
TYPES = ("python-service", "node-service", "go-service")

_RULE = "3 to 40 small letters, digits and hyphens, with a letter in front and no hyphen at the end"
_SHOWN = 60
_LANGUAGES = {"py": "python", "python3": "python", "nodejs": "node", "javascript": "node", "js": "node", "golang": "go"}


class Refused(Exception):
    """The tool will not, or cannot, do it. The text says why, and what to do instead; a model reads it."""


def check_name(name: str) -> str:
    """The name, if it can be one.

    Raises:
        Refused: it cannot.
    """
    if not NAME.fullmatch(name):
        raise Refused(f"{name[:_SHOWN]!r} cannot be the name of a project; take {_RULE}, such as billing-service")
    return name


def project_type(written: str) -> str:
    """The type that is meant: ``Go``, ``go-service`` and ``golang`` are one.

    Raises:
        Refused: there is no such type.
    """
    word = re.sub(r"[\s_]+", "-", written.strip().casefold()).removesuffix("-service")
    found = f"{_LANGUAGES.get(word, word)}-service"
    if found not in TYPES:
        raise Refused(f"there is no project type {written[:_SHOWN]!r}; take one of {', '.join(TYPES)}")
    return found
