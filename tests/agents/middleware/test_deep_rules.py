"""Rules of a deep agent: they mean its sub-agents by their names, although all are called through one tool."""

import asyncio
from typing import Any

import pytest

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.agents.tools.registry import Tools, discover, tool
from stellwerk.errors import InvalidInput
from stellwerk.spec.model import AgentAsTool, CompleteAgent, ModelSpec
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep
from stellwerk.views.checklist import from_json
from tests.agents.agent_runs import Conversation, agent, asks, call, ended, result, say


class Post:
    """A tool with an effect, and a record of it."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        @tool(effects="external")
        async def mail(to: str) -> str:
            """Send a mail."""
            self.sent.append(to)
            return f"sent to {to}"

        @tool
        async def hang() -> str:
            """Never end."""
            await asyncio.Event().wait()
            return "never"

        self.tools = Tools([*discover().specs(), mail, hang])


def task(*subagents: str, description: str = "mail") -> ScriptStep:
    """A step that gives these sub-agents a task each, all at once."""
    wanted = [{"description": description, "subagent_type": name} for name in subagents]
    return ScriptStep(calls=[ScriptCall(call="task", args=args) for args in wanted])


def deep(*steps: ScriptStep, below: tuple[CompleteAgent, ...] = (), **settings: Any) -> CompleteAgent:
    made = agent("boss", *steps, **settings)
    return made.model_copy(update={"kind": "deep", "agents_as_tools": [AgentAsTool(agent=one) for one in below]})


def mailer(name: str = "mailer") -> CompleteAgent:
    return agent(name, call("mail", to="Ann"), say("mailed"), tools=["mail"])


async def talk_with(described: CompleteAgent, post: Post, saver: DurableSaver) -> Conversation:
    return Conversation(await AgentFactory(Resources(tools=post.tools, saver=saver)).build(described))


async def test_a_sub_agent_waits_for_its_approval_and_others_do_not(saver: DurableSaver) -> None:
    post = Post()
    below = (mailer(), mailer("clerk"))
    boss = deep(task("mailer", "clerk"), say("done"), below=below, approvals={"mailer": ["approve", "edit"]})
    talk = await talk_with(boss, post, saver)
    told = await talk.send("go")
    assert (ended(told), post.sent) == ("awaiting_user", ["Ann"])
    (question,) = asks(told)
    told = await talk.answer({question.payload.ask_id: {"type": "approve"}})
    assert (ended(told), post.sent) == ("completed", ["Ann", "Ann"])


async def test_a_rejected_sub_agent_does_not_begin(saver: DurableSaver) -> None:
    post = Post()
    boss = deep(task("mailer"), say("{result}"), below=(mailer(),), approvals={"mailer": []})
    talk = await talk_with(boss, post, saver)
    (question,) = asks(await talk.send("go"))
    told = await talk.answer({question.payload.ask_id: {"type": "reject", "message": "not now"}})
    assert (ended(told), post.sent) == ("completed", [])


async def test_an_edit_changes_the_task_but_not_who_gets_it(saver: DurableSaver) -> None:
    post = Post()
    below = (mailer(), mailer("clerk"))
    boss = deep(task("mailer"), say("done"), below=below, approvals={"mailer": [], "clerk": ["reject"]})
    talk = await talk_with(boss, post, saver)
    (question,) = asks(await talk.send("go"))

    def edit(to: str) -> dict[str, Any]:
        edited = {"description": "mail Bob", "subagent_type": to}
        return {question.payload.ask_id: {"type": "edit", "edited_action": {"name": "task", "args": edited}}}

    with pytest.raises(InvalidInput):
        await talk.answer(edit("clerk"))
    assert post.sent == []
    told = await talk.answer(edit("mailer"))
    assert (ended(told), post.sent) == ("completed", ["Ann"])


@pytest.mark.parametrize("rule", ["mailer", "task"])
async def test_a_limit_may_name_a_sub_agent_or_the_tool_that_calls_all_of_them(saver: DurableSaver, rule: str) -> None:
    post = Post()
    boss = deep(task("mailer"), task("mailer"), say("{result}"), below=(mailer(),), tool_call_limits={rule: 1})
    told = await (await talk_with(boss, post, saver)).send("go")
    assert post.sent == ["Ann"]
    assert result(told).startswith(f"Refused: {rule} may be called 1 times for one message.")


@pytest.mark.parametrize("settings", [{"tool_timeouts": {"sleeper": 0.05}}, {"tool_timeouts": {"task": 0.05}}])
async def test_a_timeout_may_name_them_too(saver: DurableSaver, settings: dict[str, Any]) -> None:
    sleeper = agent("sleeper", call("hang"), say("never"), tools=["hang"])
    boss = deep(task("sleeper"), say("{result}"), below=(sleeper,), tool_timeout=60, **settings)
    told = await (await talk_with(boss, Post(), saver)).send("go")
    assert result(told) == "sleeper was cut off after 0.05 seconds; it may have done part of its work"


GENERAL_PURPOSE = "general-purpose"
"""The sub-agent that every deep agent has: it works with the agent's own tools and model."""


def with_helper(*steps: ScriptStep, helper: tuple[ScriptStep, ...], **settings: Any) -> CompleteAgent:
    """A deep agent that plays ``steps``, and ``helper`` when it is given the task to mail."""
    made = deep(*steps, tools=["mail", "ask_user"], **settings)
    script = [ScriptRule(when="mail", steps=list(helper)), ScriptRule(steps=list(steps))]
    return made.model_copy(update={"model": ModelSpec(script=script)})


MAIL_TWICE = (call("mail", to="Ann"), call("mail", to="Bob"), say("mailed"))


async def test_what_its_helper_does_counts_for_the_limits_of_the_agent(saver: DurableSaver) -> None:
    post = Post()
    steps = [
        call("mail", to="self"),
        task(GENERAL_PURPOSE),
        task(GENERAL_PURPOSE),
        call("mail", to="self again"),
        say("done"),
    ]
    boss = with_helper(*steps, helper=MAIL_TWICE, tool_call_limits={"mail": 2})
    talk = await talk_with(boss, post, saver)
    await talk.send("go")
    assert post.sent == ["self", "Ann"]
    await talk.send("and again")  # every input counts anew
    assert post.sent == ["self", "Ann"] * 2


async def test_helpers_at_once_share_what_is_left(saver: DurableSaver) -> None:
    post = Post()
    boss = with_helper(
        task(GENERAL_PURPOSE, GENERAL_PURPOSE, GENERAL_PURPOSE),
        say("done"),
        helper=MAIL_TWICE,
        tool_call_limits={"mail": 4},
    )
    await (await talk_with(boss, post, saver)).send("go")
    assert len(post.sent) == 4


async def test_the_limit_of_all_tools_is_one_limit_too(saver: DurableSaver) -> None:
    post = Post()
    boss = with_helper(
        task(GENERAL_PURPOSE), call("mail", to="self"), say("done"), helper=MAIL_TWICE, tool_call_limit=2
    )
    await (await talk_with(boss, post, saver)).send("go")
    assert post.sent == ["Ann"]  # the task is the first call


async def test_a_question_in_between_gives_no_new_calls(saver: DurableSaver) -> None:
    post = Post()
    helper = (call("mail", to="Ann"), call("ask_user", question="more?"), call("mail", to="Bob"), say("mailed"))
    boss = with_helper(
        call("mail", to="self"),
        task(GENERAL_PURPOSE),
        task(GENERAL_PURPOSE),
        say("done"),
        helper=helper,
        tool_call_limits={"mail": 2},
    )
    talk = await talk_with(boss, post, saver)
    told = await talk.send("go")
    for _ in range(2):
        (question,) = asks(told)
        told = await talk.answer({question.payload.ask_id: "yes"})
    assert (ended(told), post.sent) == ("completed", ["self", "Ann"])


async def test_what_one_helper_did_while_another_waited_for_the_user_is_not_forgotten(saver: DurableSaver) -> None:
    post = Post()
    patient = (call("ask_user", question="may I?"), call("mail", to="Bob"), say("mailed"))
    both = ScriptStep(calls=[*task(GENERAL_PURPOSE, description="ask first").calls, *task(GENERAL_PURPOSE).calls])
    boss = with_helper(both, say("done"), helper=MAIL_TWICE[::2], tool_call_limits={"mail": 1})
    script = [ScriptRule(when="ask", steps=list(patient)), *boss.model.script]
    talk = await talk_with(boss.model_copy(update={"model": ModelSpec(script=script)}), post, saver)
    (question,) = asks(await talk.send("go"))
    assert post.sent == ["Ann"]
    assert ended(await talk.answer({question.payload.ask_id: "yes"})) == "completed"
    assert post.sent == ["Ann"]


async def test_an_approval_binds_the_helper_too(saver: DurableSaver) -> None:
    post = Post()
    boss = with_helper(task(GENERAL_PURPOSE), say("done"), helper=MAIL_TWICE, approvals={"mail": ["approve"]})
    told = await (await talk_with(boss, post, saver)).send("go")
    assert (ended(told), post.sent) == ("awaiting_user", [])


async def test_sub_agents_that_plan_side_by_side_have_a_branch_of_the_checklist_each(saver: DurableSaver) -> None:
    def planner(name: str) -> CompleteAgent:
        plan = call("plan_tasks", tasks=[{"title": f"{name}'s task"}])
        return agent(name, plan, say("planned"), tools=["plan_tasks"])

    boss = deep(task("left", "right"), say("done"), below=(planner("left"), planner("right")))
    talk = await talk_with(boss, Post(), saver)
    assert ended(await talk.send("go")) == "completed"
    state = await talk.agent.graph.aget_state({"configurable": {"thread_id": talk.session_id}})
    checklist = from_json(state.values["checklist"])
    assert [(t.id, t.title) for t in checklist.tasks] == [("s1.t1", "left's task"), ("s2.t1", "right's task")]
    assert list(checklist.lost) == []
