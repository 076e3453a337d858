"""Budgets: sub-agents spend from those who asked them, and all agents of a run from its quotas."""

import asyncio
from typing import Any

import pytest
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.types import Command, interrupt

from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.runtime.budget import current, spending
from stellwerk.agents.runtime.conversation import SECONDS, SPENT, Cost
from stellwerk.errors import QuotaExceeded
from stellwerk.spec.model import AgentConfig, Quotas
from stellwerk.spec.script import ScriptCall, ScriptStep
from tests.agents.middleware.conversations import Conversation, Overheard, call, model, say, spoken


@tool
async def look() -> str:
    "Look."
    return "seen"


@tool
async def ask() -> str:
    "Ask the user."
    return str(interrupt("sure?"))


def delegate(chat: Overheard, *tools: BaseTool, max_steps: int = 50) -> BaseTool:
    """Another agent as a tool."""
    inner = Conversation(AgentConfig(max_steps=max_steps), chat, tools, name="helper").graph

    @tool
    async def research(topic: str) -> str:
        "Delegate a topic."
        result = await inner.ainvoke({"messages": [("user", topic)]})
        return str(result["messages"][-1].text)

    return research


def looks(count: int) -> Overheard:
    return model(*[call("look") for _ in range(count)], say("found"))


def research(*topics: str) -> ScriptStep:
    return ScriptStep(calls=[ScriptCall(call="research", args={"topic": topic}) for topic in topics])


@pytest.mark.requirement("004.sub-agents.budget")
async def test_a_sub_agent_ends_when_its_own_steps_are_used_up() -> None:
    helper = looks(9)
    talk = Conversation(AgentConfig(), model(research("x"), say("done")), [delegate(helper, look, max_steps=2)])
    said = await talk.send("go")
    assert spoken(said)[1:] == [
        ("tool", "I stop here: I have used all 2 steps that I have for one message."),
        ("ai", "done"),
    ]
    assert len(helper.asked) == 2


async def test_a_sub_agent_never_has_more_steps_than_those_who_asked_it_have_left() -> None:
    helper, boss = looks(9), model(research("x"), say("never said"))
    talk = Conversation(AgentConfig(max_steps=4), boss, [delegate(helper, look)])
    with spending() as budget:
        said = await talk.send("go")
    assert (len(boss.asked), len(helper.asked)) == (1, 3)
    assert spoken(said)[1:] == [
        ("tool", "I stop here: no steps are left for this."),
        ("ai", "I stop here: I have used all 4 steps that I have for one message."),
    ]
    assert budget.used == 4


async def test_sub_agents_at_once_share_what_is_left() -> None:
    helper = looks(9)
    talk = Conversation(AgentConfig(max_steps=6), model(research("x", "y"), say("x")), [delegate(helper, look)])
    with spending() as budget:
        await talk.send("go")
    assert (len(helper.asked), budget.used) == (5, 6)


async def test_two_sub_agents_of_one_tool_call_have_their_own_steps_each() -> None:
    helper = looks(9)
    inner = Conversation(AgentConfig(max_steps=2), helper, [look], name="helper").graph

    @tool
    async def research(topic: str) -> str:
        "Delegate a topic, twice."
        await asyncio.gather(*(inner.ainvoke({"messages": [("user", topic)]}) for _ in range(2)))
        return "found"

    with spending() as budget:
        await Conversation(AgentConfig(), model(call("research", topic="x"), say("done")), [research]).send("go")
    assert (len(helper.asked), budget.used) == (4, 6)


async def test_three_levels_down_every_step_counts_for_all_above() -> None:
    lowest = looks(9)
    middle = model(research("deeper"), say("middle"))
    top = model(research("deep"), say("top"))
    below = delegate(middle, delegate(lowest, look), max_steps=4)
    with spending():
        said = await Conversation(AgentConfig(max_steps=20), top, [below]).send("go")
    assert (len(top.asked), len(middle.asked), len(lowest.asked)) == (2, 1, 3)
    [result] = [message for message in said if isinstance(message, ToolMessage)]
    assert result.response_metadata[SPENT]["steps"] == 4


async def test_what_was_spent_before_a_question_still_counts_after_it(saver: DurableSaver) -> None:
    helper = model(call("look"), call("ask"), *[call("look") for _ in range(9)])
    boss = model(research("x"), say("never said"))
    talk = Conversation(AgentConfig(max_steps=5), boss, [delegate(helper, look, ask)], saver=saver)
    with spending() as before:
        await talk.send("go")
    assert before.used == 3
    [question] = await talk.questions()
    with spending() as after:  # another process, perhaps: nothing is known but the checkpoint
        said = await talk.resume({question.id: "yes"})
    assert (len(boss.asked), len(helper.asked)) == (1, 4)
    assert after.used == 5
    assert "used all 5 steps" in str(said[-1].text)


async def test_so_does_what_a_finished_sibling_of_the_waiting_call_has_spent(saver: DurableSaver) -> None:
    helper = model(call("look"), call("look"), say("found"), ask=[call("ask"), *[call("look") for _ in range(9)]])
    boss = model(research("ask", "x"), say("never said"))
    talk = Conversation(AgentConfig(max_steps=6), boss, [delegate(helper, look, ask)], saver=saver)
    with spending() as before:
        await talk.send("go")
    assert before.used == 5  # the boss once, who looks three times, who asks once
    [question] = await talk.questions()
    with spending() as after:  # the result of the one who looks is stored, but not in the conversation yet
        await talk.resume({question.id: "yes"})
    assert after.used == len(boss.asked) + len(helper.asked) == 6


async def test_a_tool_that_gives_back_more_than_text_is_counted_too() -> None:
    inner = Conversation(AgentConfig(), looks(1), [look], name="helper").graph

    @tool
    async def research(topic: str, runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        "Delegate a topic."
        await inner.ainvoke({"messages": [("user", topic)]})
        return Command(update={"messages": [ToolMessage("found", tool_call_id=runtime.tool_call_id)]})

    boss = model(*[call("research", topic="x") for _ in range(9)])
    said = await Conversation(AgentConfig(max_steps=3), boss, [research]).send("go")
    assert len(boss.asked) == 1  # its own step and two of the sub-agent are all three
    assert "used all 3 steps" in str(said[-1].text)


async def test_the_steps_of_a_run_are_a_quota_for_all_its_agents() -> None:
    talk = Conversation(AgentConfig(), model(research("x"), say("never said")), [delegate(looks(9), look)])
    with spending(quotas=Quotas(steps=3)), pytest.raises(QuotaExceeded) as raised:
        await talk.send("go")
    assert str(raised.value) == (
        "the run has used 3 of the 3 steps that one run may use; "
        "ask for less at a time, or raise quotas.steps in the agent system"
    )


async def test_the_tokens_of_a_run_are_a_quota() -> None:
    talk = Conversation(AgentConfig(), looks(99), [look])
    with spending(quotas=Quotas(tokens=20)) as budget, pytest.raises(QuotaExceeded, match="of the 20 tokens"):
        await talk.send("go")
    assert budget.spent.tokens >= 20


async def test_an_answer_that_has_used_the_last_token_is_still_an_answer() -> None:
    with spending(quotas=Quotas(tokens=1)):
        assert spoken(await Conversation(AgentConfig(), model(say("a long answer"))).send("go"))


async def test_tokens_used_before_a_question_still_count_after_it(saver: DurableSaver) -> None:
    talk = Conversation(AgentConfig(), model(call("ask"), say("done")), [ask], saver=saver)
    with spending() as before:
        await talk.send("go")
    [question] = await talk.questions()
    quotas = Quotas(tokens=before.spent.tokens)
    with spending(quotas=quotas), pytest.raises(QuotaExceeded):
        await talk.resume({question.id: "yes"})


async def test_when_the_seconds_of_a_run_are_over_even_a_hanging_tool_is_cut_off() -> None:
    @tool
    async def hang() -> str:
        "Never ends."
        await asyncio.Event().wait()
        return "never"

    helper = delegate(model(call("hang")), hang)
    talk = Conversation(AgentConfig(tool_timeout=60), model(research("x"), say("never said")), [helper])
    with spending(quotas=Quotas(seconds=0.2)), pytest.raises(QuotaExceeded, match="the 0.2 seconds"):
        await talk.send("go")


async def test_a_model_that_hangs_is_cut_off_too() -> None:
    talk = Conversation(AgentConfig(), model(ScriptStep(say="late", wait=600)))
    with spending(quotas=Quotas(seconds=0.1)), pytest.raises(QuotaExceeded):
        await talk.send("go")


async def test_seconds_before_a_question_still_count_after_it(saver: DurableSaver) -> None:
    @tool
    async def nap() -> str:
        "Sleep a little."
        await asyncio.sleep(0.3)
        return "awake"

    helper = delegate(model(call("nap"), call("ask"), call("nap"), say("found")), nap, ask)
    talk = Conversation(AgentConfig(), model(research("x"), say("done")), [helper], saver=saver)
    with spending(quotas=Quotas(seconds=60)):
        await talk.send("go")
    [question] = await talk.questions()
    with spending(quotas=Quotas(seconds=60)) as after:  # another process, perhaps
        said = await talk.resume({question.id: "yes"})
    assert (after.seconds() or 0) >= 0.6
    assert said[-1].response_metadata[SECONDS] >= 0.6


async def test_a_run_that_asks_again_and_again_has_no_more_seconds_for_it(saver: DurableSaver) -> None:
    talk = Conversation(AgentConfig(), model(call("ask"), say("done")), [ask], saver=saver)
    with spending(quotas=Quotas(seconds=600)) as budget:
        budget.catch_up(Cost(), seconds=60)
        await talk.send("go")
    [question] = await talk.questions()
    with spending(quotas=Quotas(seconds=60)), pytest.raises(QuotaExceeded, match="seconds"):
        await talk.resume({question.id: "yes"})


def test_outside_of_any_run_there_is_no_limit() -> None:
    assert current().used_up() is None
    with spending(limit=1) as outer, spending() as inner:
        assert current() is inner
        inner.spend(Cost(steps=1))
        assert inner.used_up() is outer
    assert current().used_up() is None
