"""The checklist in real agents: planned, worked on, refused with a reason, shared with sub-agents, stored strictly."""

from functools import reduce
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallLimitMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from stellwerk.agents.build.checklist import CHECKLIST_TOOLS, ChecklistMiddleware
from stellwerk.agents.build.checklist_tools import checklist_tools, shared_checklist
from stellwerk.agents.checkpoints.serde import StrictSerializer
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.envelope.model import State
from stellwerk.envelope.payloads import StateChanged
from stellwerk.envelope.results import ToolResult
from stellwerk.envelope.to_json import to_result
from stellwerk.spec.script import ScriptCall, ScriptRule, ScriptStep
from stellwerk.views.checklist import Checklist, fold, from_json, markdown, to_json
from tests.samples import place

CONFIG: Any = {"configurable": {"thread_id": "session"}}
PLAN = ScriptStep(
    call="plan_tasks",
    args={"tasks": [{"title": "Name the project"}, {"title": "Create it", "owner": "git", "depends_on": ["#1"]}]},
)
END = ScriptStep(say="That is all.")


def update(version: int, /, **change: Any) -> ScriptStep:
    return ScriptStep(call="update_tasks", args={"version": version, "changes": [change]})


def as_call(step: ScriptStep) -> ScriptCall:
    return ScriptCall(call=step.call or "", args=step.args)


def agent(
    *steps: ScriptStep, name: str = "boss", allow: Any = CHECKLIST_TOOLS, limits: Any = (), **options: Any
) -> Any:
    model = ScriptedModel(script=[ScriptRule(steps=[*steps, END])])
    middleware = [ChecklistMiddleware(name, allow), *limits]
    tools, saver = options.get("tools", ()), options.get("saver")
    return create_agent(model, tools, middleware=middleware, name=name, checkpointer=saver)


async def played(graph: Any, checklist: Checklist | None = None) -> tuple[Checklist, list[ToolMessage]]:
    """The checklist at the end of a run that came to its end, and what the tools answered."""
    given = {} if checklist is None else {"checklist": to_json(checklist)}
    state = await graph.ainvoke({"messages": [("user", "go")], **given}, CONFIG)
    assert state["messages"][-1].text == "That is all."
    return from_json(state.get("checklist", {})), [m for m in state["messages"] if isinstance(m, ToolMessage)]


def tasks(checklist: Checklist) -> list[tuple[str, str, str, int]]:
    return [(task.id, task.status, task.owner, task.version) for task in checklist.tasks]


async def test_an_agent_plans_works_and_reads() -> None:
    begin = update(1, id="t1", status="in_progress")
    checklist, answers = await played(agent(PLAN, begin, ScriptStep(call="read_tasks")))
    assert checklist.version == 2
    assert tasks(checklist) == [("t1", "in_progress", "boss", 2), ("t2", "pending", "git", 1)]
    assert [answer.status for answer in answers] == ["success"] * 3
    assert answers[0].text == (
        "Done. The checklist is now at version 1.\n"
        "- [ ] **t1** Name the project (pending, boss, v1)\n"
        "- [ ] **t2** Create it (pending, git, v1, after t1)"
    )
    assert answers[2].text == markdown(checklist)


async def test_obstacles_are_reported_and_settled() -> None:
    report = ScriptStep(call="report_obstacles", args={"blocker": "no access", "questions": ["Which licence?"]})
    settle = ScriptStep(call="report_obstacles", args={"settled": ["no access"]})
    checklist, _ = await played(agent(report, settle))
    assert (checklist.blocker, checklist.open_questions) == (None, ("Which licence?",))


async def test_a_user_interface_gets_the_tasks_as_a_table() -> None:
    _, (answer,) = await played(agent(PLAN))
    assert answer.artifact[ARTIFACT_KEY] == 1
    shown: ToolResult = to_result(answer.artifact["result"])[0]
    assert shown.as_text().splitlines()[0] == "| id | title | status | owner | version | note | depends_on |"
    assert shown.as_text().splitlines()[3] == "| t2 | Create it | pending | git | 1 |  | t1 |"


# Every conflict is explained to the model, and the run goes on


@pytest.mark.parametrize(
    ("attempt", "explanation"),
    [
        pytest.param(
            update(7, id="t1", status="completed"),
            "the checklist is at version 1, and you named version 7",
            marks=pytest.mark.requirement("004.patches.version"),
            id="a version that is not the newest",
        ),
        pytest.param(
            update(1, id="t1", title="Mine now", version=3),
            "t1 is at version 1, and you changed version 3; it now reads: - [ ] **t1** Name the project",
            marks=pytest.mark.requirement("004.patches.version"),
            id="a version of a task that is not the newest",
        ),
        pytest.param(
            update(1, id="t1", creator="boss"),
            "'creator' is nothing that you can set in a task; you can set: title, note, status, owner",
            marks=pytest.mark.requirement("004.patches.fields"),
            id="a field that nobody may set",
        ),
        pytest.param(
            ScriptStep(call="update_tasks", args={"version": 1, "tasks": [{"id": "t3", "title": "x"}]}),
            "update_tasks has no argument 'tasks'; it has: version, changes",
            marks=pytest.mark.requirement("004.patches.fields"),
            id="planning by way of the tool for changes",
        ),
        pytest.param(
            ScriptStep(call="plan_tasks", args={"tasks": [{"id": "t1", "title": "x"}]}),
            "ids are given, not chosen",
            marks=pytest.mark.requirement("004.patches.fields"),
            id="an id of its own choice",
        ),
        pytest.param(
            update(1, id="t1", status="finished"),
            "t1 is pending and cannot become 'finished'; it can become in_progress or completed or blocked or skipped",
            id="a status that there is not",
        ),
        pytest.param(
            update(1, id="t2", status="completed"),
            "t2 waits for t1 (pending); complete or skip that first",
            id="a task before its turn",
        ),
        pytest.param(
            update(1, id="t9", status="completed"),
            "there is no task 't9'; there are: t1, t2",
            id="a task that there is not",
        ),
        pytest.param(
            ScriptStep(call="plan_tasks", args={"tasks": [{"title": "x", "depends_on": ["#2"]}]}),
            "t3 is to depend on '#2', which is no task",
            id="a dependency that there is not",
        ),
        pytest.param(
            ScriptStep(call="plan_tasks", args={"tasks": ["Name it"]}),
            "tasks must be a list of objects, each with a title",
            id="something else than tasks",
        ),
        pytest.param(
            ScriptStep(call="report_obstacles", args={"settled": ["no access"]}),
            "no blocker or question 'no access' is open",
            id="settling what nobody reported",
        ),
    ],
)
async def test_a_rejected_patch_explains_itself_to_the_model_and_changes_nothing(
    attempt: ScriptStep, explanation: str
) -> None:
    checklist, (_, answer) = await played(agent(PLAN, attempt))
    assert answer.status == "error"
    assert answer.text.startswith(f"Nothing was changed: {explanation}")
    assert answer.text.endswith(markdown(checklist))
    assert tasks(checklist) == [("t1", "pending", "boss", 1), ("t2", "pending", "git", 1)]


@pytest.mark.requirement("004.patches.owner")
async def test_an_agent_cannot_touch_what_belongs_to_another() -> None:
    planned, _ = await played(agent(PLAN))
    checklist, (answer,) = await played(agent(update(1, id="t1", status="completed"), name="git"), planned)
    assert answer.text.startswith("Nothing was changed: t1 belongs to boss, and you are git; leave it to boss")
    assert checklist == planned


async def test_a_finished_task_stays_finished() -> None:
    done, again = update(1, id="t1", status="completed"), update(2, id="t1", status="pending")
    checklist, (*_, answer) = await played(agent(PLAN, done, again))
    assert "t1 is completed and cannot become 'pending'; it can become nothing else any more" in answer.text
    assert checklist.tasks[0].status == "completed"


# Several at once


async def test_of_two_changes_in_one_turn_the_first_is_made_and_the_second_is_rejected() -> None:
    changes = [as_call(update(1, id="t1", note=note)) for note in ("first", "second")]
    turn = ScriptStep(calls=[*changes, ScriptCall(call="read_tasks")])
    checklist, (_, first, second, read) = await played(agent(PLAN, turn))
    assert (first.status, second.status, read.status) == ("success", "error", "success")
    assert "update_tasks, called in the same turn, changes the checklist first" in second.text
    assert (checklist.version, checklist.tasks[0].note, checklist.lost) == (2, "first", ())


async def test_a_refused_call_does_not_block_a_later_one() -> None:
    limit = ToolCallLimitMiddleware(tool_name="plan_tasks", run_limit=1)
    again = ScriptStep(calls=[as_call(PLAN), as_call(update(1, id="t1", note="x"))])
    checklist, (_, *answers) = await played(agent(PLAN, again, limits=[limit]))
    assert {answer.name: answer.status for answer in answers} == {"plan_tasks": "error", "update_tasks": "success"}
    assert (checklist.version, len(checklist.tasks)) == (2, 2)


def delegate(*steps: ScriptStep, name: str, known_as: str = "", tools: Any = ()) -> Any:
    """A sub-agent as a tool: it works on the checklist that its caller lends it, and gives it back."""
    inner = agent(*steps, name=name, tools=tools)

    @tool(known_as or name)
    async def work(runtime: ToolRuntime[Any, Any]) -> Command[Any]:
        "Hand work over."
        call_id = str(runtime.tool_call_id)
        done = await inner.ainvoke({"messages": [("user", "go")], **shared_checklist(runtime.state, call_id)})
        message = ToolMessage(done["messages"][-1].text, tool_call_id=call_id)
        return Command(update={"checklist": done["checklist"], "messages": [message]})

    return work


def both(*names: str) -> ScriptStep:
    return ScriptStep(calls=[ScriptCall(call=name) for name in names])


async def test_a_sub_agent_works_on_the_tasks_that_were_planned_for_it() -> None:
    git = delegate(update(2, id="t2", status="completed"), name="git")
    done = update(1, id="t1", status="completed")
    checklist, _ = await played(agent(PLAN, done, both("git"), tools=[git]))
    assert tasks(checklist) == [("t1", "completed", "boss", 2), ("t2", "completed", "git", 2)]


async def test_sub_agents_that_plan_side_by_side_get_ids_that_do_not_clash() -> None:
    deep = delegate(PLAN, name="deep")
    git, docs = delegate(both("deep", "deep"), name="git", tools=[deep]), delegate(PLAN, name="docs")
    checklist, _ = await played(agent(PLAN, both("git", "docs"), tools=[git, docs], saver=strict()))
    assert [task.id for task in checklist.tasks] == [
        *("t1", "t2", "s2.t1", "s2.t2"),
        *("s1.s1.t1", "s1.s1.t2", "s1.s2.t1", "s1.s2.t2"),
    ]
    assert (checklist.version, checklist.lost) == (4, ())


async def test_two_of_one_kind_at_work_on_one_task_show_which_change_lost() -> None:
    plan = ScriptStep(call="plan_tasks", args={"tasks": [{"title": "Create it", "owner": "git"}]})
    one = delegate(update(1, id="t1", note="as I found it"), name="git")
    other = delegate(update(1, id="t1", status="completed"), name="git", known_as="git_too")
    steps = (plan, both("git", "git_too"), ScriptStep(call="read_tasks"))
    checklist, (*_, read) = await played(agent(*steps, tools=[one, other]))
    assert [(task.status, task.note) for task in checklist.tasks] == [("completed", "")]
    assert [task.note for task in checklist.lost] == ["as I found it"]
    assert "## Lost to a change made at the same time" in read.text


# Stored, told, allowed


def strict() -> InMemorySaver:
    return InMemorySaver(serde=StrictSerializer())


async def test_a_checklist_goes_on_in_the_next_round_as_it_was_stored() -> None:
    saver = strict()
    planned, _ = await played(agent(PLAN, saver=saver))
    later, _ = await played(agent(update(1, id="t1", status="completed"), saver=saver))
    assert (planned.version, later.version) == (1, 2)
    assert tasks(later)[0] == ("t1", "completed", "boss", 2)


@pytest.mark.requirement("004.markdown.state-leads", "004.markdown.deterministic")
async def test_the_checklist_folded_from_the_log_renders_to_the_same_bytes() -> None:
    docs = delegate(PLAN, name="docs")
    parallel = ScriptStep(calls=[as_call(PLAN), ScriptCall(call="docs")])
    graph = agent(PLAN, parallel, tools=[docs], saver=strict())
    told = []
    async for update in graph.astream({"messages": [("user", "go")]}, CONFIG, stream_mode="updates"):
        told += [part["checklist"] for part in update.values() if part and "checklist" in part]
    envelopes = [
        State(
            **place("list", 1), payload=StateChanged(name="checklist", version=snapshot["version"], snapshot=snapshot)
        )
        for snapshot in told
    ]
    stored = from_json((await graph.aget_state(CONFIG)).values["checklist"])
    assert len(told) == 3
    assert markdown(reduce(fold, envelopes, Checklist())) == markdown(stored)


async def test_an_agent_has_only_the_tools_it_is_allowed() -> None:
    assert [made.name for made in ChecklistMiddleware("boss", ["read_tasks", "get_weather"]).tools] == ["read_tasks"]
    _, (answer,) = await played(agent(PLAN, allow=["read_tasks"]))
    assert (answer.status, "plan_tasks is not a valid tool" in answer.text) == ("error", True)


def test_a_model_sees_every_argument_and_what_it_may_be() -> None:
    plan, change, read, report = (convert_to_openai_tool(made)["function"] for made in checklist_tools("boss"))
    assert [made["name"] for made in (plan, change, read, report)] == list(CHECKLIST_TOOLS)
    fields = change["parameters"]["properties"]["changes"]["items"]["properties"]
    assert fields["status"]["enum"] == ["pending", "blocked", "in_progress", "skipped", "completed"]
    assert "runtime" not in read["parameters"]["properties"]
