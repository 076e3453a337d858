"""Catalogue of a server: the tools, graphs and providers that agent systems may name.

Nothing is started or imported to make it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Catalogue:
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    """Every name and alias of a tool with its canonical name; tools of MCP servers included."""
    mcp_servers: Collection[str] = ()
    """Servers whose tools were not listed: ``<server>_<tool>`` may exist or not."""
    graphs: Collection[str] = ()
    providers: Collection[str] = ("scripted",)
    keys: Collection[str] = ("scripted",)
    """Providers that need no key, or whose key is at hand."""
    environment: bool = True
    """Whether keys are also read from the environment of the server."""
    effects: Mapping[str, str] = field(default_factory=dict[str, str])
    """The effect of each tool on the world; tools that are not listed have none."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Providers whose package is not installed, with the argument for pip install."""
    graph_schemas: Callable[[str], Mapping[str, Any]] = lambda graph: {}
    """JSON Schemas and nodes of a graph; empty until a factory has made the graph."""
    has_secret: Callable[[str], bool] = lambda name: True
    """Whether a secret of this name is stored."""

    def named(self, tool: str) -> str:
        return self.tools.get(tool, tool)

    def unasked_server(self, tool: str) -> str | None:
        """The MCP server that may offer a tool of this name."""
        return next((server for server in self.mcp_servers if tool.startswith(f"{server}_")), None)

    def provider(self, name: str) -> str | None:
        """The provider of this name; dashes and capitals do not matter."""
        return next((one for one in (name, plain(name)) if one in self.providers), None)


def plain(provider: str) -> str:
    return provider.replace("-", "_").lower()
