"""Path prefixes: what plug-ins set for all paths below one of theirs."""

from collections.abc import Mapping
from typing import TypeVar

from starlette.types import Scope

Value = TypeVar("Value")


def by_prefix(values: Mapping[str, Value], scope: Scope) -> Value | None:
    """The value of the longest prefix of the request's path, below the path where the app is mounted."""
    path = path_below_mount(scope)
    found = [prefix for prefix in values if path == prefix or path.startswith(f"{prefix}/")]
    return values[max(found, key=len)] if found else None


def path_below_mount(scope: Scope) -> str:
    path: str = scope["path"]
    root = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path
