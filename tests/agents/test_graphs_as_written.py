"""Graphs as their authors write them: what LangGraph accepts is accepted here."""

from pathlib import Path
from typing import Any

import httpx2

from stellwerk.agents.graphs.serve_targets import systems_of
from stellwerk.settings import Settings
from tests.conftest import running_server
from tests.runs.talking import begin, rest_of_run, seen, stop

LOGS = """
import operator
from typing import Annotated, List, Optional
from langgraph.graph import StateGraph
from typing_extensions import TypedDict

class Log(TypedDict):
    id: str
    docs: Optional[List[str]]
    grade: Optional[int]

class State(TypedDict):
    logs: List[Log]
    failed: Annotated[list, operator.add]

graph = (
    StateGraph(State)
    .add_node("find", lambda state: {"failed": [log["id"] for log in state["logs"] if "grade" in log]})
    .set_entry_point("find")
    .compile()
)
"""

ASKED = """
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState, StateGraph
from pydantic import BaseModel

@tool
class Question(BaseModel):
    \"\"\"A question to the user.\"\"\"
    content: str

def ask(state):
    return {"messages": [AIMessage("", tool_calls=[{"id": "c1", "name": "Question", "args": {"content": "When?"}}])]}

def run(state):
    (call,) = state["messages"][-1].tool_calls
    return {"messages": [{"role": "tool", "content": Question.invoke(call["args"]), "tool_call_id": call["id"]}]}

graph = (
    StateGraph(MessagesState)
    .add_node("ask", ask).add_node("run", run).add_node("end", lambda state: {"messages": [("ai", "Asked.")]})
    .set_entry_point("ask").add_edge("ask", "run").add_edge("run", "end")
    .compile()
)
"""

NOTES = """
import asyncio
from typing import Annotated
from langchain_core.messages import AIMessage
from langgraph.graph import StateGraph, add_messages
from typing_extensions import TypedDict

class State(TypedDict):
    notes: Annotated[list, add_messages]
    depth: int

def ask(state):
    call = {"id": "c1", "name": "search", "args": {}}
    said = [message.type for message in state["notes"]]
    return {"notes": [AIMessage("", tool_calls=[call]) if said == ["human"] else AIMessage(" ".join(said))]}

async def search(state):
    if state["notes"][-1].tool_calls:
        await asyncio.Event().wait()

graph = (
    StateGraph(State).add_node(ask).add_node(search)
    .set_entry_point("ask").add_edge("ask", "search").compile()
)
"""


async def final(text: str, folder: Path, message: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The end of the run, and the state after it."""
    (folder / "strange.py").write_text(text, "utf-8")
    own = systems_of([f"{folder}/strange.py:graph"])
    async with running_server(Settings(data=folder / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = (await client.post("/sessions", json={"agent_system_id": "strange"})).json()["id"]
            sent = await client.post(f"/sessions/{sid}/messages", json=message)
            assert sent.status_code == 202, sent.text
            end = (await rest_of_run(client, sid))[-1]["payload"]
            return end, (await client.get(f"/sessions/{sid}/state/values")).json()["values"]


async def test_keys_of_a_typed_dict_may_be_absent_at_any_depth(tmp_path: Path) -> None:
    logs = [{"id": "1", "grade": 2}, {"id": "2", "docs": ["a"]}]
    end, values = await final(LOGS, tmp_path, {"input": {"logs": logs}})
    assert end["status"] == "completed"
    assert values == {"logs": logs, "failed": ["1"]}


async def test_a_tool_message_may_have_an_object_as_its_content(tmp_path: Path) -> None:
    end, values = await final(ASKED, tmp_path, {"text": "hello"})
    assert (end["status"], end["result"]) == ("completed", "Asked."), end
    assert values["messages"][2]["content"] == "content='When?'"


async def test_after_a_stop_in_a_tool_messages_under_any_key_have_a_result_for_each_call(tmp_path: Path) -> None:
    (tmp_path / "strange.py").write_text(NOTES, "utf-8")
    own = systems_of([f"{tmp_path}/strange.py:graph"])
    message = {"input": {"notes": [{"role": "user", "content": "Trams?"}]}}
    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            sid = await begin(client, "strange")
            await client.post(f"/sessions/{sid}/messages", json=message)
            await seen(client, sid, "update")
            await stop(client, sid)
            sent = await client.post(f"/sessions/{sid}/messages", json=message)
            told = await rest_of_run(client, sid, sent.json()["after"])
            notes = (await client.get(f"/sessions/{sid}/state/values")).json()["values"]["notes"]
    assert told[-1]["payload"]["status"] == "completed"
    assert [note["type"] for note in notes] == ["human", "ai", "tool", "human", "ai"]
    assert notes[-1]["content"] == "human ai tool human"
    assert [event["payload"]["code"] for event in told if event["type"] == "warning"] == ["tool_calls_closed"]
