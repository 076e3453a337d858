"""What a server offers to agent systems, by name only: nothing is started or imported to find out."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Catalogue:
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    """Every name and alias of a tool, and the name it has; those of MCP servers too."""
    mcp_servers: Collection[str] = ()
    """Those that were not asked what they offer: ``<server>_<tool>`` may be there or not."""
    graphs: Collection[str] = ()
    providers: Collection[str] = ("scripted",)
    keys: Collection[str] = ("scripted",)
    """Providers that need no key, or whose key is at hand."""
    environment: bool = True
    """Whether keys are also looked for in the environment of the server."""
    effects: Mapping[str, str] = field(default_factory=dict[str, str])
    """What a tool does to the world; one that is not here does nothing to it."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Providers whose package is not installed, and what pip has to be told."""

    def named(self, tool: str) -> str:
        """The name of a tool that may be called by an alias."""
        return self.tools.get(tool, tool)

    def unasked_server(self, tool: str) -> str | None:
        """The MCP server that may offer a tool of this name."""
        return next((server for server in self.mcp_servers if tool.startswith(f"{server}_")), None)

    def provider(self, said: str) -> str | None:
        """The provider of this name; dashes and capitals do not matter."""
        return next((name for name in (said, plain(said)) if name in self.providers), None)


def plain(provider: str) -> str:
    return provider.replace("-", "_").lower()
