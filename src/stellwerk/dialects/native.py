"""native: our own envelopes as they are stored, by profile.

``debug`` shows all of them. ``user`` leaves out what only tells how a graph works
inside, trims long output of tools, and keeps stored prompts out of the starts of
model calls. Each envelope is judged by itself and keeps its position, so that a
reader may come back with any of them. Starts and ends are never left out: a call
that was abandoned has that status in its end, because what was shown already cannot be hidden.
"""

from typing import Literal

from msgspec.structs import replace

from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import LlmStart, ToolUpdate, decode, encode

Profile = Literal["user", "debug"]

LONGEST_OUTPUT = 2000
"""Characters of a tool's output in one envelope that a user gets to see: the first and the last half of them."""
_HALF = LONGEST_OUTPUT // 2
_INSIDE = (b'{"type":"subgraph_checkpoint"', b'{"type":"update"')
_OUTPUT = b'{"type":"tool_update"'
_MODEL_CALL = b'{"type":"llm_start"'
_PROMPT = b'"messages":['
"""In every start of a model call that holds a prompt. A parameter may have this name too, so the payload decides."""


def shown(batch: list[Stored], profile: Profile) -> list[Stored]:
    """What a reader of this profile sees of the batch; found by the first bytes of each, parsed only to be cut."""
    if profile == "debug":
        return batch
    return [_cut(stored) for stored in batch if not stored.body.startswith(_INSIDE)]


def trimmed(batch: list[Stored], profile: Profile) -> list[Stored]:
    """For translators: they choose themselves what they leave out, and their cursors are the same in every profile."""
    return batch if profile == "debug" else [_cut(stored) for stored in batch]


def _cut(stored: Stored) -> Stored:
    if stored.body.startswith(_MODEL_CALL):
        return _without_prompt(stored) if _PROMPT in stored.body else stored
    if len(stored.body) <= LONGEST_OUTPUT or not stored.body.startswith(_OUTPUT):
        return stored
    return _shortened(stored)


def _without_prompt(stored: Stored) -> Stored:
    start = decode(stored.body)
    assert isinstance(start, LlmStart)
    if start.payload.messages is None:
        return stored
    return Stored(stored.position, encode(replace(start, payload=replace(start.payload, messages=None))))


def _shortened(stored: Stored) -> Stored:
    update = decode(stored.body)
    assert isinstance(update, ToolUpdate)
    text = update.payload.text
    if update.payload.phase != "output" or text is None or len(text) <= LONGEST_OUTPUT:
        return stored
    text = f"{text[:_HALF]}\n… {len(text) - LONGEST_OUTPUT} characters left out …\n{text[-_HALF:]}"
    return Stored(stored.position, encode(replace(update, payload=replace(update.payload, text=text))))
