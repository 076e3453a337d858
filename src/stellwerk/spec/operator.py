"""What only the operator may say: commands to start, addresses to reach, code to import.

An agent system comes from a tenant and can do no more than name what is
registered here. The two are never read from the same document.
"""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from stellwerk.spec.model import Closed, Name, Seconds

Reference = Annotated[str, Field(min_length=3, max_length=500, pattern=r"^[^:\s]+:[A-Za-z_]\w*$")]
"""``package.module:name`` or ``path/to/file.py:name``."""


def _fitting(pattern: str, problem: str) -> AfterValidator:
    """Not as a pattern of the field: what is found here may be a secret, and is not repeated."""
    shape = re.compile(pattern)

    def check(text: str) -> str:
        if not shape.fullmatch(text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


_NO_CONTROL = "this has a line end or another control character; take it out"
Plain = Annotated[str, _fitting(r"[^\x00-\x1f\x7f]*", _NO_CONTROL)]
"""What a process can be given."""
Variable = Annotated[str, _fitting(r"[^\x00-\x1f\x7f=]+", "this is no name of a variable; take out = and line ends")]
HeaderName = Annotated[
    str, _fitting(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "this is no name of a header; write it like X-Name")
]
HeaderValue = Annotated[
    str, _fitting(r"[!-~]([ -~]*[!-~])?", "a header has ASCII without line ends, and no spaces around")
]


class McpServer(Closed):
    """An MCP server: a command that speaks on its pipes, or an address that speaks HTTP."""

    command: Annotated[list[Plain] | None, Field(min_length=1)] = None
    env: dict[Variable, Plain] = {}
    """The child's whole environment, beside a PATH."""
    cwd: Plain | None = None
    url: Annotated[str | None, Field(pattern=r"^https?://\S+$")] = None
    headers: dict[HeaderName, HeaderValue] = {}
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
