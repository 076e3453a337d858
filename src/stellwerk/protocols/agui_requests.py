"""RunAgentInput, the body of every AG-UI request: what of it is new, and what it says to questions.

A client sends its whole list of messages each time. Only the end of it is read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from stellwerk.agents.graphs.input import GraphInput
from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.api.schema.shared import TEXT_LIMIT
from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.runs.commands import IfBusy
from stellwerk.spec.model import ChatMessage

_NULL = msgspec.Raw(b"null")


class FileSource(msgspec.Struct, rename="camel"):
    type: str = ""
    value: str = ""
    mime_type: str | None = None


class Part(msgspec.Struct, rename="camel"):
    """Of a user's message. Older clients have ``binary`` parts, with the fields of a source in themselves."""

    type: str = ""
    text: str = ""
    source: FileSource | None = None
    mime_type: str | None = None
    id: str | None = None
    url: str | None = None
    data: str | None = None
    filename: str | None = None
    metadata: Any = None

    @property
    def name(self) -> str | None:
        known = self.metadata.get("filename") if isinstance(self.metadata, dict) else None
        return self.filename or (known if isinstance(known, str) else None)

    @property
    def address(self) -> str:
        """Its bytes as a data URL, or the address of a stored file."""
        source = self.source or FileSource(type="data", value=self.data or "", mime_type=self.mime_type)
        if self.source is None and (self.url or self.id):
            return self.url or f"/files/{self.id}"
        if source.type == "data":
            return f"data:{source.mime_type or ''};base64,{source.value}"
        return source.value


class Sent(msgspec.Struct, rename="camel"):
    """A message of the client's list."""

    id: str = ""
    role: str = ""
    content: msgspec.Raw = _NULL
    tool_call_id: str | None = None

    @property
    def parts(self) -> list[Part]:
        """
        Raises:
            InvalidField: the content is neither text nor a list of parts.
        """
        try:
            content = msgspec.json.decode(self.content, type=str | list[Part] | None)
        except msgspec.ValidationError as error:
            said = f"messages: the content of {self.id[:60]!r} is neither text nor a list of parts"
            raise InvalidField(said, field="messages") from error
        return [Part(type="text", text=content)] if isinstance(content, str) else content or []

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.type == "text" and part.text)


class Resume(msgspec.Struct, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None


class Props(msgspec.Struct, rename="camel"):
    """What this server reads of ``forwardedProps``."""

    on_disconnect: Literal["stop", "continue"] | None = None
    if_busy: IfBusy = "reject"
    input: Any = None
    config: dict[str, Any] | None = None
    context: dict[str, Any] | None = None


class RunInput(msgspec.Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[Sent] = []
    resume: list[Resume] | None = None
    state: Any = None
    tools: Any = None
    context: Any = None
    forwarded_props: Any = None
    protocol_version: str | None = None

    @property
    def is_before_1(self) -> bool:
        return self.protocol_version is None or self.protocol_version.startswith("0")

    @property
    def known(self) -> frozenset[str]:
        return frozenset(message.id for message in self.messages)

    @property
    def props(self) -> Props:
        """
        Raises:
            InvalidField: one of them has another type.
        """
        given = self.forwarded_props if isinstance(self.forwarded_props, dict) else {}
        try:
            return msgspec.convert(given, Props)
        except msgspec.ValidationError as error:
            raise InvalidField(f"forwardedProps: {error}", field="forwardedProps") from error


@dataclass(frozen=True, slots=True)
class NewMessages:
    """The end of a list of messages: those of the user since the agent's last one."""

    user: list[Sent]
    results: list[Sent]
    """Results of tools there: a front end may show a question as a tool of its own."""
    earlier: list[Sent]
    """All in front of them."""

    @property
    def text(self) -> str:
        text = "\n\n".join(filter(None, (message.text for message in self.user)))
        if len(text) > TEXT_LIMIT:
            raise InvalidField(f"messages: a text has at most {TEXT_LIMIT} characters; send a file", field="messages")
        return text

    @property
    def files(self) -> Iterator[Part]:
        return (part for message in self.user for part in message.parts if part.type != "text")

    @property
    def conversation(self) -> list[ChatMessage]:
        """The earlier messages, of a conversation that began elsewhere."""
        return [
            ChatMessage(role="user" if each.role == "user" else "assistant", content=each.text)
            for each in self.earlier
            if each.role in ("user", "assistant") and each.text
        ]


def new_messages(messages: list[Sent]) -> NewMessages:
    end = len(messages)
    while end and messages[end - 1].role != "assistant":
        end -= 1
    last = messages[end:]
    return NewMessages(
        [each for each in last if each.role == "user"], [each for each in last if each.role == "tool"], messages[:end]
    )


def answer_of(given: Resume, asked: Asked | None) -> Answered:
    """The answer to a question. Approvals are also taken in the form of the protocol's own examples."""
    payload = given.payload
    if given.status == "cancelled":
        return Answered(ask_id=given.interrupt_id, refused=True, text=payload if isinstance(payload, str) else None)
    if isinstance(payload, str):
        return Answered(ask_id=given.interrupt_id, text=payload)
    if asked is not None and asked.kind == "approval":
        if payload is None:
            payload = {"type": "approve"}
        elif isinstance(payload, dict) and isinstance(payload.get("approved"), bool):
            return _approved(given.interrupt_id, payload, asked)
    return Answered(ask_id=given.interrupt_id, data=payload)


def _approved(ask_id: str, payload: dict[str, Any], asked: Asked) -> Answered:
    if not payload["approved"]:
        reason = payload.get("reason")
        return Answered(ask_id=ask_id, refused=True, text=reason if isinstance(reason, str) else None)
    edited = payload.get("editedArgs")
    if edited is None:
        return Answered(ask_id=ask_id, data={"type": "approve"})
    return Answered(ask_id=ask_id, data={"type": "edit", "edited_action": {"name": asked.tool_name, "args": edited}})


def parameters_of(body: RunInput, props: Props, graph_input: GraphInput) -> RunParameters:
    """Input, config and context of a run: as given in ``forwardedProps``, and what a graph declares to read.

    A graph of the operator takes keys of the shared state that are fields of its input, and the tools
    and the context of the front end under the names that LangGraph's integrations use.
    """
    given = props.input
    fields = graph_input.shape.fields
    if graph_input.own_graph and fields and (given is None or isinstance(given, dict)):
        state = body.state if isinstance(body.state, dict) else {}
        read = {key: value for key, value in state.items() if key in fields and key != graph_input.key}
        for name, tools in (("copilotkit", "actions"), ("ag-ui", "tools")):
            if name in fields and (body.tools or body.context):
                read[name] = {tools: body.tools or [], "context": body.context or []}
        given = {**read, **(given or {})} or None
    return RunParameters(input=given, config=props.config, context=props.context)
