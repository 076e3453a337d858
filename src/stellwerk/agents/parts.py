"""Parts: what ``astream`` says of a graph (its updates, its questions, its writers), as facts."""

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages

from stellwerk.agents.middleware.conversation import DOCUMENTS, STEP
from stellwerk.agents.shapes import payload_of, plain_id
from stellwerk.ids import Clock
from stellwerk.stream.facts import (
    AnswerAccepted,
    Emitted,
    Fact,
    Interrupted,
    MessageReturned,
    NodeUpdated,
    ToolAnswered,
)
from stellwerk.views.answering import BREAKPOINT, NO, YES

MODES = ("custom", "updates")
_BREAKPOINT = {"question": BREAKPOINT, "options": [YES, NO], "default": YES}
ACCEPTED = "validated_agent_output"
"""The key of the state under which an agent puts the answer that was found valid."""


def facts_of(part: Mapping[str, Any], clock: Clock) -> Iterator[Fact]:
    """The facts in one part; those about messages of the outermost graph are left to ``messages_of``."""
    space, data = "|".join(part["ns"]), part["data"]
    match part["type"]:
        case "custom":
            named = data.get("tool_call_id") if isinstance(data, dict) else None
            yield Emitted(clock.now(), space, data, named if isinstance(named, str) else None)
        case "updates":
            yield from _updates(space, data, clock)


def _updates(space: str, data: Mapping[str, Any], clock: Clock) -> Iterator[Fact]:
    repeated = bool((data.get("__metadata__") or {}).get("cached"))
    for node, update in data.items():
        if node == "__interrupt__":
            if not update:
                yield Interrupted(clock.now(), "", dict(_BREAKPOINT), None, space)
            for asked in update:
                yield Interrupted(clock.now(), str(asked.id), asked.value, _schema(asked.response_schema), space)
        elif node != "__metadata__":
            for change in update if isinstance(update, list) else [update]:
                yield from _change(space, node, change, clock, repeated)


def _change(space: str, node: str, change: Any, clock: Clock, repeated: bool) -> Iterator[Fact]:
    for message in _messages(change):
        if isinstance(message, ToolMessage) and not repeated:
            failed = message.status == "error"
            yield ToolAnswered(clock.now(), space, message.tool_call_id, payload_of(message), failed)
    if isinstance(change, Mapping) and change.get(ACCEPTED):
        spoken = [m for m in _messages(change) if isinstance(m, AIMessage)]
        if spoken:
            yield AnswerAccepted(clock.now(), plain_id(spoken[-1].id), str(change[ACCEPTED]))
    if isinstance(change, Mapping):
        change = {key: value for key, value in change.items() if key != "messages"}
    yield NodeUpdated(clock.now(), node, space, change, repeated)


def messages_of(part: Mapping[str, Any], clock: Clock, agent: str) -> Iterator[MessageReturned]:
    """AI messages that nodes of the outermost graph put into its state; those a model spoke are known already."""
    if part["type"] != "updates" or part["ns"]:
        return
    for node, update in part["data"].items():
        if node.startswith("__"):
            continue
        for change in update if isinstance(update, list) else [update]:
            for message in _messages(change):
                if isinstance(message, AIMessage):
                    text, author = str(message.text), message.name or agent
                    notes, asks = message.response_metadata, bool(message.tool_calls)
                    yield MessageReturned(
                        *(clock.now(), plain_id(message.id), text, author, asks),
                        is_step=bool(notes.get(STEP)),
                        documents=tuple(map(str, notes.get(DOCUMENTS) or ())),
                    )


def _messages(change: Any) -> list[BaseMessage]:
    """Messages in the forms that a node may return them in; LangGraph makes them alike only when it applies them."""
    found = change.get("messages", []) if isinstance(change, Mapping) else []
    return messages_in(found if isinstance(found, list) else [found])


def messages_in(given: list[Any]) -> list[BaseMessage]:
    try:
        return convert_to_messages(given)
    except (ValueError, NotImplementedError):  # a graph may have something else under this name
        return [message for message in given if isinstance(message, BaseMessage)]


def _schema(given: Any) -> Any:
    """A JSON Schema, whether it was given as one or as a model."""
    return given.model_json_schema() if hasattr(given, "model_json_schema") else given
