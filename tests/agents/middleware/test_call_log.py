"""The log of calls: one line each, with ids and figures, and nothing of what was said."""

import pytest
import structlog
from langchain_core.tools import tool

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, call, model, say


@tool
async def look(at: str) -> str:
    "Look."
    if at == "nothing":
        raise ValueError("secret of the tool")
    return f"secret {at}"


async def lines_of(talk: Conversation) -> list[dict[str, object]]:
    with structlog.testing.capture_logs() as lines:
        await talk.send("secret question")
    return [dict(line) for line in lines if line["event"] in ("model_call", "tool_call")]


@pytest.mark.requirement("000.factory.middleware-logging")
async def test_every_model_and_tool_call_is_one_line(saver: DurableSaver) -> None:
    chat = model(call("look", at="secret place"), say("secret answer"))
    asked, looked, answered = await lines_of(Conversation(AgentConfig(), chat, [look], saver=saver))
    for line in (asked, looked, answered):
        assert float(str(line.pop("ms"))) >= 0
    for line in (asked, answered):
        assert [type(line.pop(key)) for key in ("input_tokens", "output_tokens")] == [int, int]
    assert str(looked.pop("tool_call_id")).startswith("call_")
    known = {"agent": "boss", "session": "session", "status": "ok", "log_level": "info"}
    assert asked == answered == {**known, "event": "model_call", "model": "scripted"}
    assert looked == {**known, "event": "tool_call", "tool": "look"}
    assert "secret" not in str([asked, looked, answered])


async def test_a_failing_tool_is_an_error_in_its_line() -> None:
    lines = await lines_of(Conversation(AgentConfig(), model(call("look", at="nothing"), say("so be it")), [look]))
    assert [line["status"] for line in lines] == ["ok", "error", "ok"]


async def test_a_call_that_waits_for_approval_has_its_line_when_it_runs(saver: DurableSaver) -> None:
    config = AgentConfig(approvals={"look": ["approve"]})
    talk = Conversation(config, model(call("look", at="a"), say("done")), [look], saver=saver)
    assert [line["event"] for line in await lines_of(talk)] == ["model_call"]
    [question] = await talk.questions()
    with structlog.testing.capture_logs() as lines:
        await talk.resume({question.id: {"type": "approve"}})
    assert [line["event"] for line in lines] == ["tool_call", "model_call"]
