"""Every exception that Stellwerk raises on purpose; its message says what happened and what to do next.

The head of each class names its code, which is stable, and the HTTP status. An error without a
status of its own keeps the server from starting, or ends a run or a call.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil
from typing import Final, Self


class StellwerkError(Exception):
    code = "internal"
    status = 500

    def __init_subclass__(cls, code: str | None = None, status: int | None = None) -> None:
        cls.code = code or cls.code
        cls.status = status or cls.status

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def headers(self) -> Mapping[str, str]:
        return {}


# Requests that cannot be served.


class InvalidInput(StellwerkError, code="invalid_input", status=400):
    """A request that cannot be understood."""


class MalformedJson(InvalidInput, code="malformed_json"):
    """A body or a frame that is not JSON."""


class BadCursor(InvalidInput, code="bad_cursor"):
    def __init__(self, cursor: str) -> None:
        remedy = "send the id of the last event you have, or 0 for all"
        super().__init__(f"the cursor {cursor[:40]!r} is not a position; {remedy}", field="after")


class InvalidField(InvalidInput, code="invalid_field", status=422):
    """A field with a value that cannot be accepted."""


class TooLarge(InvalidInput, code="too_large", status=413):
    """More bytes than one request may have."""


class HeadersTooLarge(InvalidInput, code="headers_too_large", status=431):
    """More bytes than the headers of a request may have."""


class WrongMediaType(InvalidInput, code="unsupported_media_type", status=415):
    """A body of a type that the route does not accept."""


class NotFound(StellwerkError, status=404):
    """There is no such session, system, …, or it belongs to another tenant."""

    def __init__(self, kind: str, name: str, *, remedy: str) -> None:
        self.code = f"unknown_{kind.replace(' ', '_')}"
        super().__init__(f"there is no {kind} {name[:80]!r}; {remedy}")


class Unauthorized(StellwerkError, code="unauthorized", status=401):
    """The request is not authenticated."""

    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": "Bearer"}


class Forbidden(StellwerkError, code="forbidden", status=403):
    """The caller is authenticated, but lacks the permission."""


class Refused(StellwerkError, code="refused", status=403):
    """A request from an Origin, or to a Host, that is not trusted."""


class Conflict(StellwerkError, status=409):
    """Not possible in the current state of the session."""

    def __init__(self, message: str, *, code: str) -> None:
        self.code = code
        super().__init__(message)


class PatchRefused(Conflict):
    """A change of the checklist that was not made. A model reads the message and tries again."""


class _Later(StellwerkError):
    """Rejected now; the same request may succeed later."""

    retry_after = 5

    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.retry_after)}


class Overloaded(_Later, code="overloaded", status=429):
    """More runs are waiting than the server accepts."""


class LimitReached(_Later, code="limit_reached", status=429):
    """A tenant, or a session, has used up one of its limits."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = max(1, ceil(retry_after))


class StorageFull(_Later, code="storage_full", status=507):
    retry_after = 60

    def __init__(self) -> None:
        super().__init__("the disk is full; nothing was written. Free some space and send this again")


class EmbeddingFailed(_Later, code="embedding_failed", status=503):
    """The embedding model of the store's index did not answer as it should; nothing was stored."""

    def __init__(self, message: str, *, is_wrong: bool = False) -> None:
        self.is_wrong = is_wrong
        """Whether it answered, with vectors that cannot be used."""
        super().__init__(message)


class StorageGone(_Later, code="storage_gone", status=503):
    """The database cannot be reached, or was deleted or replaced."""


class StorageClosed(StorageGone):
    """The process will not open the database again, so waiting for it is useless."""

    def __init__(self) -> None:
        super().__init__("the server is shutting down; send this again when it is back")


# Agents, systems and servers that cannot be built.


@dataclass(frozen=True)
class SpecProblem:
    """One problem in a document, and where it is."""

    message: str
    field: str = ""
    """Its path, such as ``agents[1].tools.allow[0]``; empty for the document as a whole."""
    line: int | None = None
    column: int | None = None

    def sentence(self, source: str) -> str:
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        return ": ".join(part for part in (place, self.field, self.message) if part)


class SpecError(StellwerkError, code="invalid_system", status=422):
    """An agent system that cannot be built."""

    def __init__(
        self, message: str, *, field: str | None = None, problems: tuple[SpecProblem, ...] = (), source: str = ""
    ) -> None:
        super().__init__(message, field=field)
        self.problems = problems
        self.source = source

    @staticmethod
    def of(source: str, problems: tuple[SpecProblem, ...]) -> "SpecError":
        """All problems of one document, a line for each."""
        lines = "\n".join(problem.sentence(source) for problem in problems)
        return SpecError(lines, field=problems[0].field or None, problems=problems, source=source)


class UnknownProvider(SpecError, code="unknown_provider"):
    def __init__(self, provider: str, *, known: Collection[str]) -> None:
        near = get_close_matches(provider, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"there is no provider {provider!r}; {hint}known are: {', '.join(sorted(known))}")


class UnknownTool(SpecError, code="unknown_tool"):
    def __init__(self, tool: str, *, known: Collection[str]) -> None:
        near = get_close_matches(tool, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`stellwerk tools` lists those that are"
        super().__init__(f"the tool {tool[:80]!r} is not registered; {hint}")


class MissingSecret(StellwerkError, code="missing_secret", status=409):
    def __init__(self, secret: str, *, user: str) -> None:
        super().__init__(
            f"{user} needs the secret {secret!r}, which is not stored; store it for the agent system or its tenant. "
            f"For the tenant 'local' the server also takes it from its environment variable {secret.upper()}"
        )


class MissingPackage(StellwerkError, code="missing_package", status=501):
    """``install`` is the argument of pip, such as ``path/to/stellwerk[openai]``: a clone, as no index has Stellwerk."""

    def __init__(self, user: str, *, install: str) -> None:
        super().__init__(f"{user} needs a package that is not installed: pip install '{install}'")


class McpUnreachable(StellwerkError, code="mcp_unreachable", status=503):
    def __init__(self, server: str, problem: str) -> None:
        super().__init__(f"the MCP server {server!r} cannot be reached: {problem}")


class SystemChanged(StellwerkError, code="system_changed", status=409):
    """A round uses the version it began with; if that cannot be built any more, the run fails."""

    def __init__(self, name: str, version: int, reason: str) -> None:
        super().__init__(f"version {version} of {name!r} can no longer be built here: {reason}")


class GraphUnusable(StellwerkError, code="graph_unusable", status=409):
    """A graph of the operator cannot be imported or built; the others are served."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the agent system {name!r} cannot be used: {reason}")


class SettingsError(StellwerkError, code="settings"):
    """The server, or a command, cannot start with these settings."""


class BrokenReference(SettingsError, code="broken_reference"):
    """The operator named code that cannot be imported, or that is not what it should be."""

    def __init__(self, reference: str, problem: str) -> None:
        self.reference = reference
        self.problem = problem
        super().__init__(f"{reference}: {problem}")

    @staticmethod
    def together(broken: "Sequence[BrokenReference]") -> "BrokenReference":
        """All of them as one, a line for each."""
        first, *others = broken
        lines = [first.problem, *(other.message for other in others)]
        return BrokenReference(first.reference, "\n".join(lines)) if others else first


class InvalidTool(SettingsError, code="invalid_tool"):
    """A function that cannot be a tool as it is written, or a tool that cannot be registered."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"the tool {tool!r} {problem}")


# Documents that cannot be read: a code for programs, a sentence for users.

REASONS: Final = {
    "document_empty": "there is nothing in it",
    "document_encrypted": "it is protected by a password; send a copy without one",
    "document_corrupt": "it is damaged, or not what its name says; open it, save it again and send that",
    "document_too_large": "it is too large to be read, or grows too large when it is unpacked; send it in parts",
    "document_too_many_members": "too many files are in it; send them in smaller archives",
    "document_unsupported": "this kind of file cannot be read here; send it as text, PDF, docx, xlsx or pptx",
    "document_timed_out": "reading it took too long and was given up; send it in parts",
    "document_needs_package": "a package that reads it is not installed: pip install 'path/to/stellwerk[documents]'",
}


class ExtractionError(StellwerkError, code="document_corrupt", status=422):
    """One document cannot be read. ``code`` is one of REASONS; a ``message`` replaces its text."""

    def __init__(self, code: str, detail: str = "", *, message: str = "") -> None:
        self.code = code
        super().__init__(message or (f"{REASONS[code]} ({detail})" if detail else REASONS[code]))


# Ends of runs and calls: recorded in the log, never the response to a request.


class ScriptedFailure(StellwerkError, code="scripted_failure"):
    """The scripted model fails where its script demands it."""


class ToolTimeout(StellwerkError, code="tool_timeout"):
    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(f"the tool {tool!r} took longer than {seconds:g} s and was given up; ask it for less at once")


class ToolFailed(StellwerkError, code="tool_failed"):
    """A tool ended without a result."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"the tool {tool!r} {problem}")


class PlanRefused(StellwerkError, code="plan_refused"):
    """The output of a project manager is no plan, or one that cannot be carried out."""


class QuotaExceeded(StellwerkError, code="quota_exceeded"):
    """The agents of a run have used up a quota of the run, or the runs of a tenant one of the tenant."""

    def __init__(self, quota: str, *, used: float, limit: float, message: str = "") -> None:
        super().__init__(
            message
            or f"the run has used {used:g} of the {limit:g} {quota} that one run may use; "
            f"ask for less at a time, or raise quotas.{quota} in the agent system"
        )


class Fenced(StellwerkError, code="fenced"):
    """The lease has moved on to another driver: stop at once and write nothing more."""

    def __init__(self, session_id: str, epoch: int) -> None:
        super().__init__(f"epoch {epoch} of session {session_id} is over; its driver writes nothing more")


class Crashed(StellwerkError, code="crashed"):
    """A run was cut off during work that must not be repeated."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the run was cut off and cannot go on: {reason}; send the message again if you want it done")


class Paused(StellwerkError, code="paused"):
    """The graph stopped between two steps because it was asked to."""

    def __init__(self) -> None:
        super().__init__("the graph was asked to pause, and can go on from its last checkpoint")


class NoUser(StellwerkError, code="no_user"):
    """A graph whose store is scoped by user runs for none."""

    def __init__(self, graph: str) -> None:
        super().__init__(
            f"the store of {graph!r} is scoped by user, and there is no user here; send user_id with POST /sessions, "
            "or give each user an API key or token of their own"
        )


class BlockedStore(StellwerkError, code="agent_failed"):
    """A synchronous method of the store, on the event loop that it needs itself."""

    def __init__(self) -> None:
        super().__init__(
            "a synchronous method of the store was called on the event loop, which would wait for itself for ever; "
            "await the asynchronous one (aget, aput, asearch …), or make the node or tool a plain def"
        )


class WorkerLost(StellwerkError, code="worker_lost", status=503):
    """The process of an isolated graph has ended, or cannot be started."""

    def __init__(self, how: str) -> None:
        super().__init__(f"the process of the graph is gone: {how}; try again, or see the server's log")


class BlockedLoop(StellwerkError, code="agent_failed"):
    """Synchronous code on the event loop, or a thread that the loop waits for, needs the loop to continue."""

    def __init__(self) -> None:
        super().__init__(
            "a graph was called with invoke() or stream() on the event loop, which would wait for itself for ever; "
            "await ainvoke() or astream() in an async function, or make the node or tool a plain def"
        )


class CorruptStore(StellwerkError, code="corrupt_store"):
    """Stored bytes that must not be deserialised."""

    def in_state(self, key: str) -> Self:
        """The same error, with the key of the state that has the value."""
        return type(self)(f"in the state key {key!r}, {self.message}")


class UnstorableState(CorruptStore, code="unstorable_state"):
    """A value in the state of a graph that no checkpoint can hold; nothing of it was stored."""
