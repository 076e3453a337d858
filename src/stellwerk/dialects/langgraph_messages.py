"""Messages of LangGraph's thread protocol: each told from its start to its finish, block by block.

Its JavaScript client tells open messages apart by their graph and node only. So
at one node one message is told at a time; another that begins there meanwhile is
told from its beginning once that one is finished.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from stellwerk.dialects.langgraph_spaces import Space
from stellwerk.envelope.payloads import ModelEnded
from stellwerk.views.speech import Block, Json, Speech
from stellwerk.views.values import text_of, usage_of


@dataclass
class Telling:
    """A message, and how far it is told."""

    speech: Speech
    space: Space
    begun: bool = False
    blocks: int = 0
    """How many of its blocks were begun."""
    ended: ModelEnded | None = None
    """How it ended, though not all of it is told yet."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        return self.space.namespace, self.speech.node


Piece = tuple[Telling, Json]
"""The data of one event, and the message it belongs to."""


@dataclass
class Messages:
    _open: dict[str, Telling] = field(default_factory=dict)
    """By call, in the order in which they began to speak."""

    def goes_on(self, call_id: str, space: Space, speech: Speech, block: Block, text: str) -> Iterator[Piece]:
        """A piece of a block came; the speech has it already."""
        telling = self._open.setdefault(call_id, Telling(speech, space))
        if telling is not self._first(telling):
            return
        if block.index < telling.blocks:
            yield telling, _data(telling, "content-block-delta", index=block.index, delta=_delta(block, text))
        else:
            yield from _catch_up(telling)

    def ends(self, call_id: str, space: Space, speech: Speech, ended: ModelEnded) -> Iterator[Piece]:
        """The model call is over; whoever waited for its place is told now."""
        telling = self._open.setdefault(call_id, Telling(speech, space))
        telling.ended = ended
        while (first := self._first(telling)) is not None:
            unheard = first.ended is not None and first.ended.status != "ok" and not first.begun
            yield from () if unheard else _catch_up(first)
            if first.ended is None:
                return
            yield from _finish(first, first.ended)
            self._open = {call: other for call, other in self._open.items() if other is not first}

    def _first(self, telling: Telling) -> Telling | None:
        return next((other for other in self._open.values() if other.place == telling.place), None)


def whole(message: Json) -> Iterator[Json]:
    """A message of a node that no model call told."""
    common = {"message_id": message["id"]}
    text = {"type": "text", "text": text_of(message["content"])}
    yield {"event": "message-start", "role": "ai", "id": message["id"]}
    yield {"event": "content-block-start", **common, "index": 0, "content": text | {"text": ""}}
    yield {"event": "content-block-finish", **common, "index": 0, "content": text}
    yield {"event": "message-finish", **common}


def _catch_up(telling: Telling) -> Iterator[Piece]:
    if not telling.speech.blocks:
        return
    if not telling.begun:
        telling.begun = True
        about = {"langgraph_node": telling.speech.node}
        yield telling, {"event": "message-start", "role": "ai", "id": telling.speech.message_id, "metadata": about}
    for block in list(telling.speech.blocks.values())[telling.blocks :]:
        telling.blocks += 1
        yield telling, _data(telling, "content-block-start", index=block.index, content=_empty(block))
        if block.text:
            yield telling, _data(telling, "content-block-delta", index=block.index, delta=_delta(block, block.text))


def _finish(telling: Telling, ended: ModelEnded) -> Iterator[Piece]:
    if not telling.begun:
        return
    for block in telling.speech.blocks.values():
        yield telling, _data(telling, "content-block-finish", index=block.index, content=_final(telling.speech, block))
    if ended.status == "ok":
        used = {"usage": usage_of(ended)} if ended.usage is not None else {}
        yield telling, _data(telling, "message-finish", **used)
    else:
        failed = "the model call failed" if ended.status == "error" else "the model call was abandoned"
        yield telling, _data(telling, "error", message=failed, code=ended.status)


def _data(telling: Telling, event: str, **more: object) -> Json:
    return {"event": event, "message_id": telling.speech.message_id, **more}


def _delta(block: Block, text: str) -> Json:
    if block.kind == "tool":
        return {"type": "tool-call-delta", "args": text}
    return {"type": f"{block.kind}-delta", block.kind: text}


def _empty(block: Block) -> Json:
    if block.kind == "tool":
        return {"type": "tool_call_chunk", "id": block.tool_call_id, "name": block.name, "args": ""}
    return {"type": block.kind, block.kind: ""}


def _final(speech: Speech, block: Block) -> Json:
    if block.kind != "tool":
        return {"type": block.kind, block.kind: block.text}
    args = speech.arguments(block.tool_call_id)
    return {"type": "tool_call", "id": block.tool_call_id, "name": block.name, "args": args or {}}
