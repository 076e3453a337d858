"""What only the operator may say: commands to start, addresses to reach, code to import.

An agent system comes from a tenant and can do no more than name what is
registered here. The two are never read from the same document.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from stellwerk.spec.model import Closed, Name, Seconds

Reference = Annotated[str, Field(min_length=3, max_length=500, pattern=r"^[^:\s]+:[A-Za-z_]\w*$")]
"""``package.module:name`` or ``path/to/file.py:name``."""


class McpServer(Closed):
    """An MCP server: a command that speaks on its pipes, or an address that speaks HTTP."""

    command: Annotated[list[str] | None, Field(min_length=1)] = None
    env: dict[str, str] = {}
    """The child's whole environment, beside a PATH."""
    cwd: str | None = None
    url: Annotated[str | None, Field(pattern=r"^https?://\S+$")] = None
    headers: dict[str, str] = {}
    timeout: Seconds = 60
    """Seconds that one call may take."""

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command (stdio) or a url (streamable HTTP)")
        return self


class Provider(Closed):
    """A place that serves models, under a name of the operator's."""

    kind: Name
    """The LangChain provider that speaks its protocol, such as ``openai``."""
    base_url: Annotated[str | None, Field(pattern=r"^https?://\S+$")] = None
    needs_key: bool = True
    """Whether it wants a key: the secret called <name>_api_key."""


class Operator(Closed):
    """The operator's file, named by ``--config``."""

    mcp_servers: dict[Name, McpServer] = {}
    providers: dict[Name, Provider] = {}
    tools: list[Reference] = []
    """Functions decorated with ``stellwerk.tool``, beside those that installed packages bring."""
    graphs: dict[Name, Reference] = {}
    graph_inputs: dict[Name, Annotated[str, Field(min_length=1, max_length=200)]] = {}
    """For a graph whose input has no ``messages``: the key that takes the user's text."""
