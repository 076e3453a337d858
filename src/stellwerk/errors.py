"""Every exception that Stellwerk raises on purpose: what happened, and what to do now.

StellwerkError
├── InvalidInput        400  the request cannot be understood; names the field
│   ├── BadCursor       400  a cursor that is no position
│   ├── InvalidField    422  a field with a value that cannot be accepted
│   └── TooLarge        413  more bytes than one request may have
├── SpecError           422  an agent system that cannot be built
│   ├── UnknownProvider 422  a model of a provider that nobody knows
│   └── UnknownTool     422  a tool that nobody registered
├── SystemChanged       409  a registered system that can no longer be built here
├── MissingSecret       409  a key that a model or tool needs and nobody stored
├── MissingPackage      501  an optional package that is not installed
├── ScriptedFailure      —   the scripted model fails because its script says so
├── ToolTimeout          —   a tool took longer than it may
├── ToolFailed           —   a tool ended without a result
├── McpUnreachable      503  an MCP server that does not answer or cannot be started
├── NotFound            404  no such session, system, …; also: not yours
├── Refused             403  a request from a page or host that we do not trust
├── Conflict            409  not in this state of the session
│   └── PatchRefused    409  a change of the checklist that does not fit its state
├── Overloaded          429  more runs are waiting than the server takes
├── StorageFull         507  the disk is full; nothing was written
├── StorageGone         503  the database cannot be reached or is closing
├── QuotaExceeded        —   the run has used up what it may; it ends as failed
├── Fenced               —   the lease has moved on; stop at once, write nothing more
├── CorruptStore         —   stored bytes that must not be read
└── SettingsError        —   the server cannot start like this
    ├── BrokenReference  —   code that the operator named cannot be imported
    └── InvalidTool      —   a function that cannot be a tool as it is written
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class StellwerkError(Exception):
    """Something that was foreseen. ``code`` is stable; the message says what to do."""

    code = "internal"
    status = 500

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def headers(self) -> Mapping[str, str]:
        return {}


class InvalidInput(StellwerkError):
    code = "invalid_input"
    status = 400


class BadCursor(InvalidInput):
    code = "bad_cursor"

    def __init__(self, cursor: str) -> None:
        super().__init__(
            f"the cursor {cursor[:40]!r} is not a position; send the id of the last event you have, or 0 for all",
            field="after",
        )


class InvalidField(InvalidInput):
    code = "invalid_field"
    status = 422


class TooLarge(InvalidInput):
    code = "too_large"
    status = 413


@dataclass(frozen=True)
class SpecProblem:
    """One thing that is wrong in a document, and where."""

    message: str
    field: str = ""
    """Its path, such as ``agents[1].tools.allow[0]``; empty for the document as a whole."""
    line: int | None = None
    column: int | None = None

    def sentence(self, source: str) -> str:
        place = ":".join(str(part) for part in (source, self.line, self.column) if part is not None)
        return ": ".join(part for part in (place, self.field, self.message) if part)


class SpecError(StellwerkError):
    code = "invalid_system"
    status = 422

    def __init__(self, message: str, *, field: str | None = None, problems: tuple[SpecProblem, ...] = ()) -> None:
        super().__init__(message, field=field)
        self.problems = problems

    @staticmethod
    def of(source: str, problems: tuple[SpecProblem, ...]) -> "SpecError":
        """All problems of one document, a line for each."""
        lines = "\n".join(problem.sentence(source) for problem in problems)
        return SpecError(lines, field=problems[0].field or None, problems=problems)


class UnknownProvider(SpecError):
    code = "unknown_provider"

    def __init__(self, provider: str, *, known: Collection[str]) -> None:
        near = get_close_matches(provider, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"there is no provider {provider!r}; {hint}known are: {', '.join(sorted(known))}")


class UnknownTool(SpecError):
    code = "unknown_tool"

    def __init__(self, tool: str, *, known: Collection[str]) -> None:
        self.tool = tool
        near = get_close_matches(tool, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`stellwerk tools` lists those that are"
        super().__init__(f"the tool {tool[:80]!r} is not registered; {hint}")


class MissingSecret(StellwerkError):
    code = "missing_secret"
    status = 409

    def __init__(self, secret: str, *, user: str) -> None:
        super().__init__(
            f"{user} needs the secret {secret!r}, which is not stored; store it for the agent system or its tenant. "
            f"A server in local mode takes it from the environment variable {secret.upper()}"
        )


class MissingPackage(StellwerkError):
    """``install`` is what pip is told, such as ``stellwerk[openai]``."""

    code = "missing_package"
    status = 501

    def __init__(self, user: str, *, install: str) -> None:
        super().__init__(f"{user} needs a package that is not installed: pip install '{install}'")


class ScriptedFailure(StellwerkError):
    code = "scripted_failure"


class ToolTimeout(StellwerkError):
    code = "tool_timeout"

    def __init__(self, tool: str, seconds: float) -> None:
        self.tool, self.seconds = tool, seconds
        super().__init__(f"the tool {tool!r} took longer than {seconds:g} s and was given up; ask it for less at once")


class ToolFailed(StellwerkError):
    code = "tool_failed"

    def __init__(self, tool: str, problem: str) -> None:
        self.tool = tool
        super().__init__(f"the tool {tool!r} {problem}")


class McpUnreachable(StellwerkError):
    code = "mcp_unreachable"
    status = 503

    def __init__(self, server: str, problem: str) -> None:
        self.server = server
        super().__init__(f"the MCP server {server!r} cannot be reached: {problem}")


class NotFound(StellwerkError):
    status = 404

    def __init__(self, kind: str, name: str, *, remedy: str) -> None:
        self.code = f"unknown_{kind.replace(' ', '_')}"
        super().__init__(f"there is no {kind} {name[:80]!r}; {remedy}")


class SystemChanged(StellwerkError):
    """A round uses the version it began with; if that cannot be built any more, the run fails."""

    code = "system_changed"
    status = 409

    def __init__(self, name: str, version: int, reason: str) -> None:
        super().__init__(f"version {version} of {name!r} can no longer be built here: {reason}")


class Refused(StellwerkError):
    code = "refused"
    status = 403


class Conflict(StellwerkError):
    status = 409

    def __init__(self, message: str, *, code: str) -> None:
        self.code = code
        super().__init__(message)


class PatchRefused(Conflict):
    """A change of the checklist that was not made. A model reads the message, and tries again better."""


class _Later(StellwerkError):
    """Refused now, welcome later."""

    retry_after = 5

    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.retry_after)}


class Overloaded(_Later):
    code = "overloaded"
    status = 429


class StorageFull(_Later):
    code = "storage_full"
    status = 507
    retry_after = 60

    def __init__(self) -> None:
        super().__init__("the disk is full; nothing was written. Free some space and send this again")


class StorageGone(_Later):
    code = "storage_gone"
    status = 503


class QuotaExceeded(StellwerkError):
    """All agents of a run together have used up one of its quotas."""

    code = "quota_exceeded"

    def __init__(self, quota: str, *, used: float, limit: float) -> None:
        self.quota, self.used, self.limit = quota, used, limit
        super().__init__(
            f"the run has used {used:g} of the {limit:g} {quota} that one run may use; "
            f"ask for less at a time, or raise quotas.{quota} in the agent system"
        )


class Fenced(StellwerkError):
    """The lease has moved on: somebody else drives this session now."""

    code = "fenced"

    def __init__(self, session_id: str, epoch: int) -> None:
        self.session_id, self.epoch = session_id, epoch
        super().__init__(f"epoch {epoch} of session {session_id} is over; whoever held it writes nothing more")


class CorruptStore(StellwerkError):
    code = "corrupt_store"


class SettingsError(StellwerkError):
    code = "settings"


class BrokenReference(SettingsError):
    """The operator named code that cannot be imported, or that is not what it should be."""

    code = "broken_reference"

    def __init__(self, reference: str, problem: str) -> None:
        self.reference, self.problem = reference, problem
        super().__init__(f"{reference}: {problem}")

    @staticmethod
    def together(broken: "Sequence[BrokenReference]") -> "BrokenReference":
        """All of them as one, a line for each."""
        first, *others = broken
        lines = [first.problem, *(other.message for other in others)]
        return BrokenReference(first.reference, "\n".join(lines)) if others else first


class InvalidTool(SettingsError):
    """A function was to become a tool, or a tool to be registered, and cannot."""

    code = "invalid_tool"

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"the tool {tool!r} {problem}")
