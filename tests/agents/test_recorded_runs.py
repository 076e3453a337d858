"""What is told of an agent's run, beyond plain calls: held answers, progress, files, refusals, states."""

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.prebuilt import ToolRuntime

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.middleware.build import middleware_for
from stellwerk.agents.middleware.calls import RetryPolicy
from stellwerk.agents.runtime.runnable import RunnableAgent
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.registry import Tools, discover, tool
from stellwerk.envelope.model import (
    Document,
    Envelope,
    Error,
    LlmEnd,
    LlmStart,
    LlmToken,
    Log,
    State,
    ToolUpdate,
    Update,
    encode,
)
from stellwerk.envelope.results import FileRef
from stellwerk.envelope.to_json import MAX_BYTES
from stellwerk.spec.model import AgentConfig, ModelSpec
from stellwerk.spec.script import ScriptRule, ScriptStep
from stellwerk.stream.adapter import StreamAdapter
from stellwerk.stream.facts import CustomEvent, Fact, ModelFinished, ModelStarted, ModelToken, NodeUpdated
from tests.agents.agent_runs import Conversation, agent, call, calls, ended, ends, result, say, starts, text


@tool
async def climb(runtime: ToolRuntime[Any, Any], steps: int = 2) -> str:
    """Climb, and tell how far."""
    for step in range(steps):
        runtime.emit_output_delta(f"step {step + 1}")
        await asyncio.sleep(0)
    return "at the top"


@tool
async def hang() -> str:
    """Never comes back."""
    await asyncio.Event().wait()
    return ""


@pytest.fixture
def factory(saver: DurableSaver) -> AgentFactory:
    return AgentFactory(Resources(tools=Tools([climb, hang, *discover().specs()]), saver=saver))


@pytest.mark.requirement("000.config.validation-prompt", "000.factory.middleware-validation")
async def test_an_answer_is_held_back_until_it_is_valid_and_then_spoken_word_by_word(factory: AgentFactory) -> None:
    described = agent("boss", say("x"), validation_prompt="Has it a number?").model_copy(update={"model": JUDGED})
    told = await Conversation(await factory.build(described)).send("What size?")
    assert ended(told) == "completed"
    assert text(told) == result(told) == "It has 42 metres"
    assert len([e for e in told if isinstance(e, LlmToken)]) == 4
    statuses = [e.payload.status for e in told if isinstance(e, LlmEnd)]
    assert statuses.count("abandoned") == 1, "that the first answer was refused is told, and what it cost; not its text"


# The judge is the same model; what it reads is the answer.
JUDGED = ModelSpec(
    script=[
        ScriptRule(when="42", steps=[ScriptStep(say="OK")]),
        ScriptRule(when="huge", steps=[ScriptStep(say="it has no number")]),
        ScriptRule(steps=[ScriptStep(say="It is huge"), ScriptStep(say="It has 42 metres")]),
    ]
)


async def test_a_tool_reports_progress_while_it_works(factory: AgentFactory) -> None:
    told = await Conversation(await factory.build(agent("boss", call("climb"), say("ok"), tools=["climb"]))).send("go")
    (start,) = starts(told, "climb")
    updates = [e for e in told if isinstance(e, ToolUpdate) and e.payload.phase == "output"]
    assert [u.payload.text for u in updates] == ["step 1", "step 2"]
    assert {u.call_id for u in updates} == {start.call_id}


async def test_a_file_is_a_document_and_the_result_names_it(factory: AgentFactory) -> None:
    described = agent("boss", call("write_report", title="A", text="b"), say("{result}"), tools=["write_report"])
    told = await Conversation(await factory.build(described)).send("go")
    (end,) = ends(told, "write_report")
    (document,) = [e for e in told if isinstance(e, Document)]
    assert isinstance(end.payload.result, FileRef)
    assert document.payload.document_id == end.payload.result.document_id
    assert document.parent_id == end.call_id


async def test_a_tool_that_hangs_is_an_error_at_its_timeout_and_the_run_goes_on(factory: AgentFactory) -> None:
    described = agent("boss", call("hang"), say("I see"), tools=["hang"], tool_timeouts={"hang": 0.05})
    told = await Conversation(await factory.build(described)).send("go")
    (end,) = ends(told, "hang")
    assert (ended(told), end.payload.status) == ("completed", "error")


async def test_a_call_beyond_its_limit_is_recorded_as_refused(factory: AgentFactory) -> None:
    twice = calls(("get_weather", {"city": "Ulm"}), ("get_weather", {"city": "Bonn"}))
    described = agent("boss", twice, say("ok"), tools=["get_weather"], tool_call_limits={"get_weather": 1})
    told = await Conversation(await factory.build(described)).send("go")
    assert sorted(end.payload.status for end in ends(told)) == ["error", "ok"]
    assert [start.payload.args["city"] for start in starts(told)] in (["Ulm", "Bonn"], ["Bonn", "Ulm"])


async def test_a_checklist_is_a_state_that_readers_know_by_name(factory: AgentFactory) -> None:
    described = agent("boss", call("plan_tasks", tasks=[{"title": "One"}]), say("ok"), tools=["plan_tasks"])
    told = await Conversation(await factory.build(described)).send("go")
    (state,) = [e for e in told if isinstance(e, State)]
    assert (state.payload.name, state.payload.version, state.payload.owner) == ("checklist", 1, "boss")
    assert state.payload.snapshot["tasks"][0]["title"] == "One"
    assert not [e for e in told if isinstance(e, Update)], "what is told as a state is not told twice"


async def test_a_model_that_fails_ends_the_run_visibly(factory: AgentFactory) -> None:
    described = agent("boss", ScriptStep(say="Oh ", fail="no more"), model_retries=0)
    told = await Conversation(await factory.build(described)).send("go")
    assert ended(told) == "failed"
    assert [e.payload.code for e in told if isinstance(e, Error)] == ["call_failed", "scripted_failure"]
    assert result(told) == ""


def adapter() -> StreamAdapter:
    return StreamAdapter(trace_id="t", run_id="r", agent="boss")


def test_every_kind_of_fact_has_its_place_in_the_mapping() -> None:
    assert set(adapter()._mapping) == set(Fact.__subclasses__())


def test_what_a_node_writes_to_its_stream_is_a_line_in_the_log_of_the_run() -> None:
    (line,) = adapter().feed(CustomEvent(1.0, "", {"progress": 40, "note": "half way"}))
    assert isinstance(line, Log)
    assert (line.payload.progress, line.payload.data) == (40, {"progress": 40, "note": "half way"})


def test_an_empty_update_is_not_recorded() -> None:
    assert list(adapter().feed(NodeUpdated(1.0, "node", "", {}))) == []
    assert list(adapter().feed(NodeUpdated(1.0, "node", "", None))) == []


@pytest.mark.requirement("trust.I17")
def test_a_value_too_large_for_an_envelope_is_handed_out_to_be_stored() -> None:
    made = adapter()
    (update,) = made.feed(NodeUpdated(1.0, "node", "", {"raw": b"x" * 10, "long": "x" * 2 * MAX_BYTES, "small": 1}))
    assert isinstance(update, Update)
    stored = [blob.document_id for blob in made.blobs()]
    assert [update.payload.delta[name]["document_id"] for name in ("raw", "long")] == stored
    assert len(encode(update)) < MAX_BYTES
    assert made.blobs() == [], "each is handed out once"


def test_a_silent_call_is_recorded_without_its_text() -> None:
    made = adapter()
    began = ModelStarted(1.0, "m", None, "gpt", "boss", "model", voice="silent")
    facts: list[Fact] = [began, ModelToken(1.1, "m", "x"), ModelFinished(1.2, "m", "id", "x", None, 1, 1, [])]
    told = [envelope for fact in facts for envelope in made.feed(fact)]
    assert [type(e) for e in told] == [LlmStart, LlmEnd]


class Flaky(ScriptedModel):
    """Breaks down the first time: before it has said anything, or in the middle of it."""

    said_before: bool
    broken: list[int] = []

    async def _astream(self, *args: Any, **kwargs: Any) -> Any:
        async for chunk in super()._astream(*args, **kwargs):
            if not self.broken:
                self.broken.append(1)
                if self.said_before:
                    yield chunk
                raise ConnectionError("gone")
            yield chunk


async def told_of(model: Flaky) -> list[Envelope]:
    layers = middleware_for(AgentConfig(), agent="boss", judge=model, retry_policy=RetryPolicy(1, sleep=at_once))
    return await Conversation(RunnableAgent("boss", create_agent(model, [], middleware=layers, name="boss"))).send("go")


async def at_once(seconds: float) -> None:
    await asyncio.sleep(0)


async def test_a_model_that_fails_before_its_first_word_is_asked_again() -> None:
    told = await told_of(Flaky(script=[ScriptRule(steps=[say("all is well")])], said_before=False))
    assert (ended(told), text(told)) == ("completed", "all is well")
    assert [e.payload.status for e in told if isinstance(e, LlmEnd)] == ["error", "ok"]


async def test_a_model_that_has_spoken_is_not_asked_again() -> None:
    model = Flaky(script=[ScriptRule(steps=[say("all is well")])], said_before=True)
    with pytest.raises(ConnectionError):
        await told_of(model)
    assert model.broken == [1]
