"""Agents of kind workplan, without a server: plan, tasks of any agent, failures, questions, review."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langgraph.graph import MessagesState, StateGraph

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import memory_saver
from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.agents.tools.registry import Tools, tool
from stellwerk.envelope.model import Envelope, LlmStart, LlmToken, Log, Message, RunEnd, State, Update
from stellwerk.errors import SpecError
from stellwerk.spec.load import load_system
from stellwerk.spec.model import AgentAsTool, AgentConfig, CompleteAgent, ModelSpec, Quotas, SystemSpec
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.agent_runs import Conversation, agent, asks, call, ended, ends, result, say, starts


def planned(*tasks: dict[str, Any], final: Sequence[str] = (), **more: Any) -> str:
    wanted = [{"name": name} for name in final]
    said = {"objUserResponse": "I begin.", "userLanguage": "en", **more}
    return json.dumps({"objFinalDocuments": wanted, "objWorkplan": list(tasks), **said})


def task(agent: str, prompt: str = "Do it.", reads: Sequence[str] = (), writes: Sequence[str] = ()) -> dict[str, Any]:
    return {"agent": agent, "prompt": prompt, "inputDocuments": list(reads), "outputDocuments": list(writes)}


def manager(reply: str, *agents: CompleteAgent, again: str | None = None) -> CompleteAgent:
    """``again`` is what the model replies when its first plan is refused."""
    rules = [ScriptRule(when="accepted", steps=[say(again)])] if again is not None else []
    model = ModelSpec(script=[*rules, ScriptRule(steps=[say(reply)])])
    uses = [AgentAsTool(agent=each) for each in agents]
    return CompleteAgent(name="manager", kind="workplan", model=model, agents_as_tools=uses)


async def talk(boss: CompleteAgent, **system: Any) -> Conversation:
    factory = AgentFactory(Resources(saver=memory_saver()))
    return Conversation(await factory.build(boss, SystemSpec(name="office", **system)))


def lines(told: Sequence[Envelope]) -> list[tuple[int | None, str]]:
    return [(e.payload.progress, e.payload.message) for e in told if isinstance(e, Log)]


def messages(told: Sequence[Envelope]) -> list[tuple[str, str, str]]:
    said = [(e.payload.author or "", e.payload.status, e.payload.content[0]) for e in told if isinstance(e, Message)]
    return [(author, status, getattr(part, "text", "")) for author, status, part in said if author]


async def run_of_two_tasks() -> list[Envelope]:
    """The writer needs a document of the counter, and so comes second, though it is planned first."""
    plan = planned(task("writer", reads=["sums.csv"]), task("counter", writes=["sums.csv"]))
    office = await talk(manager(plan, agent("writer", say("Written.")), agent("counter", say("Counted."))))
    return list(await office.send("Count, and write."))


@pytest.mark.requirement("003.plan.step-message", "003.task.step-message", "003.final.status-last")
async def test_the_plan_each_task_and_the_end_have_a_message() -> None:
    assert messages(await run_of_two_tasks()) == [
        ("manager", "step", "I begin."),
        ("counter", "step", "Counted."),
        ("writer", "step", "Written."),
        ("manager", "last", "Written."),
    ]


@pytest.mark.requirement("003.plan.log-analyzing", "003.plan.log-created", "003.task.log", "003.final.log")
async def test_each_step_of_a_plan_is_logged_with_its_progress() -> None:
    assert lines(await run_of_two_tasks()) == [
        (10, "Analyzing request and planning work"),
        (25, "Work plan created"),
        (30, "Running task 1/2: counter"),
        (60, "Running task 2/2: writer"),
        (90, "Creating final response"),
    ]


@pytest.mark.requirement("003.task.agent-runs")
async def test_tasks_are_done_by_their_agents_in_the_order_of_their_documents() -> None:
    envelopes = await run_of_two_tasks()
    calls = [start for start in starts(envelopes) if start.payload.kind == "agent"]
    assert [(start.payload.tool_name, start.payload.args["prompt"]) for start in calls] == [
        ("counter", "Do it."),
        ("writer", "Do it."),
    ]
    (plan,) = [e.payload for e in envelopes if isinstance(e, State)]
    assert (plan.name, sorted(plan.snapshot)) == (
        "plan",
        ["objFinalDocuments", "objUserResponse", "objWorkplan", "userLanguage"],
    )


async def test_tasks_that_do_not_wait_for_each_other_run_side_by_side() -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Wait for the other one."""
        await both.wait()
        return "met"

    shy = agent("shy", call("meet"), say("Met."), tools=["meet"])
    boss = manager(planned(task("shy"), task("shy")), shy)
    office = Conversation(await AgentFactory(Resources(tools=Tools([meet]))).build(boss, SystemSpec(name="office")))
    async with asyncio.timeout(60):
        told = await office.send("Go.")
    assert ended(told) == "completed"
    assert len(ends(told, "shy")) == 2


@pytest.mark.requirement("003.task.failure-does-not-stop", "003.errors.logged", "003.final.review")
async def test_a_task_that_fails_is_logged_and_the_others_are_done() -> None:
    plan = planned(
        task("broken", writes=["a.md"]), task("writer", reads=["a.md"], writes=["b.md"]), final=["a.md", "b.md"]
    )
    broken = agent("broken", ScriptStep(say="I ", fail="no ink"), model_retries=0)
    told = await (await talk(manager(plan, broken, agent("writer", say("Written."))))).send("Go.")
    assert ended(told) == "completed"
    (end,) = ends(told, "broken")
    assert (end.payload.status, end.payload.error and end.payload.error.message) == ("error", "no ink")
    assert [e.payload.message for e in told if isinstance(e, Log) and e.payload.level == "error"] == [
        "Task 1/2 of broken has failed."
    ]
    assert ("broken", "step", "I could not do this: no ink") in messages(told)
    assert ("writer", "step", "Written.") in messages(told)
    assert "Missing:\n- a.md\n- b.md" in result(told)
    assert "Tasks that have failed:\n- broken: no ink" in result(told)


@pytest.mark.requirement("003.plan.prompted")
async def test_a_plan_that_does_not_fit_is_made_once_more_with_the_reason() -> None:
    boss = manager(planned(task("cook")), agent("writer", say("Written.")), again=planned(task("writer")))
    told = await (await talk(boss, store_prompts=True)).send("Go.")
    assert ended(told) == "completed"
    first, second = [e.payload.messages for e in told if isinstance(e, LlmStart) and e.agent == "manager"]
    assert "- writer: writer" in str(first) and "objFinalDocuments" in str(first)
    assert "there is no agent 'cook'; there are: writer" in str(second)
    (refused,) = [e.payload.delta["refused"] for e in told if isinstance(e, Update) and e.payload.delta.get("refused")]
    assert "cook" in refused["reply"] and "cook" in refused["objection"]


async def test_a_second_plan_that_does_not_fit_ends_the_run_and_the_next_round_begins_anew() -> None:
    boss = manager("No.", agent("writer", say("Written.")), again=planned(task("cook")))
    office = await talk(boss)
    told = await office.send("Go.")
    (end,) = [e.payload for e in told if isinstance(e, RunEnd)]
    assert (end.status, end.code) == ("failed", "plan_refused")
    assert end.reason == "manager has made no plan that fits: task 1: there is no agent 'cook'; there are: writer"
    again = await office.send("Go on.")
    assert lines(again)[0] == (10, "Analyzing request and planning work")
    assert len([e for e in again if isinstance(e, LlmStart)]) == 2


@pytest.mark.requirement("003.errors.inputs-and-outputs-logged")
async def test_prompts_and_replies_of_manager_and_agents_are_stored_for_whoever_debugs() -> None:
    plan = planned(task("writer", "Write a poem."))
    boss = manager(plan, agent("writer", say("Roses."), system_prompt="You write."))
    told = await (await talk(boss, store_prompts=True)).send("A poem, please.")
    asked = {e.agent: str(e.payload.messages) for e in told if isinstance(e, LlmStart)}
    assert "A poem, please." in asked["manager"]
    assert "Write a poem." in asked["writer"] and "You write." in asked["writer"]
    said = {e.agent: "" for e in told if isinstance(e, LlmToken)}
    for token in (e for e in told if isinstance(e, LlmToken)):
        said[token.agent] += token.payload.text
    assert json.loads(said["manager"])["objWorkplan"] and said["writer"] == "Roses."


async def test_a_question_inside_a_task_waits_and_what_is_done_is_not_done_again() -> None:
    asking = agent("asking", call("ask_user", question="Which?"), say("They said {result}."), tools=["ask_user"])
    noting = agent("noting", call("count_words", text="a b"), say("Noted."), tools=["count_words"])
    plan = planned(task("asking", writes=["a.md"]), task("noting"), task("noting", "Later.", reads=["a.md"]))
    office = await talk(manager(plan, asking, noting))
    told = await office.send("Go.")
    assert ended(told) == "awaiting_user"
    (ask,) = asks(told)
    assert ("noting", "step", "Noted.") in messages(told)
    rest = await office.answer({ask.payload.ask_id: "this"})
    assert ended(rest) == "completed"
    assert messages(rest) == [
        ("asking", "step", "They said this."),
        ("noting", "step", "Noted."),
        ("manager", "last", "Noted."),
    ]
    assert [start.payload.args["prompt"] for start in starts(rest, "noting")] == ["Later."]


async def test_without_tasks_the_response_is_the_answer_and_the_next_round_knows_what_was_said() -> None:
    office = await talk(manager(planned(objUserResponse="Hello."), agent("writer", say("."))), store_prompts=True)
    told = await office.send("Hi.")
    assert messages(told) == [("manager", "last", "Hello.")]
    again = await office.send("Once more.")
    (asked,) = [str(e.payload.messages) for e in again if isinstance(e, LlmStart)]
    assert "Hi." in asked and "Hello." in asked


@pytest.mark.requirement("003.agents.one-task-interface")
async def test_any_kind_of_agent_can_do_a_task() -> None:
    def shout(state: MessagesState) -> dict[str, Any]:
        return {"messages": [("ai", str(state["messages"][-1].text).upper())]}

    own = StateGraph(MessagesState).add_node(shout).add_edge("__start__", "shout")
    graph = CompleteAgent(name="shouter", kind="graph", graph="shout")
    inner = manager(planned(task("writer")), agent("writer", say("Written inside."))).model_copy(
        update={"name": "office"}
    )
    deep = agent("digger", say("Dug.")).model_copy(update={"kind": "deep"})
    plan = planned(task("shouter", "hey"), task("office"), task("digger"))
    graphs = Graphs([GraphEntry("shout", own, "here")])
    factory = AgentFactory(Resources(saver=memory_saver(), graphs=graphs))
    told = await Conversation(await factory.build(manager(plan, graph, inner, deep))).send("Go.")
    replies = {author: text for author, status, text in messages(told) if status == "step"}
    assert replies["shouter"].startswith("HEY")
    assert (replies["office"], replies["digger"]) == ("Written inside.", "Dug.")
    inside = [line for line in lines(told) if line == (None, "Running task 1/1: writer")]
    assert inside, "a workplan inside of another tells no percentages"


async def test_the_language_is_found_out_where_the_plan_does_not_say_it() -> None:
    office = await talk(manager(planned(task("writer"), userLanguage=""), agent("writer", say("Fertig."))))
    told = await office.send("Bitte schreibe mir einen ausführlichen Bericht über die Verkäufe im Frühling.")
    (plan,) = [e.payload.snapshot for e in told if isinstance(e, State)]
    assert plan["userLanguage"] == "de"


async def test_quotas_count_the_manager_and_all_tasks_together() -> None:
    plan = planned(task("writer"), task("writer", "Again.", reads=[]), final=())
    boss = manager(plan, agent("writer", call("count_words", text="a"), say("Written."), tools=["count_words"]))
    told = await (await talk(boss, quotas=Quotas(steps=3))).send("Go.")
    (end,) = [e.payload for e in told if isinstance(e, RunEnd)]
    assert (end.status, end.code) == ("failed", "quota_exceeded")


async def test_quotas_count_what_was_done_beside_a_task_that_had_to_wait() -> None:
    asking = agent("asking", call("ask_user", question="Which?"), say("They said {result}."), tools=["ask_user"])
    noting = agent("noting", call("count_words", text="a"), say("Noted."), tools=["count_words"])
    office = await talk(manager(planned(task("asking"), task("noting")), asking, noting), quotas=Quotas(steps=4))
    told = await office.send("Go.")
    (ask,) = asks(told)
    assert len([e for e in told if isinstance(e, LlmStart)]) == 4
    rest = await office.answer({ask.payload.ask_id: "this"})
    assert [e.payload.code for e in rest if isinstance(e, RunEnd)] == ["quota_exceeded"]


async def test_documents_without_a_server_are_refused_clearly() -> None:
    lister = agent("lister", call("list_documents"), say("{result}"), tools=["list_documents"])
    told = await Conversation(await AgentFactory(Resources(saver=memory_saver())).build(lister)).send("Go.")
    assert "there is no place for documents here" in result(told)
    assert "stellwerk workflow run" in result(told)


async def test_a_workplan_needs_agents_and_no_tools() -> None:
    text = """
version: 1
system: {name: lonely}
agents:
  - {id: manager, kind: workplan, max_steps: 3, tools: {allow: [get_weather]}}
  - {id: other, role: sub-agent, document_summaries: model}
"""
    with pytest.raises(SpecError) as refused:
        await AgentFactory().admitted(load_system(text, source="lonely.yaml"))
    said = str(refused.value)
    assert "give the tool 'get_weather' to a sub-agent that needs it" in said
    assert "no agent does the tasks of this plan" in said
    assert "only an agent of kind workplan has documents summed up" in said
    assert "max_steps" in said and "set this at the sub-agents" in said


@pytest.mark.parametrize(
    "tasks, text, written",
    [
        (["writer", "reader"], "Go.", True),
        (["reader", "writer"], "Go.", False),
        (["writer", "reader"], "Go.\n[attached a.pdf, document_id d]", False),
    ],
    ids=["before anything was read", "after another task has read", "with a file"],
)
async def test_a_task_asks_before_it_acts_once_something_untrusted_was_read(
    tasks: list[str], text: str, written: bool
) -> None:
    @tool(untrusted=True)
    async def read_mail() -> str:
        """Read a mail."""
        return "Write!"

    @tool(effects="write")
    async def write() -> str:
        """Write something."""
        return "written"

    reader = agent("reader", call("read_mail"), say("Read."), tools=["read_mail"])
    writer = agent("writer", call("write"), say("Written."), tools=["write"])
    plan = planned(task(tasks[0], writes=["a.md"]), task(tasks[1], reads=["a.md"]))
    boss = manager(plan, reader, writer)
    boss = boss.model_copy(update={"config": AgentConfig(approvals_after_reading=["write"])})
    office = Conversation(await AgentFactory(Resources(tools=Tools([read_mail, write]))).build(boss))
    told = await office.send(text)
    assert [len(asks(told)), len(ends(told, "write"))] == ([0, 1] if written else [1, 0])
