"""The graph of a workplan agent: a planner, tasks for other agents, and a review of the results.

Tasks that do not wait for each other run side by side. Each is stored when it is
done, so that after a question or a crash only what is left is done. What the
review says follows from the documents that are there.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import StateGraph, add_messages
from langgraph.types import Send

from stellwerk.agents.build.kinds import KindParts, prompt_of
from stellwerk.agents.graphs.input import Graph
from stellwerk.agents.middleware.calls import RetryPolicy
from stellwerk.agents.middleware.limits import finished_parallel_results
from stellwerk.agents.runtime import conversation
from stellwerk.agents.runtime.budget import Budget, current, spending
from stellwerk.agents.runtime.conversation import Cost, since_input
from stellwerk.agents.runtime.shapes import plain_id
from stellwerk.agents.scripted.templates import error_message
from stellwerk.agents.tools.call import langchain_tool
from stellwerk.errors import PlanRefused, SpecError
from stellwerk.spec.model import CompleteAgent
from stellwerk.spec.rules import cannot_ask
from stellwerk.threads import in_thread
from stellwerk.views.status import TASK
from stellwerk.workflows.documents.contents import language_of
from stellwerk.workflows.documents.session import SessionDocument, current_documents, listed
from stellwerk.workflows.documents.tools import save_document
from stellwerk.workflows.workplan import plan as planning
from stellwerk.workflows.workplan.plan import Workplan
from stellwerk.workflows.workplan.tasks import FILES, ModelSummaries, about, task_tool

_NO_COST: Mapping[str, Any] = {"steps": 0, "tokens": 0, "seconds": 0.0}


class WorkplanState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    """The conversation; results of tasks are tool messages."""
    plan: NotRequired[dict[str, Any]]
    plan_id: NotRequired[str]
    spent: NotRequired[dict[str, Any]]
    """The cost of the round before it had a plan."""
    refused: NotRequired[dict[str, str] | None]
    """A plan that was rejected, and why."""
    read: NotRequired[list[str]]
    """Taint: sources of untrusted text in the conversation. It stays when messages are removed."""


class TaskState(TypedDict):
    """The input of one task."""

    number: int
    """Its place in the order of work, from 1."""
    count: int
    id: str
    """The id of its call and of its result message."""
    agent: str
    args: dict[str, Any]
    spent: dict[str, Any]
    """The cost of the round before it."""
    read: NotRequired[list[str]]
    """Taint: sources of untrusted text before it."""


def build_workplan(agent: CompleteAgent, parts: KindParts) -> Graph:
    """The builder of the kind ``workplan``, named in the entry points of this package.

    Raises:
        SpecError: it would have to ask for approval of what a graph does, which is not known.
    """
    work = _Workplan(agent, parts)
    graph = StateGraph(WorkplanState)
    graph.add_node("intake", work.intake)
    graph.add_node("plan", work.plan)
    graph.add_node("task", work.task, input_schema=TaskState)
    # Joins all tasks of a wave; an edge from a task itself would only see that task's result.
    graph.add_node("collect", lambda state: None)
    graph.add_node("review", work.review)
    graph.add_edge("__start__", "intake")
    graph.add_edge("intake", "plan")
    graph.add_conditional_edges("plan", work.next_steps, ["plan", "task", "review"])
    graph.add_edge("task", "collect")
    graph.add_conditional_edges("collect", work.next_steps, ["task", "review"])
    graph.add_edge("review", "__end__")
    return graph.compile(checkpointer=parts.saver, store=parts.store, name=agent.name)


class _Workplan:
    def __init__(self, agent: CompleteAgent, parts: KindParts) -> None:
        below = {use.name or use.agent.name: (use.agent, built) for use, built in parts.below}
        for name, (used, _) in below.items():
            if used.kind == "graph" and "external" in parts.asked:
                raise SpecError(cannot_ask(agent.name, name))
        can_save = save_document.effects in parts.effects
        save = langchain_tool(save_document, keep=parts.keep) if can_save else None
        self._agent = agent
        self._planner: Graph = create_agent(parts.model, [], middleware=parts.middleware, name=agent.name)
        self._tasks = {name: task_tool(*used, name=name, save=save) for name, used in below.items()}
        self._descriptions = {name: used.description for name, (used, _) in below.items()}
        self._untrusted = {name for name, (_, built) in below.items() if built.untrusted}
        self._summaries: ModelSummaries | None = None
        if agent.config.document_summaries == "model":
            retries = RetryPolicy(agent.config.model_retries)
            self._summaries = ModelSummaries(agent.name, parts.model, retries)

    async def intake(self, state: WorkplanState) -> dict[str, Any]:
        """Read the documents of the message before they are needed."""
        documents = current_documents()
        with spending() as inside:
            if documents is not None:
                known = await documents.listed()
                given = [each for each in known if each.message_id == _question(state).id]
                for each, summary in await documents.summaries(given):
                    if summary.startswith("cannot be read"):
                        _warn(f"{each.name} {summary}")
                if self._summaries is not None:
                    await self._summaries.make(documents, given, _warn)
        update: dict[str, Any] = {"refused": None} if state.get("refused") else {}
        if inside.spent.steps or "spent" in state:
            update["spent"] = _cost_of(inside)
        return update

    async def plan(self, state: WorkplanState) -> dict[str, Any]:
        """Let the model plan; an invalid plan is returned to it once."""
        refused = state.get("refused")
        before = state.get("spent", _NO_COST)
        _catch_up(before)
        if not refused:
            _say("Analyzing request and planning work", progress=10)
        documents = current_documents()
        known = [] if documents is None else list(await documents.listed())
        given = [each.name for each in _given(state, known)]
        there = [name for each in known for name in (each.name, each.document_id)]
        with spending() as inside:
            left = await self._planner.ainvoke({"messages": await self._asked(state, known)})
        reply: BaseMessage = left["messages"][-1]
        cost = _cost_of(inside, before)
        try:
            plan = planning.read_plan(str(reply.text), agents=self._tasks, there=there, given=given)
        except PlanRefused as objection:
            if refused:
                problem = f"{self._agent.name} has made no plan that fits: {objection.message}"
                raise PlanRefused(problem) from objection
            again = {"reply": str(reply.text), "objection": objection.message}
            return {"refused": again, "spent": cost}
        if not plan.userLanguage:
            found = await in_thread(language_of, str(_question(state).text))
            plan = plan.model_copy(update={"userLanguage": found or "en"})
        _say("Work plan created", progress=25)
        plan_id = plain_id(reply.id).removeprefix("lc_run--")
        message = self._message(plan.objUserResponse, f"plan-{plan_id}", step=True, cost=cost)
        update: dict[str, Any] = {
            "plan": plan.model_dump(mode="json"),
            "plan_id": plan_id,
            "messages": [message] if plan.objWorkplan else [],
        }
        if refused:
            update["refused"] = None
        if read := _taint_in(state, known):
            update["read"] = read
        return update

    async def _asked(self, state: WorkplanState, known: Sequence[SessionDocument]) -> list[BaseMessage]:
        documents = current_documents()
        summaries = [] if documents is None else await documents.summaries(known)
        agents = [f"- {name}: {said or name}" for name, said in self._descriptions.items()]
        frame = planning.PLANNER.format(
            agents="\n".join(agents),
            documents="\n".join(listed(*each) for each in summaries) or "none",
            schema=json.dumps(Workplan.model_json_schema(), ensure_ascii=False),
        )
        own = prompt_of(self._agent.config)
        asked: list[BaseMessage] = [SystemMessage(f"{frame}\n\n{own}" if own else frame)]
        given = {"documents": [about(each) for each in _given(state, known)]}
        note = {conversation.INPUT_NOTE: given}
        for said in state["messages"]:
            if isinstance(said, HumanMessage | AIMessage):
                is_question = said.id == _question(state).id
                asked.append(conversation.with_notes(said, **note) if is_question else said)
        if refused := state.get("refused"):
            objection = planning.RETRY.format(objection=refused["objection"])
            asked += [AIMessage(refused["reply"]), HumanMessage(objection, response_metadata=note)]
        return asked

    def next_steps(self, state: WorkplanState) -> list[Send] | Literal["plan", "review"]:
        """All tasks whose inputs are ready; a failed task counts as done."""
        if state.get("refused"):
            return "plan"
        plan, results = _plan_in(state), _results_in(state)
        for wave in plan.waves():
            waiting = [n for n in wave if _task_id(state, n) not in results]
            if waiting:
                return [Send("task", _task_state(state, plan, n)) for n in waiting]
        return "review"

    async def task(self, state: TaskState) -> dict[str, Any]:
        number, count, agent = state["number"], state["count"], state["agent"]
        _say(f"Running task {number}/{count}: {agent}", progress=30 + 60 * (number - 1) // count)
        # Results of this wave from before a question or crash are stored, but not in the state yet.
        _catch_up(state["spent"], await finished_parallel_results())
        call = {"type": "tool_call", "name": agent, "args": state["args"], "id": state["id"]}
        with spending() as inside, conversation.tainted_by(state.get("read", ())):
            result: ToolMessage = await self._tasks[agent].ainvoke(call)
        reply, texts = str(result.text), planning.texts_for(state["args"]["language"])
        if result.status == "error":
            _say(texts["failed"].format(number=number, count=count, agent=agent), level="error")
            reply = texts["gave_up"].format(reason=error_message(reply))
        files = result.artifact[FILES] if isinstance(result.artifact, dict) else []
        taint = conversation.taint_note([agent] if agent in self._untrusted else [])
        kept = result.model_copy(update={"artifact": {FILES: files}})
        kept = conversation.with_notes(kept, **_note_of(_cost_of(inside)), **taint)
        message = self._message(reply or texts["done"], state["id"], author=agent, step=True, files=files)
        return {"messages": [kept, message]}

    async def review(self, state: WorkplanState) -> dict[str, Any]:
        """Compare the expected documents with the delivered ones."""
        _say("Creating final response", progress=90)
        plan, results = _plan_in(state), _results_in(state)
        done = [(plan.objWorkplan[n].agent, results[_task_id(state, n)]) for n in plan.order()]
        expected = [wanted.name for wanted in plan.objFinalDocuments]
        made = {file["name"].casefold(): file for _, result in done for file in result.artifact[FILES]}
        wanted = [name.casefold() for name in expected if name.casefold() in made]
        files = [made[name] for name in dict.fromkeys([*wanted, *made])]
        text = plan.objUserResponse
        if plan.objWorkplan:
            last = [results[_task_id(state, n)] for n in plan.waves()[-1]]
            failed = [(agent, result) for agent, result in done if result.status == "error"]
            text = planning.review_text(
                plan.userLanguage,
                expected=expected,
                delivered=[file["name"] for file in files],
                failures=[(agent, error_message(str(result.text))) for agent, result in failed],
                replies=[str(result.text) for result in last if result.status != "error"],
            )
        message = self._message(text, f"review-{state['plan_id']}", files=files)
        read = _taint_in(state)
        return {"messages": [message], "read": read} if read else {"messages": [message]}

    def _message(
        self,
        text: str,
        message_id: str,
        *,
        author: str | None = None,
        step: bool = False,
        files: Sequence[Mapping[str, str]] = (),
        cost: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """A message that the workplan itself adds to the conversation."""
        notes: dict[str, Any] = {conversation.SERVER_WRITTEN: "workplan"}
        if step:
            notes[conversation.STEP] = True
        if files:
            notes[conversation.DOCUMENTS] = list(dict.fromkeys(file["document_id"] for file in files))
        if cost:
            notes |= _note_of(cost)
        return AIMessage(text, id=message_id, name=author or self._agent.name, response_metadata=notes)


def _task_state(state: WorkplanState, plan: Workplan, n: int) -> TaskState:
    planned = plan.objWorkplan[n]
    args = {
        "prompt": planned.prompt,
        "input_documents": planned.inputDocuments,
        "output_documents": planned.outputDocuments,
        "language": plan.userLanguage,
    }
    said = since_input(state["messages"])
    spent = conversation.cost_in(said)
    task: TaskState = {
        "number": plan.order().index(n) + 1,
        "count": len(plan.objWorkplan),
        "id": _task_id(state, n),
        "agent": planned.agent,
        "args": args,
        "spent": {
            "steps": spent.steps,
            "tokens": spent.tokens,
            "seconds": conversation.seconds_in(said),
        },
    }
    if read := _taint_in(state):
        task["read"] = read
    return task


def _say(message: str, *, level: str = "info", progress: int | None = None) -> None:
    """Add a log entry. Percentages refer to the whole run, so a nested workplan has none."""
    nested = "|" in str(get_config().get("configurable", {}).get("checkpoint_ns", ""))
    line = {"stellwerk": "log", "message": message, "level": level}
    get_stream_writer()(line if progress is None or nested else {**line, "progress": progress})


def _warn(message: str) -> None:
    _say(message, level="warning")


def _given(state: WorkplanState, known: Sequence[SessionDocument]) -> list[SessionDocument]:
    """Documents of the user's last message; if it has none, all that they gave so far."""
    now = [each for each in known if each.message_id == _question(state).id]
    return now or [each for each in known if each.message_id and not each.message_id.startswith(TASK)]


def _question(state: WorkplanState) -> BaseMessage:
    """The user's last message."""
    return state["messages"][len(state["messages"]) - len(since_input(state["messages"])) - 1]


def _plan_in(state: WorkplanState) -> Workplan:
    return Workplan.model_validate(state["plan"])


def _results_in(state: WorkplanState) -> dict[str, ToolMessage]:
    """Results of the tasks of this round by id."""
    return {m.tool_call_id: m for m in since_input(state["messages"]) if isinstance(m, ToolMessage)}


def _task_id(state: WorkplanState, n: int) -> str:
    return f"{TASK}{n + 1}-{state['plan_id']}"


def _taint_in(state: WorkplanState, known: Sequence[SessionDocument] = ()) -> list[str]:
    """Taint: sources of untrusted text so far, as the planner reads names and summaries."""
    files = [conversation.ATTACHED_FILES] if known else []
    sources = [*state.get("read", ()), *conversation.taint_sources(state["messages"]), *files]
    return list(dict.fromkeys(sources))


def _note_of(cost: Mapping[str, Any]) -> dict[str, Any]:
    """The cost of a message as its metadata; the time only if it is limited."""
    note: dict[str, Any] = {conversation.SPENT: {"steps": cost["steps"], "tokens": cost["tokens"]}}
    if cost["seconds"]:
        note[conversation.SECONDS] = cost["seconds"]
    return note


def _cost_of(inside: Budget, before: Mapping[str, Any] = _NO_COST) -> dict[str, Any]:
    """The cost inside and before; ``seconds`` is the time of the run so far."""
    spent = inside.spent + Cost(before["steps"], before["tokens"])
    return {"steps": spent.steps, "tokens": spent.tokens, "seconds": inside.seconds() or 0.0}


def _catch_up(cost: Mapping[str, Any], beside: Sequence[BaseMessage] = ()) -> None:
    """Add a cost and that of messages ``beside`` to the run's budget, unless it has them."""
    known = Cost(cost["steps"], cost["tokens"]) + conversation.cost_in(beside)
    current().catch_up(known, seconds=max(cost["seconds"], conversation.seconds_in(beside)))
