"""Payloads of envelopes: one frozen, closed type per envelope type.

A field at its default is not written. Values typed ``Json`` have been through
``to_json.canonical``; nothing else may be put there.
"""

from typing import Any, Literal

from msgspec import Struct

from stellwerk.envelope.results import ToolResult

Json = Any
"""A value that the canonicaliser returned."""

RunStatus = Literal["completed", "awaiting_user", "stopped", "failed"]
CallStatus = Literal["ok", "error", "abandoned"]
Level = Literal["info", "warning", "error"]


_NAMES = {"sanitized": "_sanitized", "class_": "class"}


class Payload(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename=_NAMES):
    """Closed and frozen, like the envelope around it."""

    sanitized: list[str] | None = None
    """Changes that the canonicaliser made in the values below."""
    redacted: bool = False
    """Erased on request: the content is gone, and only its place in the log is left."""


class Usage(Payload, frozen=True, kw_only=True):
    """Tokens of one model, as the provider counted them."""

    model: str
    input_tokens: int = 0
    output_tokens: int = 0


class RunStarted(Payload, frozen=True, kw_only=True):
    round: int
    trigger: Literal["message", "answer", "regenerate", "stop"]
    system: str
    system_version: int
    message_id: str | None = None
    ask_ids: list[str] | None = None
    replaces: str | None = None
    """A run of the round that this one replaces, together with all later rounds."""
    start_at: float | None = None
    """When a delayed run starts, at the earliest."""


class RunEnded(Payload, frozen=True, kw_only=True):
    status: RunStatus
    usage: list[Usage] = []
    result: str | None = None
    reason: str | None = None
    code: str | None = None


class TextPart(Payload, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str


ATTACHED = "[attached "
"""The beginning of the line that names an attached file to the agent."""


class FilePart(Payload, frozen=True, kw_only=True, tag_field="type", tag="file"):
    document_id: str
    filename: str
    mime: str

    @property
    def as_text(self) -> str:
        """The line that an agent reads."""
        return f"{ATTACHED}{self.filename}, document_id {self.document_id}]"


class Said(Payload, frozen=True, kw_only=True):
    """A message, whole. It appears once, when it is finished."""

    message_id: str
    role: Literal["user", "assistant", "system", "tool"]
    content: list[TextPart | FilePart]
    status: Literal["first", "step", "last"]
    parent_message_id: str | None = None
    documents: list[str] | None = None
    author: str | None = None
    started_at: float | None = None
    action: Literal["added", "removed"] = "added"
    input: Json = None
    """Further input of the graph: an object with keys of its input schema, or its whole input."""
    config: dict[str, Json] | None = None
    """Of the run: configurable, recursion_limit, tags, metadata, run_name. Secrets are references."""
    context: dict[str, Json] | None = None
    """The run's context, by the graph's context schema. Secrets are references."""
    output: Json = None
    """The answer as data, if the graph ends with structured output; ``content`` has it as text."""

    @property
    def text(self) -> str:
        """Its text, without its files."""
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))


class ModelCalled(Payload, frozen=True, kw_only=True):
    model: str
    message_id: str
    params: dict[str, Json] = {}
    node: str | None = None
    messages: list[Json] | None = None
    """The redacted input, where the system sets ``store_prompts``."""
    draft: bool = False
    """Its text becomes a message only if the graph puts it into its state."""


class Token(Payload, frozen=True, kw_only=True):
    text: str
    kind: Literal["text", "reasoning"] = "text"
    block: int = 0
    logprob: float | None = None


class ToolCallRef(Payload, frozen=True, kw_only=True):
    name: str
    tool_call_id: str
    args: dict[str, Json] | None = None
    """The arguments as written; a refused or unapproved call has no ``tool_start`` to hold them."""


class ModelEnded(Payload, frozen=True, kw_only=True):
    message_id: str
    status: CallStatus
    usage: Usage | None = None
    finish_reason: str | None = None
    tool_calls: list[ToolCallRef] | None = None
    synthesized: bool = False


class ToolCalled(Payload, frozen=True, kw_only=True):
    tool_name: str
    tool_call_id: str
    args: dict[str, Json] = {}
    input: Json = None
    node: str | None = None
    kind: Literal["tool", "agent", "graph"] = "tool"
    title: str | None = None
    meta: Json = None
    retry_of: str | None = None
    """The interrupted call that this one repeats."""
    idempotent: bool = False
    """It may be called again after an interruption."""


class ToolUpdated(Payload, frozen=True, kw_only=True):
    phase: Literal["args", "output"]
    """Arguments, as a model writes them; or output, as the tool streams it."""
    text: str | None = None
    data: Json = None
    tool_call_id: str | None = None
    """The call whose arguments are being written; not started, so the model call owns this."""
    tool_name: str | None = None


class Outcome(Payload, frozen=True, kw_only=True):
    """What a sub-agent or sub-graph leaves behind, in one shape for all of them."""

    messages: list[Json] = []
    files: dict[str, Json] = {}
    usage: list[Usage] = []


class Failure(Payload, frozen=True, kw_only=True):
    message: str
    code: str | None = None
    class_: str | None = None


class ToolEnded(Payload, frozen=True, kw_only=True):
    tool_name: str
    tool_call_id: str
    status: CallStatus
    result: ToolResult | None = None
    error: Failure | None = None
    duration: float | None = None
    outcome: Outcome | None = None
    synthesized: bool = False
    written_by_node: bool = False
    """A node wrote this result itself: no tool was seen to run, nor with which arguments."""


class Checkpointed(Payload, frozen=True, kw_only=True):
    checkpoint_id: str
    node: str
    state_digest: str


class Resumed(Payload, frozen=True, kw_only=True):
    checkpoint_id: str
    node: str
    attempt: int


class Asked(Payload, frozen=True, kw_only=True):
    ask_id: str
    question: str
    kind: Literal["question", "approval", "elicitation"] = "question"
    """An open question, a tool call that needs approval, or an elicitation of an MCP server."""
    schema: Json = None
    """The JSON Schema of the answer's data."""
    options: list[Json] | None = None
    default: Json = None
    """The answer if there is no user to ask."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Json = None
    """The arguments of the call that needs approval."""
    data: Json = None
    """The value of the interrupt, if the graph has a form of its own."""
    interrupt_id: str | None = None
    """The interrupt that asks about several actions, of which this is one."""


class Answered(Payload, frozen=True, kw_only=True):
    ask_id: str
    text: str | None = None
    data: Json = None
    refused: bool = False


class StateChanged(Payload, frozen=True, kw_only=True):
    name: str
    version: int
    snapshot: Json = None
    patch: list[Json] | None = None
    """RFC 6902, against the previous version."""
    owner: str | None = None
    node: str | None = None
    """The node that changed it."""


class Updated(Payload, frozen=True, kw_only=True):
    node: str
    delta: Json
    namespace: list[str] = []
    by: Literal["user"] | None = None
    """A client changed the state; no node ran."""
    no_calls: bool = False
    """The node called neither a model nor a tool: only this says that it ran, in the profile ``user`` too."""


class Filed(Payload, frozen=True, kw_only=True):
    document_id: str
    name: str
    mime: str
    size: int
    digest: str
    ext: str = ""
    action: Literal["added", "removed"] = "added"
    message_id: str | None = None

    @classmethod
    def of(cls, document_id: str, filename: str, mime: str, size: int, *, message_id: str | None) -> "Filed":
        """Describe a file that is stored under its digest."""
        ext = filename.rpartition(".")[2] if "." in filename else ""
        return cls(
            document_id=document_id,
            name=filename,
            mime=mime,
            size=size,
            digest=document_id,
            ext=ext,
            message_id=message_id,
        )


class Logged(Payload, frozen=True, kw_only=True):
    message: str
    level: Level = "info"
    progress: int | None = None
    status: str | None = None
    data: Json = None
    """The value that a node wrote to its stream, if it was more than text."""


class StopAsked(Payload, frozen=True, kw_only=True):
    by: str
    reason: str | None = None


class Problem(Payload, frozen=True, kw_only=True):
    """Something went wrong. A stack trace is for the operator's log, never for here."""

    code: str
    message: str
    retryable: bool = False
    fatal: bool = False
    name: str | None = None
    class_: str | None = None
    detail: str | None = None
    """The text of an unexpected exception; not in the profile ``user`` of a server with keys."""
