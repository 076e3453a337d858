"""What keeps an agent, a system or the server from being built."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from stellwerk.errors.base import StellwerkError


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

    def __init__(
        self, message: str, *, field: str | None = None, problems: tuple[SpecProblem, ...] = (), source: str = ""
    ) -> None:
        super().__init__(message, field=field)
        self.problems, self.source = problems, source

    @staticmethod
    def of(source: str, problems: tuple[SpecProblem, ...]) -> "SpecError":
        """All problems of one document, a line for each."""
        lines = "\n".join(problem.sentence(source) for problem in problems)
        return SpecError(lines, field=problems[0].field or None, problems=problems, source=source)


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
            f"For the tenant 'local' the server also takes it from its environment variable {secret.upper()}"
        )


class MissingPackage(StellwerkError):
    """``install`` is the argument of pip, such as ``path/to/stellwerk[openai]``: a clone, as no index has Stellwerk."""

    code = "missing_package"
    status = 501

    def __init__(self, user: str, *, install: str) -> None:
        super().__init__(f"{user} needs a package that is not installed: pip install '{install}'")


class McpUnreachable(StellwerkError):
    code = "mcp_unreachable"
    status = 503

    def __init__(self, server: str, problem: str) -> None:
        self.server = server
        super().__init__(f"the MCP server {server!r} cannot be reached: {problem}")


class SystemChanged(StellwerkError):
    """A round uses the version it began with; if that cannot be built any more, the run fails."""

    code = "system_changed"
    status = 409

    def __init__(self, name: str, version: int, reason: str) -> None:
        super().__init__(f"version {version} of {name!r} can no longer be built here: {reason}")


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
