"""How tests call functions of a Node script."""

import pytest

from tests.protocols.node import CLIENTS, NodeError, running


def test_calls_return_values_emit_events_and_throw() -> None:
    with running(CLIENTS / "ai_sdk.mjs", "ai") as node:
        chunks = [{"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "ok"}]
        (read,) = node.call("read", streams=[chunks])
        assert read["message"]["parts"][0]["text"] == "ok"
        with pytest.raises(NodeError, match="not a function"):
            node.call("missing")
