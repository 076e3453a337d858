"""Plug-ins: what installed packages add to the server, found by entry point and loaded once.

A package declares entry points in these groups:

- ``stellwerk.tools``: tools for agents (``agents/tools/registry.py``)
- ``stellwerk.graphs``: LangGraph graphs (``agents/graphs/registry.py``)
- ``stellwerk.agent_kinds``: an ``AgentKind``, named like the ``kind:`` that it builds (``agents/build/kinds.py``)
- ``stellwerk.server``: a ``ServerPlugin`` with routes, schemas and middleware (``api/plugins.py``)
- ``stellwerk.commands``: a ``typer.Typer``, named like its group of commands (``cli/__init__.py``)

The package ``workflows`` is such a plug-in: no other module of Stellwerk imports it.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from stellwerk.errors import BrokenReference

AGENT_KINDS = "stellwerk.agent_kinds"
SERVER = "stellwerk.server"
COMMANDS = "stellwerk.commands"


@cache
def loaded(group: str) -> Mapping[str, Any]:
    """Every object that installed packages offer in this group, by the name of its entry point.

    Raises:
        BrokenReference: a package does not have what its entry point names.
    """
    found = dict[str, Any]()
    for point in entry_points(group=group):
        try:
            found[point.name] = point.load()
        except (ImportError, AttributeError) as error:
            raise BrokenReference(f"the entry point {point.name!r} of {group}", str(error)) from error
    return found
