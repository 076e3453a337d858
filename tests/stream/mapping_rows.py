"""The event mapping table of the founding documents, row by row, in the three forms in which the framework speaks.

``live`` makes the calls that LangChain makes to our listener, ``parts`` are what
``astream`` yields, ``events`` what ``astream_events`` yields. Whatever the form,
the last envelope of the row's type must say what the row demands.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from stellwerk.agents.runtime.callback_handler import RunCallbackHandler
from stellwerk.stream.facts import CheckpointSaved

NODE: dict[str, Any] = {"langgraph_node": "pricing", "langgraph_checkpoint_ns": "pricing:t1"}
STEP: dict[str, Any] = {"langgraph_node": "look_up", "langgraph_checkpoint_ns": "pricing:t1|look_up:t2"}
MODEL = {"langgraph_node": "model", "langgraph_checkpoint_ns": "model:t1", "lc_agent_name": "boss"}
TOOLS = {"langgraph_node": "tools", "langgraph_checkpoint_ns": "tools:t1", "lc_agent_name": "boss"}
ASKED = HumanMessage("Two lamps.")
STATE = {"messages": [{"type": "human", "content": "Two lamps."}], "place": "Ulm"}
USED = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
STOPPED = {"finish_reason": "stop"}
SAVED = CheckpointSaved(1.0, "c1", "", "digest")


@dataclass(frozen=True)
class Row:
    name: str
    type: str
    says: dict[str, Any]
    """An ellipsis where any value will do."""
    live: Callable[[RunCallbackHandler, Callable[[Any], None]], None]
    parts: list[dict[str, Any]]
    events: list[dict[str, Any]]
    goes_on: bool = False
    """The run goes on where an earlier one of the trace was interrupted."""

    def __str__(self) -> str:
        return self.name


def run(number: int) -> UUID:
    return UUID(int=number)


# What parts look like.


def part(kind: str, data: Any, *ns: str) -> dict[str, Any]:
    return {"type": kind, "ns": list(ns), "data": data, "ts": 1.0}


def task(task_id: str, node: str, given: Any, *ns: str) -> dict[str, Any]:
    return part("tasks", {"id": task_id, "name": node, "input": given, "metadata": {"lc_agent_name": "boss"}}, *ns)


def task_end(task_id: str, node: str, *ns: str, error: Any = None) -> dict[str, Any]:
    return part("tasks", {"id": task_id, "name": node, "error": error, "result": {}, "interrupts": []}, *ns)


def chunk(content: Any, **more: Any) -> dict[str, Any]:
    spoken = {"type": "AIMessageChunk", "id": "lc_run--m1", "content": content, **more}
    return part("messages", [spoken, {**MODEL, "ls_model_name": "gpt", "ls_temperature": 0.5}])


def tool(event: str, **more: Any) -> dict[str, Any]:
    return part("tools", {"event": event, "tool_call_id": "call_1", **more})


# What events look like.


def event(kind: str, number: int, *parents: int, name: str = "", about: Any = None, **data: Any) -> dict[str, Any]:
    found = {"event": kind, "run_id": str(run(number)), "parent_ids": [str(run(p)) for p in parents], "name": name}
    return {**found, "metadata": about or {}, "data": data, "tags": [], "ts": 1.0}


# What happens, live.


def graph_starts(tap: RunCallbackHandler, tell: Any) -> None:
    tap.on_chain_start({}, {"messages": [ASKED]}, run_id=run(1), name="LangGraph")
    tap.on_chain_start({}, {}, run_id=run(2), parent_run_id=run(1), metadata=NODE, name="pricing")
    given: Any = {"messages": [ASKED], "place": "Ulm"}
    tap.on_chain_start({}, given, run_id=run(3), parent_run_id=run(2), metadata=NODE, name="LangGraph")
    tap.on_chain_start({}, {}, run_id=run(4), parent_run_id=run(3), metadata=STEP, name="look_up")


def model_starts(tap: RunCallbackHandler, tell: Any) -> None:
    params = {"model": "gpt", "temperature": 0.5}
    tap.on_chat_model_start({}, [[ASKED]], run_id=run(5), metadata=MODEL, invocation_params=params)


def model_ends(tap: RunCallbackHandler, tell: Any) -> None:
    model_starts(tap, tell)
    tap.on_llm_new_token("Hi", run_id=run(5))
    message = AIMessage("Hi", response_metadata=STOPPED, usage_metadata=USED)
    tap.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=run(5))


def tool_starts(tap: RunCallbackHandler, tell: Any) -> None:
    tap.on_tool_start({"name": "look"}, "", run_id=run(6), metadata=TOOLS, inputs={"q": 1}, tool_call_id="call_1")


def tool_ends(tap: RunCallbackHandler, tell: Any) -> None:
    tool_starts(tap, tell)
    tap.on_tool_end(ToolMessage("found", tool_call_id="call_1"), run_id=run(6))


def tool_fails(tap: RunCallbackHandler, tell: Any) -> None:
    tool_starts(tap, tell)
    tap.on_tool_error(ValueError("boom"), run_id=run(6))


def graph_fails(tap: RunCallbackHandler, tell: Any) -> None:
    graph_starts(tap, tell)
    tap.on_chain_error(ValueError("boom"), run_id=run(4))
    tap.on_chain_error(ValueError("boom"), run_id=run(3))


def graph_ends(tap: RunCallbackHandler, tell: Any) -> None:
    graph_starts(tap, tell)
    tap.on_chain_end({}, run_id=run(4))
    tap.on_chain_end({}, run_id=run(3))


GRAPH_PARTS = [task("t1", "pricing", STATE), task("t2", "look_up", STATE, "pricing:t1")]
GRAPH_EVENTS = [
    event("on_chain_start", 1, name="LangGraph", input=STATE),
    event("on_chain_start", 2, 1, name="pricing", about=NODE, input=STATE),
    event("on_chain_start", 3, 1, 2, name="LangGraph", about=NODE, input=STATE),
    event("on_chain_start", 4, 1, 2, 3, name="look_up", about=STEP, input=STATE),
]
MODEL_PARTS = [task("t1", "model", STATE), chunk("Hi")]
ABOUT_MODEL = {**MODEL, "ls_model_name": "gpt", "ls_temperature": 0.5}
MODEL_EVENTS = [
    event("on_chat_model_start", 5, name="ChatGpt", about=ABOUT_MODEL),
    event("on_chat_model_stream", 5, chunk={"type": "AIMessageChunk", "content": "Hi"}),
]
WHOLE = {"type": "ai", "content": "Hi", "response_metadata": STOPPED, "usage_metadata": USED}
CALLS = [{"name": "look", "args": {"q": 1}, "id": "call_1", "type": "tool_call"}]
TOOL_PARTS = [task("t1", "tools", CALLS), tool("tool-started", tool_name="look", input={"q": 1})]
TOOL_EVENTS = [
    event("on_chain_start", 2, name="tools", about=TOOLS, input=CALLS),
    event("on_tool_start", 6, 2, name="look", about=TOOLS, input={"q": 1}),
]
ANSWER = {"type": "tool", "tool_call_id": "call_1", "content": "found"}
BOOM = {"class": "ValueError", "message": "boom"}
PLACE = {"configurable": {"checkpoint_id": "c1"}}


def checkpoint(source: str) -> dict[str, Any]:
    found = {"config": PLACE, "values": {"messages": []}, "metadata": {"source": source}, "next": ["model"]}
    return part("checkpoints", found)


def goes_on(tap: RunCallbackHandler, tell: Any) -> None:
    tap.on_chain_start({}, {}, run_id=run(1), name="LangGraph")


def rows() -> Iterator[Row]:
    asked = {"place": "Ulm", "messages": [{"role": "human", "content": "Two lamps."}]}
    yield Row(
        *("on_chain_start", "tool_start", {"tool_name": "pricing", "kind": "graph", "input": asked}),
        *(graph_starts, GRAPH_PARTS, GRAPH_EVENTS),
    )
    yield Row(
        *("on_chain_end", "tool_end", {"tool_name": "pricing", "status": "ok"}),
        graph_ends,
        [*GRAPH_PARTS, task_end("t2", "look_up", "pricing:t1"), task_end("t1", "pricing")],
        [*GRAPH_EVENTS, event("on_chain_end", 4, 1, 2, 3), event("on_chain_end", 3, 1, 2)],
    )
    yield Row(
        *("on_chat_model_start", "llm_start", {"model": "gpt", "params": {"temperature": 0.5}, "node": "model"}),
        *(model_starts, MODEL_PARTS, MODEL_EVENTS),
    )
    yield Row("on_chat_model_stream", "llm_token", {"text": "Hi"}, model_ends, MODEL_PARTS, MODEL_EVENTS)
    last = chunk("", chunk_position="last", usage_metadata=USED, response_metadata=STOPPED)
    usage = {"model": "gpt", "input_tokens": 3, "output_tokens": 2}
    yield Row(
        *("on_chat_model_end", "llm_end", {"usage": usage, "finish_reason": "stop", "status": "ok"}),
        *(model_ends, [*MODEL_PARTS, last], [*MODEL_EVENTS, event("on_chat_model_end", 5, output=WHOLE)]),
    )
    yield Row(
        *("on_tool_start", "tool_start", {"tool_name": "look", "args": {"q": 1}, "node": "tools"}),
        *(tool_starts, TOOL_PARTS, TOOL_EVENTS),
    )
    yield Row(
        *("on_tool_end", "tool_end", {"tool_name": "look", "result": {"kind": "text", "text": "found"}}),
        *(tool_ends, [*TOOL_PARTS, tool("tool-finished", output=ANSWER)]),
        [*TOOL_EVENTS, event("on_tool_end", 6, 2, output=ANSWER)],
    )
    yield from _failures()
    saved = {"checkpoint_id": "c1", "node": "__start__"}
    yield Row(
        "checkpoint persisted", "subgraph_checkpoint", saved, lambda _, tell: tell(SAVED), [checkpoint("input")], []
    )
    yield Row(
        *("checkpoint resume", "subgraph_resume", {"checkpoint_id": "c0", "node": "tools", "attempt": 2}, goes_on),
        *([checkpoint("loop"), task("t1", "model", STATE)], [event("on_chain_start", 1, name="LangGraph")], True),
    )


def _failures() -> Iterator[Row]:
    yield Row(
        *(
            "on_chain_error",
            "error",
            {"name": "pricing", "message": "pricing raised ValueError", "class": "ValueError"},
        ),
        graph_fails,
        [*GRAPH_PARTS, task_end("t2", "look_up", "pricing:t1", error=BOOM), task_end("t1", "pricing", error=BOOM)],
        [*GRAPH_EVENTS, event("on_chain_error", 4, error=BOOM), event("on_chain_error", 3, error=BOOM)],
    )
    # Of what a tool raised, parts have the text but not the class; so the row only demands that there is one.
    yield Row(
        *("on_tool_error", "error", {"name": "look", "message": ..., "class": ...}),
        *(tool_fails, [*TOOL_PARTS, tool("tool-error", message="boom")]),
        [*TOOL_EVENTS, event("on_tool_error", 6, 2, error=BOOM)],
    )
