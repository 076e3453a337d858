"""Tool calls in the pieces in which a provider streams them, for models that have none of their own.

Ids follow from the conversation: a retry of the same step asks for the same
calls again, and no two calls of one conversation share an id.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk

from stellwerk.ids import digest_id

_PIECE = 8
_MOST = 100
"""Pieces of one call: each costs a tenth of a millisecond."""
"""Characters of the arguments that come at a time."""


def call_pieces(
    calls: Sequence[tuple[str, Mapping[str, Any]]], messages: Sequence[BaseMessage]
) -> Iterator[AIMessageChunk]:
    """For each call, its name and id first, then its arguments bit by bit."""
    taken = {call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
    for index, (name, args) in enumerate(calls):
        call_id = _fresh_id(name, len(messages), taken)
        taken.add(call_id)
        yield _piece(index, "", name=name, call_id=call_id)
        text = json.dumps(args)
        size = max(_PIECE, len(text) // _MOST)
        for start in range(0, len(text), size):
            yield _piece(index, text[start : start + size])


def _piece(index: int, args: str, *, name: str | None = None, call_id: str | None = None) -> AIMessageChunk:
    return AIMessageChunk(content="", tool_call_chunks=[tool_call_chunk(name=name, args=args, id=call_id, index=index)])


def _fresh_id(name: str, position: int, taken: set[str | None]) -> str:
    # A shortened history can bring the same position twice, and one step may call one tool twice.
    again = 0
    while (found := f"call_{digest_id(name, str(position), str(again))[:12]}") in taken:
        again += 1
    return found
