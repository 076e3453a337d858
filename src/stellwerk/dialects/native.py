"""The native dialect: stored envelopes as they are, filtered by profile.

``debug`` has all of them. ``user`` leaves out the inner workings of a graph: checkpoints, and updates,
except that a node ran which called nothing. It trims long output of tools, and removes stored prompts
from the starts of model calls and texts of unexpected exceptions from errors. Each envelope keeps its
position, so a reader may resume with any of them. Starts and ends are never left out; the end of an
abandoned call has that status, as a start that was sent cannot be hidden.
"""

from typing import Literal

from msgspec.structs import replace

from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Error, LlmStart, ToolUpdate, Update, decode, encode

Profile = Literal["user", "debug"]

LONGEST_OUTPUT = 2000
"""Characters of a tool's output in an envelope of the profile ``user``: first and last half."""
_HALF = LONGEST_OUTPUT // 2
_INSIDE = (b'{"type":"subgraph_checkpoint"', b'{"type":"update"')
_NO_CALLS = b'"no_calls":true'
"""In every update of a node that called nothing; a key of its state may have this name."""
_OUTPUT = b'{"type":"tool_update"'
_MODEL_CALL = b'{"type":"llm_start"'
_ERROR = b'{"type":"error"'
_DETAIL = b'"detail":'
_PROMPT = b'"messages":['
"""In every model call with a prompt; a parameter may have this name, so the payload decides."""


def shown(batch: list[Stored], profile: Profile, *, details: bool = False) -> list[Stored]:
    """Filter a batch by profile; envelopes are found by first bytes, parsed only to be cut.

    With ``details`` the texts of unexpected exceptions stay: the reader is the operator.
    """
    if profile == "debug":
        return batch
    left = (_step_only(stored) if stored.body.startswith(_INSIDE) else stored for stored in batch)
    return [_cut(stored, details=details) for stored in left if stored is not None]


def trimmed(batch: list[Stored], profile: Profile) -> list[Stored]:
    """Trim a batch for translators, which filter themselves: all profiles have the same cursors."""
    return batch if profile == "debug" else [_cut(stored) for stored in batch]


def _cut(stored: Stored, *, details: bool = False) -> Stored:
    if stored.body.startswith(_ERROR):
        return stored if details or _DETAIL not in stored.body else _without_detail(stored)
    if stored.body.startswith(_MODEL_CALL):
        return _without_prompt(stored) if _PROMPT in stored.body else stored
    if len(stored.body) <= LONGEST_OUTPUT or not stored.body.startswith(_OUTPUT):
        return stored
    return _shortened(stored)


def _step_only(stored: Stored) -> Stored | None:
    """That a node ran which called neither a model nor a tool, without what it changed."""
    update = decode(stored.body) if _NO_CALLS in stored.body else None
    if not isinstance(update, Update) or not update.payload.no_calls:
        return None
    payload = replace(update.payload, delta=None, sanitized=None)
    return Stored(stored.position, encode(replace(update, payload=payload)))


def _without_prompt(stored: Stored) -> Stored:
    start = decode(stored.body)
    assert isinstance(start, LlmStart)
    if start.payload.messages is None:
        return stored
    payload = replace(start.payload, messages=None)
    return Stored(stored.position, encode(replace(start, payload=payload)))


def _without_detail(stored: Stored) -> Stored:
    error = decode(stored.body)
    assert isinstance(error, Error)
    payload = replace(error.payload, detail=None)
    return Stored(stored.position, encode(replace(error, payload=payload)))


def _shortened(stored: Stored) -> Stored:
    update = decode(stored.body)
    assert isinstance(update, ToolUpdate)
    text = update.payload.text
    if update.payload.phase != "output" or text is None or len(text) <= LONGEST_OUTPUT:
        return stored
    text = f"{text[:_HALF]}\n… {len(text) - LONGEST_OUTPUT} characters left out …\n{text[-_HALF:]}"
    payload = replace(update.payload, text=text)
    return Stored(stored.position, encode(replace(update, payload=payload)))
