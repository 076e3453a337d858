"""References to stored secrets, ``${secret:name}``, in the texts of a value."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel

_REFERENCE = re.compile(r"\$\{secret:([^}]*)\}")


def secret_names(value: Any) -> Iterator[str]:
    """The names of all secrets that a value refers to."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from secret_names(each)
    elif isinstance(value, str):
        yield from _REFERENCE.findall(value)


def filled(value: Any, find: Callable[[str], str]) -> Any:
    """The value with each reference replaced by the secret."""
    if isinstance(value, dict):
        return {key: filled(each, find) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, find) for each in value]
    return _REFERENCE.sub(lambda found: find(found[1]), value) if isinstance(value, str) else value
