"""The scenarios: small real agents and graphs on scripted models, each for one thing that can happen in a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.tools.registry import Tools
from stellwerk.spec.model import AgentAsTool, CompleteAgent, ModelSpec
from stellwerk.spec.script import ScriptRule, ScriptStep
from tests.agents.agent_runs import agent, call, calls, say
from tests.golden import scenario_graphs as graphs
from tests.golden.scenario_tools import TOOLS
from tests.golden.turns import Answer, Build, Cut, Say, Scenario

GO = Say("Go.")


def described(boss: CompleteAgent) -> Build:
    async def build(saver: Any) -> Any:
        return await AgentFactory(Resources(tools=Tools(TOOLS), saver=saver)).build(boss)

    return build


def using(who: CompleteAgent, *others: CompleteAgent) -> CompleteAgent:
    return who.model_copy(update={"agents_as_tools": [AgentAsTool(agent=other) for other in others]})


def of(
    name: str, boss: CompleteAgent, *turns: Say | Answer, agents: Sequence[str] = (), signals: Mapping[str, str] = {}
) -> Scenario:
    metadata = {name: {"agent": name, "signal": signals.get(name)} for name in agents}
    return Scenario(name, described(boss), list(turns or (GO,)), metadata)


def by_hand(name: str, build: Build, *turns: Say | Answer) -> Scenario:
    return Scenario(name, build, list(turns or (GO,)))


def asking(name: str, question: str) -> CompleteAgent:
    return agent(name, call("ask_user", question=question), say("They said {result}."), tools=["ask_user"])


READER = agent("reader", call("note", text="page 1"), say("It says: {result}."), tools=["note"])
RESEARCHER = using(agent("researcher", call("reader", task="read it"), say("Found: {result}")), READER)
NOTER = agent("noter", call("note", text="{message}"), say("{message} is done."), tools=["note"])
DONE = agent("finder", say("I found it."), completion_signal="research_done")
JUDGED = ModelSpec(
    script=[
        ScriptRule(when="42", steps=[ScriptStep(say="OK")]),
        ScriptRule(when="huge", steps=[ScriptStep(say="it has no number")]),
        ScriptRule(steps=[ScriptStep(say="It is huge."), ScriptStep(say="It has 42 metres.")]),
    ]
)
LOOK = ScriptStep(say="Let me look. ", call="note", args={"text": "x"})
TWICE = calls(("noter", {"task": "left"}), ("noter", {"task": "right"}))
PLANNER = agent("planner", call("plan_tasks", tasks=[{"title": "Leap"}]), say("Planned."), tools=["plan_tasks"])
PLANS = calls(("plan_tasks", {"tasks": [{"title": "Look"}]}), ("planner", {"task": "leap"}))
CHOICE = ["approve", "reject"]
TABLES = calls(("weather", {"city": "Ulm"}), ("report", {"title": "Towns"}))
BOTH = calls(("west", {"task": "left"}), ("east", {"task": "right"}))
MANY = {"city": "Ulm on the Danube, where the tall tower stands"}

PLAN = """{"objFinalDocuments": [{"name": "towns.txt"}, {"name": "sums.csv"}], "objWorkplan": [
{"agent": "writer", "prompt": "Write.", "inputDocuments": ["sums.csv"], "outputDocuments": ["towns.txt"]},
{"agent": "counter", "prompt": "Count.", "outputDocuments": ["sums.csv"]}, {"agent": "chooser", "prompt": "Choose."}],
"objUserResponse": "Three tasks.", "userLanguage": "en"}"""
PLANNED = ModelSpec(
    script=[ScriptRule(when="accepted", steps=[say(PLAN)]), ScriptRule(steps=[say("I would rather not plan.")])]
)
OFFICE = CompleteAgent(
    name="manager",
    kind="workplan",
    model=PLANNED,
    agents_as_tools=[
        AgentAsTool(agent=agent("writer", call("report", title="Towns"), say("Written."), tools=["report"])),
        AgentAsTool(agent=agent("counter", ScriptStep(say="One, ", fail="lost count"), model_retries=0)),
        AgentAsTool(agent=asking("chooser", "Which?")),
    ],
)

SCENARIOS = [
    of("plain-answer", agent("boss", say("Hello, I am here."))),
    of("one-tool", agent("boss", LOOK, say("Done."), tools=["note"])),
    of(
        "nested-agents",
        using(agent("boss", call("researcher", task="find it"), say("So: {result}")), RESEARCHER),
        agents=["researcher", "reader"],
    ),
    of(
        "parallel-agents",
        using(agent("boss", TWICE, say("Both done.")), NOTER),
        agents=["noter"],
    ),
    of(
        "question-answered",
        using(agent("boss", call("helper", task="ask"), say("{result}")), asking("helper", "May I?")),
        GO,
        Answer({"May I?": {"text": "yes"}}),
        agents=["helper"],
    ),
    of(
        "two-questions",
        using(agent("boss", BOTH, say("Heard both.")), asking("west", "Go west?"), asking("east", "Go east?")),
        GO,
        Answer({"west": {"text": "yes"}, "east": {"text": "no"}}),
        agents=["west", "east"],
    ),
    of(
        "approval-rejected",
        agent("boss", call("pay", to="Bob", amount=5), say("{result}"), tools=["pay"], approvals={"pay": CHOICE}),
        GO,
        Answer({"pay": {"refused": True, "text": "too much"}}),
    ),
    of("stopped", agent("boss", LOOK, say("one two three four"), tools=["note"]), Say("Go.", Cut("three", "stopped"))),
    of(
        "crashed-resumed",
        using(agent("boss", call("noter", task="left"), say("Both done.")), NOTER),
        Say("Go.", Cut("left", "crashed")),
        Say("Go on."),
        agents=["noter"],
    ),
    of("failing-tool", agent("boss", call("fetch", url="a.test"), say("It failed: {result}"), tools=["fetch"])),
    of("failing-run", agent("boss", ScriptStep(say="I begin ", fail="no more"), model_retries=0)),
    by_hand("model-retried", graphs.retried),
    by_hand("call-abandoned", graphs.raced),
    by_hand("deep-agent", graphs.deep),
    by_hand("own-keys", graphs.own_keys, GO, Answer({"euros": {"text": "yes"}})),
    by_hand("reasoning", graphs.thinking),
    of("tables-and-files", agent("boss", TABLES, say("Here they are."), tools=["weather", "report"])),
    of("validated", agent("boss", say(""), validation_prompt="Has it a number?").model_copy(update={"model": JUDGED})),
    of(
        "checklist",
        agent("boss", call("plan_tasks", tasks=[{"title": "Look"}]), say("Planned."), tools=["plan_tasks"]),
    ),
    of(
        "parallel-checklist",
        using(agent("boss", PLANS, say("Planned."), tools=["plan_tasks"]), PLANNER),
        agents=["planner"],
    ),
    Scenario("workplan", described(OFFICE), [GO, Answer({"Which?": {"text": "this"}})], forms=("live",)),
    by_hand("schema-prompted", graphs.schema_prompted),
    of("streamed-arguments", agent("boss", ScriptStep(call="weather", args=MANY), say("Warm."), tools=["weather"])),
    of("progress", agent("boss", call("climb"), say("Up."), tools=["climb"])),
    of(
        "completion-signal",
        using(agent("boss", call("finder", task="find"), say("{result}")), DONE),
        agents=["finder"],
        signals={"finder": "research_done"},
    ),
]
"""Each with what the user says, and what he answers."""
