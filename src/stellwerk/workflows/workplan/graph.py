"""The graph of a workplan agent: a planner, tasks for other agents, and a review of the results.

Tasks that do not wait for each other run side by side. Each is stored when it is
done, so that after a question or a crash only what is left is done. What the
review says follows from the documents that are there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import StateGraph, add_messages
from langgraph.types import Send

from stellwerk.agents.build.kinds import KindParts
from stellwerk.agents.graphs.input import Graph
from stellwerk.agents.middleware.calls import RetryPolicy
from stellwerk.agents.middleware.limits import finished_parallel_results
from stellwerk.agents.middleware.request import prompt_of
from stellwerk.agents.runtime.budget import Budget, current, spending
from stellwerk.agents.runtime.conversation import (
    ATTACHED_FILES,
    DOCUMENTS,
    INPUT_NOTE,
    SECONDS,
    SERVER_WRITTEN,
    SPENT,
    STEP,
    Cost,
    cost_in,
    seconds_in,
    since_input,
    taint_note,
    taint_sources,
    tainted_by,
    with_notes,
)
from stellwerk.agents.runtime.shapes import plain_id
from stellwerk.agents.scripted.templates import error_message
from stellwerk.agents.tools.call import langchain_tool
from stellwerk.errors import PlanRefused, SpecError
from stellwerk.spec.model import CompleteAgent
from stellwerk.spec.rules import cannot_ask
from stellwerk.threads import in_thread
from stellwerk.views.status import TASK
from stellwerk.workflows.documents.contents import language_of
from stellwerk.workflows.documents.session import SessionDocument, current_documents
from stellwerk.workflows.documents.tools import listed, save_document
from stellwerk.workflows.workplan.plan import PLANNER, RETRY, Review, Workplan, plain, read_plan, schema, texts_for
from stellwerk.workflows.workplan.summaries import ModelSummaries
from stellwerk.workflows.workplan.tasks import FILES, about, task_tool

_ENGLISH = "en"
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
        save: BaseTool | None = None
        if save_document.effects in parts.effects:
            save = langchain_tool(save_document, keep=parts.keep)
        self._agent = agent
        self._planner: Graph = create_agent(parts.model, [], middleware=parts.middleware, name=agent.name)
        self._tasks = {name: task_tool(used, built, name=name, save=save) for name, (used, built) in below.items()}
        self._descriptions = {name: used.description for name, (used, _) in below.items()}
        self._untrusted = {name for name, (_, built) in below.items() if built.untrusted}
        self._summaries: ModelSummaries | None = None
        if agent.config.document_summaries == "model":
            self._summaries = ModelSummaries(agent.name, parts.model, RetryPolicy(agent.config.model_retries))

    async def intake(self, state: WorkplanState) -> dict[str, Any]:
        """Read the documents of the message before they are needed."""
        documents = current_documents()
        known = [] if documents is None else await documents.listed()
        given = [each for each in known if each.message_id == _question(state).id]
        for each, summary in await _summaries(given):
            if summary.startswith("cannot be read"):
                _say(f"{each.name} {summary}", level="warning")
        with spending() as inside:
            if self._summaries is not None and documents is not None:
                await self._summaries.make(documents, given, lambda text: _say(text, level="warning"))
        settled = {"refused": None} if state.get("refused") else {}
        if inside.spent.steps or "spent" in state:
            return {"spent": _cost_of(inside), **settled}
        return settled

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
        with spending() as inside:
            left = await self._planner.ainvoke({"messages": await self._asked(state, known)})
        reply: BaseMessage = left["messages"][-1]
        try:
            plan = read_plan(str(reply.text), agents=self._tasks, there=_names(known), given=given)
        except PlanRefused as objection:
            if refused:
                raise PlanRefused(f"{self._agent.name} has made no plan that fits: {objection.message}") from objection
            again = {"reply": str(reply.text), "objection": objection.message}
            return {"refused": again, "spent": _cost_of(inside, before)}
        if not plan.userLanguage:
            found = await in_thread(language_of, str(_question(state).text))
            plan = plan.model_copy(update={"userLanguage": found or _ENGLISH})
        _say("Work plan created", progress=25)
        plan_id = plain_id(reply.id).removeprefix("lc_run--")
        cost = _cost_of(inside, before)
        message = self._message(plan.objUserResponse, f"plan-{plan_id}", step=True, cost=cost)
        settled: dict[str, Any] = {"refused": None} if refused else {}
        if read := _read_in(state, known):
            settled["read"] = read
        messages = [message] if plan.objWorkplan else []
        return {"plan": plain(plan), "plan_id": plan_id, "messages": messages, **settled}

    async def _asked(self, state: WorkplanState, known: Sequence[SessionDocument]) -> list[BaseMessage]:
        lines = [listed(each, summary) for each, summary in await _summaries(known)]
        agents = [f"- {name}: {said or name}" for name, said in self._descriptions.items()]
        frame = PLANNER.format(agents="\n".join(agents), documents="\n".join(lines) or "none", schema=schema())
        said = [m for m in state["messages"] if isinstance(m, HumanMessage | AIMessage)]
        given = {"documents": [about(each) for each in _given(state, known)]}
        said = [with_notes(m, **{INPUT_NOTE: given}) if m.id == _question(state).id else m for m in said]
        own = prompt_of(self._agent.config)
        asked: list[BaseMessage] = [SystemMessage(f"{frame}\n\n{own}" if own else frame), *said]
        if refused := state.get("refused"):
            again = HumanMessage(RETRY.format(objection=refused["objection"]), response_metadata={INPUT_NOTE: given})
            asked += [AIMessage(refused["reply"]), again]
        return asked

    def next_steps(self, state: WorkplanState) -> list[Send] | Literal["plan", "review"]:
        """All tasks whose inputs are ready; a failed task counts as done."""
        if state.get("refused"):
            return "plan"
        plan, results = _plan_in(state), _results_in(state)
        order = plan.order()
        spent = _cost_so_far(state["messages"])
        for wave in plan.waves():
            waiting = [n for n in wave if _task_id(state, n) not in results]
            if waiting:
                return [Send("task", self._given(state, plan, n, order.index(n) + 1, spent)) for n in waiting]
        return "review"

    def _given(
        self,
        state: WorkplanState,
        plan: Workplan,
        n: int,
        number: int,
        spent: dict[str, Any],
    ) -> TaskState:
        planned = plan.objWorkplan[n]
        args = {
            "prompt": planned.prompt,
            "input_documents": planned.inputDocuments,
            "output_documents": planned.outputDocuments,
            "language": plan.userLanguage,
        }
        count, call = len(plan.objWorkplan), _task_id(state, n)
        task = TaskState(number=number, count=count, id=call, agent=planned.agent, args=args, spent=spent)
        read = _read_in(state)
        return {**task, "read": read} if read else task

    async def task(self, state: TaskState) -> dict[str, Any]:
        number, count, agent = state["number"], state["count"], state["agent"]
        _say(f"Running task {number}/{count}: {agent}", progress=30 + 60 * (number - 1) // count)
        # Results of this wave from before a question or crash are stored, but not in the state yet.
        _catch_up(state["spent"], await finished_parallel_results())
        call = {"type": "tool_call", "name": agent, "args": state["args"], "id": state["id"]}
        with spending() as inside, tainted_by(state.get("read", ())):
            result: ToolMessage = await self._tasks[agent].ainvoke(call)
        reply, texts = str(result.text), texts_for(state["args"]["language"])
        if result.status == "error":
            _say(texts.failed.format(number=number, count=count, agent=agent), level="error")
            reply = texts.gave_up.format(reason=error_message(reply))
        files = result.artifact[FILES] if isinstance(result.artifact, dict) else []
        notes = _note_of(_cost_of(inside)) | taint_note([agent] if agent in self._untrusted else [])
        kept = with_notes(result.model_copy(update={"artifact": {FILES: files}}), **notes)
        message = self._message(reply or texts.done, state["id"], author=agent, step=True, files=files)
        return {"messages": [kept, message]}

    async def review(self, state: WorkplanState) -> dict[str, Any]:
        """Compare the expected documents with the delivered ones."""
        _say("Creating final response", progress=90)
        plan, results = _plan_in(state), _results_in(state)
        done = [(plan.objWorkplan[n].agent, results[_task_id(state, n)]) for n in plan.order()]
        made = {file["name"].casefold(): file for _, result in done for file in result.artifact[FILES]}
        expected = [wanted.name for wanted in plan.objFinalDocuments]
        first = {name.casefold(): made[name.casefold()] for name in expected if name.casefold() in made}
        files = list({**first, **made}.values())
        last = plan.waves()[-1] if plan.objWorkplan else ()
        review = Review(
            expected=expected,
            delivered=[file["name"] for file in files],
            failures=[(agent, error_message(str(result.text))) for agent, result in done if result.status == "error"],
            replies=[str(result.text) for n in last if (result := results[_task_id(state, n)]).status != "error"],
        )
        text = review.text(plan.userLanguage) if plan.objWorkplan else plan.objUserResponse
        message = self._message(text, f"review-{state['plan_id']}", files=files)
        read = _read_in(state)
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
        said = {SERVER_WRITTEN: "workplan", STEP: step, DOCUMENTS: _ids(files), **(_note_of(cost) if cost else {})}
        notes = {name: note for name, note in said.items() if note}
        return AIMessage(text, id=message_id, name=author or self._agent.name, response_metadata=notes)


def _ids(files: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(file["document_id"] for file in files))


def _say(message: str, *, level: str = "info", progress: int | None = None) -> None:
    """Add a log entry. Percentages refer to the whole run, so a nested workplan has none."""
    nested = "|" in str(get_config().get("configurable", {}).get("checkpoint_ns", ""))
    line = {"stellwerk": "log", "message": message, "level": level}
    get_stream_writer()(line if progress is None or nested else {**line, "progress": progress})


async def _summaries(known: Sequence[SessionDocument]) -> list[tuple[SessionDocument, str]]:
    documents = current_documents()
    if documents is None:
        return []
    unique = list({(each.document_id, each.name): each for each in known}.values())
    return list(zip(unique, await asyncio.gather(*map(documents.summary, unique)), strict=True))


def _names(known: Sequence[SessionDocument]) -> list[str]:
    return [name for each in known for name in (each.name, each.document_id)]


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


def _read_in(state: WorkplanState, known: Sequence[SessionDocument] = ()) -> list[str]:
    """Taint: sources of untrusted text so far, as the planner reads names and summaries."""
    files = [ATTACHED_FILES] if known else []
    return list(dict.fromkeys([*state.get("read", ()), *taint_sources(state["messages"]), *files]))


def _note_of(cost: Mapping[str, Any]) -> dict[str, Any]:
    """The cost of a message as its metadata; the time only if it is limited."""
    spent = {SPENT: {"steps": cost["steps"], "tokens": cost["tokens"]}}
    return spent | ({SECONDS: cost["seconds"]} if cost["seconds"] else {})


def _cost_of(inside: Budget, before: Mapping[str, Any] = _NO_COST) -> dict[str, Any]:
    """The cost inside and before; ``seconds`` is the time of the run so far."""
    spent = inside.spent + Cost(before["steps"], before["tokens"])
    return {"steps": spent.steps, "tokens": spent.tokens, "seconds": inside.seconds() or 0.0}


def _cost_so_far(messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """The cost of the messages of the current round."""
    said = since_input(messages)
    spent = cost_in(said)
    return {"steps": spent.steps, "tokens": spent.tokens, "seconds": seconds_in(said)}


def _catch_up(cost: Mapping[str, Any], beside: Sequence[BaseMessage] = ()) -> None:
    """Add a cost and that of messages ``beside`` to the run's budget, unless it has them."""
    known = Cost(cost["steps"], cost["tokens"]) + cost_in(beside)
    current().catch_up(known, seconds=max(cost["seconds"], seconds_in(beside)))
