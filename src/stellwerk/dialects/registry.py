"""The registry of dialects: every protocol that envelopes are translated to, by name."""

from collections.abc import Mapping
from typing import Literal

from stellwerk.dialects import chunks, completions, events, responses
from stellwerk.dialects.agui import dialect as agui
from stellwerk.dialects.ai_sdk import stream as ai_sdk
from stellwerk.dialects.base import Dialect
from stellwerk.dialects.langgraph import runs, threads

DialectName = Literal[
    "chunks",
    "chunks-live",
    "events",
    "ag-ui",
    "ai-sdk",
    "langgraph",
    "langgraph-threads",
    "openai-completions",
    "openai-responses",
]

DIALECTS: Mapping[str, Dialect] = {
    "chunks": chunks.DIALECT,
    "chunks-live": chunks.LIVE,
    "events": events.DIALECT,
    "ag-ui": agui.DIALECT,
    "ai-sdk": ai_sdk.DIALECT,
    "langgraph": runs.DIALECT,
    "langgraph-threads": threads.DIALECT,
    "openai-completions": completions.DIALECT,
    "openai-responses": responses.DIALECT,
}
