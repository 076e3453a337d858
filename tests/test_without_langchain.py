"""A server of graphs does not import LangChain: it runs beside any version of it, or beside none that works."""

from pathlib import Path

import httpx2

from tests.api.reading import round_with
from tests.crash.process import server_process

GRAPH = """
import sys
from langchain_core.messages import AIMessage
from langgraph.graph import MessagesState, StateGraph

def look(state):
    found = [name for name in sys.modules if name.partition(".")[0] == "langchain"]
    return {"messages": [AIMessage("LangChain is imported" if found else "LangChain is not imported")]}

graph = StateGraph(MessagesState).add_node(look).add_edge("__start__", "look").compile()
"""
AS_A_COMMAND = ["env"]
"""A process that is not forked from one that has imported everything."""


async def answer(client: httpx2.AsyncClient, system: str) -> str:
    ended = (await round_with(client, system, "hello"))[-1]["payload"]
    assert ended["status"] == "completed", ended
    return str(ended["result"])


async def test_a_served_graph_finds_langchain_imported_only_after_an_agent_was_built(tmp_path: Path) -> None:
    (tmp_path / "looking.py").write_text(GRAPH)
    serves = [f"{tmp_path}/looking.py:graph"]
    with server_process(tmp_path / "data", errors=tmp_path / "errors", inside=AS_A_COMMAND, serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert (await client.get("/tools")).status_code == 200
            assert await answer(client, "looking") == "LangChain is not imported"
            assert await answer(client, "demo")
            assert await answer(client, "looking") == "LangChain is imported"


async def test_a_graph_is_served_beside_a_langchain_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "looking.py").write_text(GRAPH)
    (tmp_path / "broken/langchain").mkdir(parents=True)
    (tmp_path / "broken/langchain/__init__.py").write_text("raise ImportError('this one is too old')")
    inside, serves = ["env", f"PYTHONPATH={tmp_path}/broken"], [f"{tmp_path}/looking.py:graph"]
    with server_process(tmp_path / "data", errors=tmp_path / "errors", inside=inside, serves=serves) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            assert await answer(client, "looking") == "LangChain is not imported"
            session = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()
            refused = await client.post(f"/sessions/{session['id']}/messages", json={"text": "hello"})
    assert refused.status_code == 409
    assert "needs langchain, which cannot be used: this one is too old" in refused.json()["detail"]
