"""tool_call_limit and tool_call_limits: what is beyond them is refused to the model, and the run goes on."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolCall, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.middleware.limits import AT_ONCE, ToolLimits
from stellwerk.spec.model import AgentConfig
from stellwerk.spec.script import ScriptCall, ScriptStep
from tests.agents.middleware.conversations import Conversation, Overheard, call, model, say, spoken


@tool
async def look() -> str:
    "Look."
    return "seen"


@tool
async def pay() -> str:
    "Pay."
    return "paid"


@pytest.mark.requirement("000.config.tool-call-limits", "000.factory.middleware-tool-call-limits")
async def test_calls_beyond_the_limit_are_refused_and_the_model_goes_on() -> None:
    chat = model(call("look", "pay"), call("look", "pay"), say("done"))
    said = await Conversation(AgentConfig(tool_call_limit=3), chat, [look, pay]).send("go")
    assert spoken(said) == [
        ("ai", ""),
        ("tool", "seen"),
        ("tool", "paid"),
        ("ai", ""),
        ("tool", "seen"),
        ("tool", "Refused: 3 tool calls are allowed for one message. Answer with what you have."),
        ("ai", "done"),
    ]


async def test_a_single_tool_has_its_own_limit_and_every_call_one_result() -> None:
    chat = model(call("pay", "look"), call("pay", "look"), say("done"))
    said = await Conversation(AgentConfig(tool_call_limit=2, tool_call_limits={"pay": 1}), chat, [look, pay]).send("go")
    results = [message for message in said if isinstance(message, ToolMessage)]
    assert [message.status for message in results] == ["success", "success", "error", "error"]
    assert "Do not call it again" in str(results[2].text)  # refused by both limits, answered once


async def test_an_approval_in_between_does_not_reset_the_count(saver: DurableSaver) -> None:
    chat = model(call("pay"), call("pay"), say("done"))
    config = AgentConfig(tool_call_limits={"pay": 1}, approvals={"pay": ["approve"]})
    talk = Conversation(config, chat, [pay], saver=saver)
    await talk.send("go")
    [question] = await talk.questions()
    said = await talk.resume({question.id: {"type": "approve"}})
    # The second call is refused without a question: nothing is open.
    assert [text for kind, text in spoken(said) if kind == "tool"][1].startswith("Refused: pay")
    assert await talk.questions() == []


async def test_every_input_starts_with_a_count_of_zero(saver: DurableSaver) -> None:
    talk = Conversation(AgentConfig(tool_call_limit=1), model(call("pay"), say("done")), [pay], saver=saver)
    for text in ("one", "two"):
        assert ("tool", "paid") in spoken(await talk.send(text))


@given(
    st.lists(st.sampled_from("abc"), max_size=AT_ONCE),
    st.none() | st.integers(1, 5),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 3)),
)
def test_no_limit_is_ever_passed_and_nothing_is_refused_before_it(
    names: list[str], of_all: int | None, of_each: dict[str, int]
) -> None:
    calls = [ToolCall(name=name, args={}, id=name) for name in names]
    verdicts = ToolLimits("boss", of_all, of_each).verdicts(calls, Counter())
    ran: Counter[str] = Counter()
    for name, why in zip(names, verdicts, strict=True):
        full = of_each.get(name) == ran[name] or of_all == ran.total()
        assert full == (why is not None)
        ran[name] += why is None


async def test_of_the_calls_of_one_turn_64_run_and_the_others_are_refused(saver: DurableSaver) -> None:
    chat = model(call(*["look"] * 70), call("look"), say("done"))
    said = await Conversation(AgentConfig(), chat, [look], saver=saver).send("go")
    results = [str(message.text) for message in said if isinstance(message, ToolMessage)]
    assert results[:64] == ["seen"] * 64
    refusal = "Refused: of the tool calls of one turn, 64 are run. Ask for the others in your next turn."
    assert results[64:] == [refusal] * 6 + ["seen"]  # the next turn has its own


async def test_calls_that_were_refused_use_nothing_up(saver: DurableSaver) -> None:
    chat = model(call(*["look"] * 70), call("look", "look"), say("done"))
    config = AgentConfig(tool_call_limits={"look": 65})
    said = await Conversation(config, chat, [look], saver=saver).send("go")
    results = [str(message.text) for message in said if isinstance(message, ToolMessage)]
    assert [result == "seen" for result in results[64:]] == [*[False] * 6, True, False]


async def test_a_call_that_borrows_the_id_of_another_is_not_let_through_by_it() -> None:
    twins = ScriptStep(calls=[ScriptCall(call="pay"), ScriptCall(call="pay"), ScriptCall(call="look")])

    class Twins(Overheard):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            result = await super()._agenerate(*args, **kwargs)
            for asked in getattr(result.generations[0].message, "tool_calls", [])[1:]:
                asked["id"] = "same"
            return result

    chat = Twins(script=model(twins, say("done")).script)
    said = await Conversation(AgentConfig(tool_call_limits={"pay": 1}), chat, [look, pay]).send("go")
    assert [text for kind, text in spoken(said) if kind == "tool" and text == "paid"] == ["paid"]
