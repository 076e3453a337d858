"""Text and reasoning of one model call, as parts of the message.

A part ends when the model changes to another block or kind. Parts cannot be taken back; the end of one
says if its model call failed or was abandoned, and ``data-retracted`` names the call afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from stellwerk.dialects.base import Chunk
from stellwerk.envelope import model as m
from stellwerk.envelope.payloads import CallStatus


@dataclass
class Texts:
    message_id: str
    has_text: bool = False
    _parts: int = 0
    _open: str = ""
    """The id of the open part; empty if there is none."""
    _kind: str = ""
    _block: int = 0
    _delta: str = ""
    """The type of its chunks."""

    def token(self, token: m.LlmToken) -> Iterator[Chunk]:
        said = token.payload
        if not said.text:
            return
        if not self._open or said.kind != self._kind or said.block != self._block:
            yield from self.end()
            yield self._begin(said.kind, said.block)
        yield {"type": self._delta, "id": self._open, "delta": said.text}

    def end(self, status: CallStatus = "ok") -> Iterator[Chunk]:
        if self._open:
            end = text_end(self._kind, self._open, status)
            self._open = ""
            yield end

    def _begin(self, kind: str, block: int) -> Chunk:
        self._kind, self._block, self._delta = kind, block, f"{kind}-delta"
        self._open = part_id(self.message_id, self._parts)
        self._parts += 1
        self.has_text = self.has_text or kind == "text"
        return {"type": f"{kind}-start", "id": self._open}


def text_end(kind: str, id_: str, status: CallStatus) -> Chunk:
    end: Chunk = {"type": f"{kind}-end", "id": id_}
    return end if status == "ok" else {**end, "providerMetadata": {"stellwerk": {"status": status}}}


def whole(message_id: str, text: str) -> Iterator[Chunk]:
    """Return a text that was not streamed."""
    id_ = part_id(message_id, 0)
    yield {"type": "text-start", "id": id_}
    yield {"type": "text-delta", "id": id_, "delta": text}
    yield {"type": "text-end", "id": id_}


def part_id(message_id: str, number: int) -> str:
    return f"{message_id}:{number}"


def message_of(part_id: str) -> str:
    """Return the message id of a part's id."""
    return part_id.rpartition(":")[0]


def retracted(message_id: str) -> Chunk:
    """Return that a text does not count, for clients that remove it; others keep it."""
    return {"type": "data-retracted", "data": {"messageId": message_id}, "transient": True}
