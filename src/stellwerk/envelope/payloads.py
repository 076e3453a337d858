"""What an envelope says: one frozen, closed payload per type.

Absent means absent: a field at its default is not written. Values typed
``Json`` have been through the canonicaliser; nothing else may be put there.
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
    """What the canonicaliser had to change in the values below."""
    redacted: bool = False
    """Somebody had it removed: what it said is gone, and only its place is left."""


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
    """The run whose answer this one is to take the place of."""


class RunEnded(Payload, frozen=True, kw_only=True):
    status: RunStatus
    usage: list[Usage] = []
    result: str | None = None
    reason: str | None = None
    code: str | None = None


class TextPart(Payload, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str


ATTACHED = "[attached "
"""So begins what an agent reads of a file that came with a message, behind its words."""


class FilePart(Payload, frozen=True, kw_only=True, tag_field="type", tag="file"):
    document_id: str
    filename: str
    mime: str

    @property
    def as_text(self) -> str:
        """What an agent reads of it."""
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

    @property
    def text(self) -> str:
        """Its words, without its files."""
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))


class ModelCalled(Payload, frozen=True, kw_only=True):
    model: str
    message_id: str
    params: dict[str, Json] = {}
    node: str | None = None
    messages: list[Json] | None = None
    """The redacted input, where the system sets ``store_prompts``."""


class Token(Payload, frozen=True, kw_only=True):
    text: str
    kind: Literal["text", "reasoning"] = "text"
    block: int = 0
    logprob: float | None = None


class ToolCallRef(Payload, frozen=True, kw_only=True):
    name: str
    tool_call_id: str
    args: dict[str, Json] | None = None
    """What the model wrote; a call that is refused, or waits for approval, has no other place for it."""


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
    """The call that was cut off and is repeated here."""
    idempotent: bool = False
    """It may be called again if it is cut off."""


class ToolUpdated(Payload, frozen=True, kw_only=True):
    phase: Literal["args", "output"]
    """Arguments, as a model writes them; or output, as the tool gives it out."""
    text: str | None = None
    data: Json = None
    tool_call_id: str | None = None
    """Of a call whose arguments are being written. It has not begun, so the envelope belongs to the model call."""
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
    """An open question, a tool call that wants approval, or what an MCP server wants to be told."""
    schema: Json = None
    """What the answer's data must look like."""
    options: list[Json] | None = None
    default: Json = None
    """Taken when nobody can answer."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Json = None
    """Of the call that wants approval."""
    data: Json = None
    """What the graph asked, if it has a form of its own."""


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
    """RFC 6902, against the version before."""
    owner: str | None = None
    node: str | None = None
    """Of the graph, which changed it."""


class Updated(Payload, frozen=True, kw_only=True):
    node: str
    delta: Json
    namespace: list[str] = []


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
        """A file that is stored under its digest, whoever brought it."""
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
    """What a node wrote to its stream, if it was more than text."""


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
