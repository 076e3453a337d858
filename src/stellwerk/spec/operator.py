"""The operator's file: commands to start, addresses to reach, code to import, retention, tokens.

An agent system comes from a tenant and can only name what is registered here.
The two are never read from the same document.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from stellwerk.spec.model import Seconds
from stellwerk.spec.script import Closed, Name
from stellwerk.spec.yaml import SECRET

Reference = Annotated[str, Field(min_length=3, max_length=500, pattern=r"^[^:\s]+:[A-Za-z_]\w*$")]
"""``package.module:name`` or ``path/to/file.py:name``."""


def _matching(pattern: str, problem: str) -> AfterValidator:
    """Not a pattern of the field: the value may be a secret, and must not appear in the error."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


_HAS_CONTROL = "this has a line end or another control character; take it out"
_NO_VARIABLE = "a name of a variable has no = and no line ends"
_NO_HEADER_NAME = "this is not a name of a header; write it like X-Name"
_NO_HEADER = "a header has ASCII without line ends, and no spaces around"
Plain = Annotated[str, _matching(r"[^\x00-\x1f\x7f]*", _HAS_CONTROL)]
"""An argument or variable that a process can take."""
Variable = Annotated[str, _matching(r"[^\x00-\x1f\x7f=]+", _NO_VARIABLE)]
HeaderName = Annotated[str, _matching(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", _NO_HEADER_NAME)]
HeaderValue = Annotated[str, _matching(r"[!-~]([ -~]*[!-~])?", _NO_HEADER)]

SECRETS_IN = re.compile(r"mcp_servers\.[^.]+\.(headers|env)\..+")
"""The fields that may name a secret, which belongs to the tenant whose agents use the server."""


class McpServer(Closed):
    """An MCP server: a command with pipes (stdio), or an address (streamable HTTP)."""

    command: Annotated[list[Plain] | None, Field(min_length=1)] = None
    env: dict[Variable, Plain] = {}
    """The child's whole environment, beside a PATH."""
    cwd: Plain | None = None
    url: Annotated[str | None, Field(pattern=r"^https?://\S+$")] = None
    headers: dict[HeaderName, HeaderValue] = {}
    timeout: Seconds = 60
    """Seconds that one call may take."""
    trusted: bool = False
    """Whether its results contain only trusted content."""

    def literal_secrets(self) -> Iterator[str]:
        """Values that must be redacted everywhere else; of "Bearer x" also the x."""
        for value in (*self.headers.values(), *self.env.values()):
            if not SECRET.search(value):
                yield value
                yield value.rpartition(" ")[2]

    def filled(self, find: Callable[[str], str | None]) -> Self:
        """With the secrets of headers and variables, each found by its name.

        Raises:
            ValueError: a secret is missing, or cannot be used there; the error does not repeat it.
        """

        def secret(found: re.Match[str]) -> str:
            value = find(found[1])
            if not value:
                problem = f"it needs the secret {found[1]!r}, which is not stored"
                raise ValueError(f"{problem}; store it for your tenant")
            return value

        headers = {name: SECRET.sub(secret, value) for name, value in self.headers.items()}
        env = {name: SECRET.sub(secret, value) for name, value in self.env.items()}
        try:
            return self.model_validate({**dict(self), "headers": headers, "env": env})
        except ValidationError as error:
            field = error.errors()[0]["loc"][0]
            problem = f"a secret in its {field} has a character that is not allowed there"
        raise ValueError(f"{problem}; store it again")

    @model_validator(mode="after")
    def _one_way_in(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either a command (stdio) or a url (streamable HTTP)")
        return self


class Provider(Closed):
    """A server of models, under a name that the operator chooses."""

    kind: Name
    """The LangChain provider that speaks its protocol, such as ``openai``."""
    base_url: Annotated[str | None, Field(pattern=r"^https?://\S+$")] = None
    needs_key: bool = True
    """Whether it needs a key: the secret called <name>_api_key."""


class TokenIssuer(Closed):
    """An issuer of JWTs that authenticate users, with its public keys in a file."""

    issuer: Annotated[str, Field(min_length=1, max_length=500)]
    audience: Annotated[str, Field(min_length=1, max_length=500)]
    jwks: Annotated[str, Field(min_length=1)]
    """The file with its public keys."""
    tenant_claim: Annotated[str, Field(min_length=1)] = "tenant"
    role_claim: Annotated[str, Field(min_length=1)] = "role"
    """The claim with the role; without it a token has the role member."""


_UNITS = {"m": 60, "h": 3600, "d": 24 * 3600}
Age = Annotated[str, Field(pattern=r"^([1-9][0-9]{0,4}[mhd]|never)$")]
"""A duration in minutes, hours or days."""


def seconds(age: Age | None) -> int | None:
    """The duration in seconds; None for never."""
    return None if age in (None, "never") else int(age[:-1]) * _UNITS[age[-1]]


class Retention(Closed):
    """How long sessions are kept, and how."""

    compact_after: Age | None = None
    """Envelopes of this age are stored compactly; readers see no difference."""
    delete_after: Age | None = None
    """A session without activity for this long is deleted, and an upload that no session uses."""


class RetentionOfAll(Retention):
    """The retention of all tenants, with exceptions for some."""

    tenants: dict[Name, Retention] = {}

    def of(self, tenant: str) -> Retention:
        own = self.tenants.get(tenant, Retention())
        compact_after = own.compact_after or self.compact_after
        delete_after = own.delete_after or self.delete_after
        return Retention(compact_after=compact_after, delete_after=delete_after)


def _is_network(text: str) -> str:
    ip_network(text)  # a ValueError says what is wrong with it
    return text


class WebhookPolicy(Closed):
    """Which addresses the ends of runs may be reported to."""

    enabled: bool = True
    allowed_hosts: list[Annotated[str, Field(min_length=1, max_length=255)]] = []
    """Names, or patterns such as ``*.example.com``; if empty, every public host."""
    allowed_ports: list[Annotated[int, Field(ge=1, le=65535)]] = []
    """If empty, every port."""
    private_networks: list[Annotated[str, AfterValidator(_is_network)]] = []
    """Networks that are allowed although they are not public, such as ``10.1.0.0/16``."""
    allow_http: bool = False
    """Whether the body may be sent unencrypted."""


ALL_GRAPHS = "all"


def of_graph(listed: Mapping[str, Iterable[str]], graph: str) -> tuple[str, ...]:
    """What a field of the operator's file lists for a graph, and for all graphs."""
    return (*listed.get(ALL_GRAPHS, ()), *listed.get(graph, ()))


StoreScope = Literal["user", "shared"]


class StoreIndex(Closed):
    """The index of the store, for semantic search."""

    embed: Annotated[str, Field(min_length=3, max_length=500, pattern=r"^[^:\s]+:\S+$")]
    """``provider:model``, as LangChain names them; or a function, ``file.py:name`` or ``package.module:name``."""
    dims: Annotated[int, Field(ge=1, le=65_536)]
    """How many numbers its vectors have."""
    fields: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1)] = ["$"]
    """Paths of the texts in an item that are searched; ``$`` is the whole item."""


class StoreTtl(Closed):
    """When items of the store expire."""

    default_ttl: Annotated[float | None, Field(gt=0, le=1e8)] = None
    """Minutes, for items that graphs store without a ``ttl``; by default these never expire."""
    refresh_on_read: bool = True
    """Whether the time begins again when an item is read or found."""


class Store(Closed):
    """LangGraph's store."""

    scope: dict[Name, StoreScope] = {}
    """Whether each user has a store of their own, by graph; ``all`` is all graphs, and agents from YAML."""
    index: StoreIndex | None = None
    ttl: StoreTtl = StoreTtl()


_MEMORY = {"m": 1 << 20, "g": 1 << 30}


class GraphProcess(Closed):
    """How the process of a graph is started."""

    python: Annotated[str | None, Field(min_length=1, max_length=500)] = None
    """The folder of a virtual environment, or its interpreter; by default the server's own."""
    memory: Annotated[str | None, Field(pattern=r"^[1-9][0-9]{0,5}[mg]$")] = None
    """The most that one process may have: 512m, 2g. By default there is no limit."""
    processes: Annotated[int, Field(ge=1, le=1000)] = 4
    """Processes at one time; if all of them have as many runs as they should, further runs share them."""
    runs: Annotated[int, Field(ge=1, le=1000)] = 8
    """Runs that share a process before the next one is started; 1 for graphs that crash or block their process."""

    @property
    def memory_bytes(self) -> int | None:
        return None if self.memory is None else int(self.memory[:-1]) * _MEMORY[self.memory[-1]]


class Operator(Closed):
    """The operator's file, named by ``--config``."""

    mcp_servers: dict[Name, McpServer] = {}
    providers: dict[Name, Provider] = {}
    tools: list[Reference] = []
    """Functions decorated with ``stellwerk.tool``, beside those that installed packages bring."""
    graphs: dict[Name, Reference] = {}
    graph_inputs: dict[Name, Annotated[str, Field(min_length=1, max_length=200)]] = {}
    """For a graph whose input has no ``messages``: the key that takes the user's text."""
    state_types: dict[Name, list[Reference]] = {}
    """Types that stored state may hold beside those of its schemas, by graph; ``all`` is all graphs."""
    idempotent_tools: dict[Name, list[Annotated[str, Field(min_length=1, max_length=200)]]] = {}
    """Tools that may be repeated after a crash, by graph; ``all`` is all graphs."""
    non_idempotent_nodes: dict[Name, list[Annotated[str, Field(min_length=1, max_length=200)]]] = {}
    """Nodes that must not be repeated after a crash, by graph."""
    store: Store = Store()
    """What graphs remember beyond a session."""
    isolate: dict[Name, GraphProcess] = {}
    """Graphs that run in processes of their own; ``all`` is all graphs."""
    graph_images: list[Name] = []
    """Graphs that get the images of a message in its content, because their models take them."""
    tokens: TokenIssuer | None = None
    """The issuer whose JWTs are accepted, beside API keys."""
    webhooks: WebhookPolicy = WebhookPolicy()
    retention: RetentionOfAll = RetentionOfAll()
    """How long the sessions of each tenant are kept; for ever if absent."""
