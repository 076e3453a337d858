"""Agents of kind ``workplan``: a project manager who plans, lets others do the tasks, and reviews what came of it.

Tasks that do not wait for each other run side by side. Each is stored when it is
done, so that after a question or a crash only what is left is done. What the
review says follows from the documents that are there.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config, get_stream_writer
from langgraph.graph import StateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Send

from stellwerk.agents.document_tools import listed
from stellwerk.agents.documents import Known, documents_here
from stellwerk.agents.graph_input import Graph
from stellwerk.agents.middleware.budget import spending
from stellwerk.agents.middleware.conversation import (
    DOCUMENTS,
    GIVEN,
    OUR_WORDS,
    STEP,
    noted,
)
from stellwerk.agents.middleware.prompt import prompt_of
from stellwerk.agents.middleware.reading import having_read, reading_note
from stellwerk.agents.middleware.siblings import finished_siblings
from stellwerk.agents.quoting import without_class
from stellwerk.agents.shapes import plain_id
from stellwerk.agents.workplan_costs import NOTHING, catch_up, cost_of, cost_so_far, note_of
from stellwerk.agents.workplan_plan import Workplan, plain, read_plan, schema
from stellwerk.agents.workplan_state import TaskState, WorkplanState, plan_in, question, read_in, results_in, task_id
from stellwerk.agents.workplan_summaries import ModelSummaries
from stellwerk.agents.workplan_tasks import FILES, about
from stellwerk.agents.workplan_words import AGAIN, PLANNER, Review, words_for
from stellwerk.documents.reading.language import language_of
from stellwerk.errors import PlanRefused
from stellwerk.spec.model import CompleteAgent
from stellwerk.threads import in_thread
from stellwerk.views.status import TASK

_ENGLISH = "en"


@dataclass(frozen=True, slots=True)
class WorkplanParts:
    """What a workplan is put together from, beside its description."""

    planner: Graph
    """The project manager's model, as an agent without tools."""
    tasks: Mapping[str, BaseTool]
    """The agents that tasks may be given to, by name."""
    descriptions: Mapping[str, str]
    summaries: ModelSummaries | None
    """None if documents are summed up without a model."""
    untrusted: Collection[str]
    """Those of the agents that may read what strangers have written."""


def build_workplan(
    agent: CompleteAgent, parts: WorkplanParts, *, saver: BaseCheckpointSaver[Any] | None, store: BaseStore
) -> Graph:
    work = _Workplan(agent, parts)
    graph = StateGraph(WorkplanState)
    graph.add_node("intake", work.intake)
    graph.add_node("plan", work.plan)
    graph.add_node("task", work.task, input_schema=TaskState)
    # Once for all tasks of a wave: behind a task itself, only what that one did would be known.
    graph.add_node("collect", lambda state: None)
    graph.add_node("review", work.review)
    graph.add_edge("__start__", "intake")
    graph.add_edge("intake", "plan")
    graph.add_conditional_edges("plan", work.next_steps, ["plan", "task", "review"])
    graph.add_edge("task", "collect")
    graph.add_conditional_edges("collect", work.next_steps, ["task", "review"])
    graph.add_edge("review", "__end__")
    return graph.compile(checkpointer=saver, store=store, name=agent.name)


class _Workplan:
    def __init__(self, agent: CompleteAgent, parts: WorkplanParts) -> None:
        self._agent, self._parts = agent, parts

    async def intake(self, state: WorkplanState) -> dict[str, Any]:
        """Look into the documents that came with the message, before anybody needs them."""
        documents = documents_here()
        known = [] if documents is None else await documents.listed()
        given = [each for each in known if each.message_id == question(state).id]
        for each, summary in await _summaries(given):
            if summary.startswith("cannot be read"):
                _say(f"{each.name} {summary}", level="warning")
        with spending() as inside:
            if self._parts.summaries is not None and documents is not None:
                await self._parts.summaries.make(documents, given, lambda text: _say(text, level="warning"))
        settled = {"refused": None} if state.get("refused") else {}
        return {"spent": cost_of(inside), **settled} if inside.spent.steps or "spent" in state else settled

    async def plan(self, state: WorkplanState) -> dict[str, Any]:
        """Let the model plan; what does not fit is told to it once."""
        refused = state.get("refused")
        before = state.get("spent", NOTHING)
        catch_up(before)
        if not refused:
            _say("Analyzing request and planning work", progress=10)
        documents = documents_here()
        known = [] if documents is None else list(await documents.listed())
        given = [each.name for each in _given(state, known)]
        with spending() as inside:
            left = await self._parts.planner.ainvoke({"messages": await self._asked(state, known)})
        reply: BaseMessage = left["messages"][-1]
        try:
            plan = read_plan(str(reply.text), agents=self._parts.tasks, there=_names(known), given=given)
        except PlanRefused as objection:
            if refused:
                raise PlanRefused(f"{self._agent.name} has made no plan that fits: {objection.message}") from objection
            again = {"reply": str(reply.text), "objection": objection.message}
            return {"refused": again, "spent": cost_of(inside, before)}
        if not plan.userLanguage:
            found = await in_thread(language_of, str(question(state).text))
            plan = plan.model_copy(update={"userLanguage": found or _ENGLISH})
        _say("Work plan created", progress=25)
        plan_id = plain_id(reply.id).removeprefix("lc_run--")
        told = self._told(plan.objUserResponse, f"plan-{plan_id}", step=True, cost=cost_of(inside, before))
        settled: dict[str, Any] = {"refused": None} if refused else {}
        if read := read_in(state, known):
            settled["read"] = read
        return {"plan": plain(plan), "plan_id": plan_id, "messages": [told] if plan.objWorkplan else [], **settled}

    async def _asked(self, state: WorkplanState, known: Sequence[Known]) -> list[BaseMessage]:
        lines = [listed(each, summary) for each, summary in await _summaries(known)]
        agents = [f"- {name}: {said or name}" for name, said in self._parts.descriptions.items()]
        frame = PLANNER.format(agents="\n".join(agents), documents="\n".join(lines) or "none", schema=schema())
        said = [m for m in state["messages"] if isinstance(m, HumanMessage | AIMessage)]
        given = {"documents": [about(each) for each in _given(state, known)]}
        said = [noted(m, **{GIVEN: given}) if m.id == question(state).id else m for m in said]
        own = prompt_of(self._agent.config)
        asked: list[BaseMessage] = [SystemMessage(f"{frame}\n\n{own}" if own else frame), *said]
        if refused := state.get("refused"):
            again = HumanMessage(AGAIN.format(objection=refused["objection"]), response_metadata={GIVEN: given})
            asked += [AIMessage(refused["reply"]), again]
        return asked

    def next_steps(self, state: WorkplanState) -> list[Send] | Literal["plan", "review"]:
        """All tasks that wait for nothing any more; a task that has failed is over, too."""
        if state.get("refused"):
            return "plan"
        plan, results = plan_in(state), results_in(state)
        order = plan.order()
        spent = cost_so_far(state["messages"])
        for wave in plan.waves():
            waiting = [n for n in wave if task_id(state, n) not in results]
            if waiting:
                return [Send("task", self._given(state, plan, n, order.index(n) + 1, spent)) for n in waiting]
        return "review"

    def _given(self, state: WorkplanState, plan: Workplan, n: int, number: int, spent: dict[str, Any]) -> TaskState:
        planned = plan.objWorkplan[n]
        args = {
            "prompt": planned.prompt,
            "input_documents": planned.inputDocuments,
            "output_documents": planned.outputDocuments,
            "language": plan.userLanguage,
        }
        count, call = len(plan.objWorkplan), task_id(state, n)
        task = TaskState(number=number, count=count, id=call, agent=planned.agent, args=args, spent=spent)
        read = read_in(state)
        return {**task, "read": read} if read else task

    async def task(self, state: TaskState) -> dict[str, Any]:
        number, count, agent = state["number"], state["count"], state["agent"]
        _say(f"Running task {number}/{count}: {agent}", progress=30 + 60 * (number - 1) // count)
        # Of this wave, what was done before a question or a crash is stored, but is not part of the state yet.
        catch_up(state["spent"], await finished_siblings())
        call = {"type": "tool_call", "name": agent, "args": state["args"], "id": state["id"]}
        with spending() as inside, having_read(state.get("read", ())):
            result: ToolMessage = await self._parts.tasks[agent].ainvoke(call)
        reply, words = str(result.text), words_for(state["args"]["language"])
        if result.status == "error":
            _say(words.failed.format(number=number, count=count, agent=agent), level="error")
            reply = words.gave_up.format(reason=without_class(reply))
        files = result.artifact[FILES] if isinstance(result.artifact, dict) else []
        notes = note_of(cost_of(inside)) | reading_note([agent] if agent in self._parts.untrusted else [])
        kept = noted(result.model_copy(update={"artifact": {FILES: files}}), **notes)
        told = self._told(reply or words.done, state["id"], author=agent, step=True, files=files)
        return {"messages": [kept, told]}

    async def review(self, state: WorkplanState) -> dict[str, Any]:
        """Compare what was expected with what is there."""
        _say("Creating final response", progress=90)
        plan, results = plan_in(state), results_in(state)
        done = [(plan.objWorkplan[n].agent, results[task_id(state, n)]) for n in plan.order()]
        made = {file["name"].casefold(): file for _, result in done for file in result.artifact[FILES]}
        expected = [wanted.name for wanted in plan.objFinalDocuments]
        first = {name.casefold(): made[name.casefold()] for name in expected if name.casefold() in made}
        files = list({**first, **made}.values())
        last = plan.waves()[-1] if plan.objWorkplan else ()
        review = Review(
            expected=expected,
            delivered=[file["name"] for file in files],
            failures=[(agent, without_class(str(result.text))) for agent, result in done if result.status == "error"],
            replies=[str(result.text) for n in last if (result := results[task_id(state, n)]).status != "error"],
        )
        text = review.text(plan.userLanguage) if plan.objWorkplan else plan.objUserResponse
        told = self._told(text, f"review-{state['plan_id']}", files=files)
        read = read_in(state)
        return {"messages": [told], "read": read} if read else {"messages": [told]}

    def _told(
        self,
        text: str,
        message_id: str,
        *,
        author: str | None = None,
        step: bool = False,
        files: Sequence[Mapping[str, str]] = (),
        cost: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """A message of the conversation that no model wrote as such."""
        said = {OUR_WORDS: "workplan", STEP: step, DOCUMENTS: _ids(files), **(note_of(cost) if cost else {})}
        notes = {name: note for name, note in said.items() if note}
        return AIMessage(text, id=message_id, name=author or self._agent.name, response_metadata=notes)


def _ids(files: Sequence[Mapping[str, str]]) -> list[str]:
    return list(dict.fromkeys(file["document_id"] for file in files))


def _say(message: str, *, level: str = "info", progress: int | None = None) -> None:
    """A line of the log. The percentages are those of the whole run, so a workplan inside of another has none."""
    nested = "|" in str(get_config().get("configurable", {}).get("checkpoint_ns", ""))
    line = {"stellwerk": "log", "message": message, "level": level}
    get_stream_writer()(line if progress is None or nested else {**line, "progress": progress})


async def _summaries(known: Sequence[Known]) -> list[tuple[Known, str]]:
    documents = documents_here()
    if documents is None:
        return []
    unique = list({(each.document_id, each.name): each for each in known}.values())
    return list(zip(unique, await asyncio.gather(*map(documents.summary, unique)), strict=True))


def _names(known: Sequence[Known]) -> list[str]:
    return [name for each in known for name in (each.name, each.document_id)]


def _given(state: WorkplanState, known: Sequence[Known]) -> list[Known]:
    """What came with the user's message; if nothing did, all that he has given so far."""
    now = [each for each in known if each.message_id == question(state).id]
    return now or [each for each in known if each.message_id and not each.message_id.startswith(TASK)]
