"""The checker of AG-UI's rules finds what it is there to find."""

from typing import Any

import pytest

from tests.dialects.agui_rules import Chunk, problems

START: Chunk = {"type": "RUN_STARTED", "timestamp": 1, "threadId": "s", "runId": "r"}
END: Chunk = {"type": "RUN_FINISHED", "timestamp": 1, "threadId": "s", "runId": "r"}
FAILED: Chunk = {"type": "RUN_ERROR", "timestamp": 1, "message": "no"}


def some(kind: str, id_: str = "x", owner: str | None = None, **fields: Any) -> Chunk:
    """An event with all it needs."""
    needed = {"messageId": id_, "toolCallId": id_, "delta": "d", "role": "assistant", "toolCallName": "t", "name": "n"}
    tag = {} if owner is None else {"subagentRunId": owner}
    return {"type": kind, "timestamp": 1, "content": {}, "activityType": "A", "patch": [], **needed, **tag, **fields}


def test_a_legal_stream_of_two_runs_has_no_problems() -> None:
    text = [some("TEXT_MESSAGE_START"), some("TEXT_MESSAGE_CONTENT"), some("TEXT_MESSAGE_END")]
    call = [some("TOOL_CALL_START"), some("TOOL_CALL_ARGS"), some("TOOL_CALL_END"), some("TOOL_CALL_RESULT")]
    agent = [some("SUBAGENT_STARTED", owner="a"), some("SUBAGENT_FINISHED", owner="a")]
    assert problems([START, *text, *call, *agent, FAILED, START, *agent, END]) == []


@pytest.mark.parametrize(
    "stream, complaint",
    [
        ([some("CUSTOM", value=1)], "while no run is under way"),
        ([START, START], "while a run is under way"),
        ([START, END, some("CUSTOM", value=1)], "while no run is under way"),
        ([START, FAILED, FAILED], "while no run is under way"),
        ([START, some("TEXT_MESSAGE_CONTENT")], "which is not open"),
        ([START, some("TOOL_CALL_END")], "which is not open"),
        ([START, some("REASONING_START"), some("REASONING_MESSAGE_CONTENT")], "which is not open"),
        ([START, some("TEXT_MESSAGE_START"), some("TEXT_MESSAGE_START")], "open already"),
        ([START, some("TEXT_MESSAGE_START"), END], "are open"),
        ([START, some("REASONING_START"), END], "are open"),
        ([START, some("SUBAGENT_STARTED", owner="a"), END], "are open"),
        ([START, some("TEXT_MESSAGE_START"), some("TEXT_MESSAGE_END", owner="a")], "TEXT_MESSAGE_END of a"),
        ([START, some("ACTIVITY_SNAPSHOT", owner="a"), some("ACTIVITY_DELTA", owner="b")], "ACTIVITY_DELTA of b"),
        ([START, some("TEXT_MESSAGE_START"), some("TOOL_CALL_START", "y", "a", parentMessageId="x")], "stands in"),
        ([START, some("SUBAGENT_FINISHED", owner="a")], "not under way"),
        ([START, some("SUBAGENT_STARTED", owner="a", parentSubagentRunId="b")], "has not started"),
        ([START, *[some("SUBAGENT_STARTED", owner="a"), some("SUBAGENT_FINISHED", owner="a")] * 2], "starts twice"),
        ([START, some("TOOL_CALL_START"), some("TOOL_CALL_END"), END], "has to answer"),
        ([START, {**END, "outcome": {"type": "interrupt", "interrupts": []}}], "without anything to answer"),
        ([START, {**END, "result": 1, "usage": None}], "null"),
        ([START, {"type": "TEXT_MESSAGE_START", "messageId": "x", "timestamp": 1}], "lacks {'role'}"),
        ([START, some("THINKING_START")], "no event of ours"),
        ([{**START, "timestamp": 1.5}], "milliseconds"),
    ],
)
def test_every_rule_can_be_broken(stream: list[Chunk], complaint: str) -> None:
    assert any(complaint in problem for problem in problems(stream)), problems(stream)
