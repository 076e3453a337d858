"""Checklist tools: an agent plans tasks and reports progress; sub-agents work on the same list.

Each tool reads the checklist from the agent's state, applies one patch and returns the new state.
A rejected patch is an error result with the reason and the current list; the run continues.
The middleware that gives them to an agent is in ``checklist.py``, which imports LangChain.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.envelope.results import Column, Table
from stellwerk.envelope.to_json import clean_text
from stellwerk.errors import PatchRefused
from stellwerk.spec.model import CompleteAgent
from stellwerk.views import checklist as view
from stellwerk.views.checklist import MAX_NOTE, MAX_TITLE, NAME, Checklist, Patch

_BRANCH = "checklist_branch"
_COLUMNS = ("id", "title", "status", "owner", "version", "note", "depends_on")


def _field(type_: str, description: str, **rules: Any) -> dict[str, Any]:
    return {"type": type_, **rules, "description": description}


_NOTES = {"items": {"type": "string", "maxLength": MAX_NOTE}}
_TITLE = _field("string", "What is to be done, in one line.", maxLength=MAX_TITLE)
_NOTE = _field("string", "What is worth knowing about it.", maxLength=MAX_NOTE)

_PLANNED = {
    "title": _TITLE,
    "owner": _field("string", "The agent that works on it; you, if left out."),
    "note": _NOTE,
    "depends_on": _field(
        "array",
        "Tasks that come first: their ids, or #1, #2 … for tasks of this call in their order.",
        items={"type": "string"},
    ),
}
_INSTEAD = _field(
    "boolean",
    "True if this takes the place of what you planned before: what is open of that is skipped, "
    "and blockers and questions are settled.",
)
_CHANGED = {
    "id": _field("string", "Which task, such as t1."),
    "status": {"type": "string", "enum": list(view.TRANSITIONS)},
    "title": _TITLE,
    "note": _NOTE,
    "owner": _field("string", "Hands the task over to this agent."),
    "version": _field("integer", "Version of the task, if you do not name that of the checklist."),
}


def has_checklist(agent: CompleteAgent) -> bool:
    """Whether the agent, or a sub-agent below it, has checklist tools."""
    if agent.kind == "graph":
        return False
    own = any(schema.name in CHECKLIST_TOOLS for schema in agent.tool_schemas)
    return own or any(has_checklist(use.agent) for use in agent.agents_as_tools)


def checklist_tools(agent: str) -> list[BaseTool]:
    """The tools for one agent, which owns the tasks that it plans and changes only its own."""
    return [_tool(form, agent) for form in _FORMS]


def shared_checklist(state: Mapping[str, Any], tool_call_id: str) -> dict[str, Any]:
    """The part of a sub-agent's input that shares its caller's checklist.

    Parallel sub-agents get different branches, so that their task ids never clash. The caller takes
    the sub-agent's ``checklist`` back as an update of its own state.
    """
    ids = [call["id"] for call in _parallel_calls(state.get("messages", ()), tool_call_id)]
    place = f"s{ids.index(tool_call_id) + 1 if tool_call_id in ids else 1}"
    branch = state.get(_BRANCH)
    return {NAME: state.get(NAME) or {}, _BRANCH: f"{branch}.{place}" if branch else place}


@dataclass(frozen=True)
class _ToolForm:
    name: str
    description: str
    properties: Mapping[str, Any]
    required: Sequence[str] = ()
    patch: Callable[[Checklist, dict[str, Any], str], Patch] | None = None
    """Makes a patch of checklist, arguments and branch; None for a tool that only reads."""


def _tool(form: _ToolForm, agent: str) -> BaseTool:
    async def call(runtime: ToolRuntime[Any, Any], **arguments: Any) -> ToolMessage | Command[Any]:
        return _call(form, agent, runtime, arguments)

    return StructuredTool(
        name=form.name,
        description=form.description,
        # A JSON Schema and no class: our errors, with the checklist, explain invalid arguments.
        args_schema={
            "type": "object",
            "properties": dict(form.properties),
            "required": list(form.required),
        },
        coroutine=call,
        metadata={ARTIFACT_KEY: {"idempotent": True}},
    )


def _call(
    form: _ToolForm, agent: str, runtime: ToolRuntime[Any, Any], arguments: dict[str, Any]
) -> ToolMessage | Command[Any]:
    state, call_id = runtime.state, str(runtime.tool_call_id)
    before = view.from_json(state.get(NAME) or {})
    if form.patch is None:
        return _answer(form, call_id, view.markdown(before), before)
    try:
        _check_alone(state["messages"], call_id)
        _check_known(form, arguments)
        branch = str(state.get(_BRANCH) or "")
        patch = form.patch(before, arguments, branch)
        after = view.apply(before, patch, by=agent, branch=branch)
    except PatchRefused as refused:
        text = f"Nothing was changed: {refused.message}.\n\n{view.markdown(before)}"
        return ToolMessage(clean_text(text), name=form.name, tool_call_id=call_id, status="error")
    known = {task.id for task in before.tasks}
    touched = [task for task in after.tasks if task not in before.tasks]
    touched.sort(key=lambda task: task.id in known)  # new ones first
    lines = [f"Done. The checklist is now at version {after.version}.", *map(view.task_line, touched)]
    answer = _answer(form, call_id, "\n".join(lines), after)
    return Command(update={NAME: view.to_json(after), "messages": [answer]})


def _answer(form: _ToolForm, call_id: str, text: str, checklist: Checklist) -> ToolMessage:
    """Text for the model, and the whole list as a table for a user interface."""
    columns = [Column(name=name, type="number" if name == "version" else None) for name in _COLUMNS]
    rows = [
        (task.id, task.title, task.status, task.owner, task.version, task.note, " ".join(task.depends_on))
        for task in checklist.tasks
    ]
    table = Table(columns=tuple(columns), rows=tuple(rows))
    artifact = {ARTIFACT_KEY: 1, "result": msgspec.json.decode(msgspec.json.encode(table))}
    return ToolMessage(text, name=form.name, tool_call_id=call_id, artifact=artifact)


def _check_alone(messages: Sequence[BaseMessage], call_id: str) -> None:
    """Of several calls in one turn only the first may change the list.

    All of them see the list from before the turn: later ones would silently overwrite the first.
    """
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    for call in _parallel_calls(messages, call_id):
        if call["id"] == call_id:
            return
        if call["name"] in _WRITING and call["id"] not in answered:
            raise PatchRefused(
                f"{call['name']}, called in the same turn, changes the checklist first, so the "
                "version you saw is not the newest any more; look at what it did, then call again, "
                "with all changes in one call",
                code="stale_version",
            )


def _parallel_calls(messages: Sequence[BaseMessage], call_id: str) -> Sequence[Any]:
    """All tool calls of the message that made this one."""
    for message in reversed(messages):
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        if any(call["id"] == call_id for call in calls):
            return calls
    return ()


def _check_known(form: _ToolForm, arguments: Mapping[str, Any]) -> None:
    if unknown := [name for name in arguments if name not in form.properties]:
        problem = f"{form.name} has no argument {unknown[0][:40]!r}; it has: {', '.join(form.properties)}"
        raise PatchRefused(problem, code="forbidden_field")


def _planned(checklist: Checklist, arguments: dict[str, Any], branch: str) -> Patch:
    tasks = arguments.get("tasks")
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise PatchRefused("tasks must be a list of objects, each with a title", code="invalid_patch")
    for task in tasks:
        if "id" in task:
            raise PatchRefused("ids are given, not chosen; leave 'id' out", code="forbidden_field")
    ids = view.next_ids(checklist, len(tasks), branch=branch)
    of_this_call = {f"#{n}": task_id for n, task_id in enumerate(ids, start=1)}
    numbered = []
    for task, task_id in zip(tasks, ids, strict=True):
        needed = task.get("depends_on")
        if isinstance(needed, list):
            needed = [of_this_call.get(each, each) if isinstance(each, str) else each for each in needed]
        numbered.append({**task, "id": task_id, "depends_on": needed})
    return view.patch_of({"tasks": numbered, "instead": arguments.get("instead")})


def _given(checklist: Checklist, arguments: dict[str, Any], branch: str) -> Patch:
    return view.patch_of(arguments)


def _list_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "array", "minItems": 1, "items": {**item, "additionalProperties": False}}


_FORMS = (
    _ToolForm(
        "plan_tasks",
        "Put tasks on the checklist, in the order in which they are to be done. They get ids (t1, t2 …). "
        "Plan when the work takes several steps.",
        {"tasks": _list_of(_PLANNED, "title"), "instead": _INSTEAD},
        ("tasks",),
        _planned,
    ),
    _ToolForm(
        "update_tasks",
        "Change tasks that you own or planned: set one to in_progress when you begin it and to completed "
        "when it is done. Name the version of the checklist that you saw last. All changes are made, or none.",
        {
            "version": _field("integer", "Version of the checklist that you saw last."),
            "changes": _list_of(_CHANGED, "id"),
        },
        ("changes",),
        _given,
    ),
    _ToolForm("read_tasks", "Read the whole checklist as it is now, with its version.", {}),
    _ToolForm(
        "report_obstacles",
        "Say what keeps you from going on, or what only the user can answer; and what of it is settled.",
        {
            "blocker": _field("string", "What keeps you from going on.", maxLength=MAX_NOTE),
            "questions": _field("array", "Questions that are open.", **_NOTES),
            "settled": _field("array", "Blockers and questions that are settled, word for word.", **_NOTES),
        },
        (),
        _given,
    ),
)
CHECKLIST_TOOLS = tuple(form.name for form in _FORMS)
_WRITING = frozenset(form.name for form in _FORMS if form.patch is not None)
