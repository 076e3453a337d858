"""The context of a run: what the server offers to code in a graph.

The runner sets a ``RunContext`` around the graph. Without a server nothing is offered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from stellwerk.agents.graphs.input import field_types
from stellwerk.agents.graphs.state_types import hints_of
from stellwerk.agents.runtime.langgraph_features import RunControl
from stellwerk.agents.runtime.session_user import USER_KEYS
from stellwerk.database.port import Database, Operation
from stellwerk.documents.store import DocumentStore
from stellwerk.envelope.introspection import Blob
from stellwerk.envelope.results import ToolResult
from stellwerk.errors import CorruptStore, NotFound
from stellwerk.stream.facts import CheckpointSaved
from stellwerk.tenants.quotas import RunUsage
from stellwerk.timings import Timings


class Pause(RunControl):
    """Asks a running graph to finish its step and stop."""

    __slots__ = ("_when_requested",)

    def __init__(self) -> None:
        super().__init__()
        self._when_requested: Callable[[], None] = lambda: None

    def when_requested(self, call: Callable[[], None]) -> None:
        """Call it when the pause is requested: a graph in another process does not see this object."""
        self._when_requested = call
        if self.drain_requested:
            call()

    def request_drain(self, reason: str = "shutdown") -> None:
        super().request_drain(reason)
        self._when_requested()


class Journal(Protocol):
    """Commits checkpoints and files of tools together with the run's envelopes.

    A checkpoint, its envelope and all earlier envelopes of the run are one transaction, so log and
    checkpoints can never disagree.
    """

    async def commit_with(self, operation: Operation[Any, Any], item: Any, fact: CheckpointSaved | None) -> None:
        """Commit the item together with the fact and all facts before it."""

    async def stored(self) -> None:
        """Return when all facts so far are stored."""

    async def keep(self, result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        """Store the files of a result, and return the result with references to them."""


class ServerCalls(Protocol):
    """Answers calls of LangGraph's SDK that are made in a run."""

    async def answer(self, method: str, path: tuple[str, ...], given: dict[str, Any]) -> Any:
        """Return the answer, as JSON."""


@dataclass
class SessionDocuments:
    """The documents of the session in which a graph runs."""

    database: Database
    store: DocumentStore
    tenant: str
    session_id: str

    async def size(self, document_id: str) -> int | None:
        """Bytes of a document; None if it is gone."""
        found = await self.store.find(self.tenant, document_id)
        return None if found is None else found.size

    async def original(self, document_id: str) -> bytes | None:
        """The content of a document; None if it is gone."""
        try:
            return await self.store.read(self.tenant, document_id)
        except (NotFound, CorruptStore):
            return None


@dataclass(frozen=True, slots=True)
class RunContext:
    journal: Journal | None = None
    documents: SessionDocuments | None = None
    usage: RunUsage | None = None
    """Counts what the run uses, and knows the quotas of its tenant and session."""
    data: Path | None = None
    """The data folder of the tenant."""
    timings: Timings = Timings()
    system: str = ""
    """The agent system that runs."""
    user: str | None = None
    """The user of the session."""
    server: ServerCalls | None = None
    """What its code may ask of the server."""


_NO_SERVER = RunContext()
_current: ContextVar[RunContext] = ContextVar("stellwerk_run", default=_NO_SERVER)


def run_context() -> RunContext:
    return _current.get()


def run_context_in(context: Context) -> RunContext:
    """The run of a task, by the context of the task."""
    return context.get(_current, _NO_SERVER)


@contextmanager
def running_in(context: RunContext) -> Iterator[None]:
    """Code inside the block finds this context."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


async def keep(result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
    """Store the files of a tool's result with the current run; outside of a run, do not."""
    journal = run_context().journal
    return result if journal is None else await journal.keep(result, blobs)


def check_quotas() -> None:
    """Raise ``QuotaExceeded`` if a quota of the tenant or the session is used up."""
    if (usage := run_context().usage) is not None:
        usage.check()


def data_folder() -> Path:
    """Where tools keep files of their own: an absolute path below the server's data folder.

    Without a server, as in `stellwerk run`, it is below the folder that the settings name.
    """
    from stellwerk.settings import Settings  # not in the environments of isolated graphs

    return (run_context().data or Settings().data).absolute() / "files"


def wants_user_id(graph: Pregel[Any, Any, Any, Any]) -> bool:
    return not hints_of(graph.context_schema).keys().isdisjoint(USER_KEYS)


def graph_context(
    graph: Pregel[Any, Any, Any, Any], config: RunnableConfig, given: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The context argument of a graph call; None if the graph has no context schema.

    It is what the message gives, and from ``configurable`` the user and other fields of the schema.
    """
    if graph.context_schema is None:
        return None
    configurable = config.get("configurable") or {}
    found = {key: configurable[key] for key in field_types(graph.context_schema) if configurable.get(key) is not None}
    return {**found, **(given or {})}
