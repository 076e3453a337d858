"""Graphs as LangGraph's memory template has them: one answers, and lets the other remember, perhaps later."""

from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIError

server: Any = get_client()
NOTES = {"configurable": {"kind": "notes"}}


async def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    text = state["messages"][-1].text
    try:
        return {"messages": [AIMessage(await said(text, state, config["configurable"]))]}
    except APIError as error:
        return {"messages": [AIMessage(error.message)]}


async def said(text: str, state: MessagesState, configurable: dict[str, Any]) -> str:
    thread, user = configurable["thread_id"], configurable["user_id"]
    match text:
        case "recall":
            found = await server.store.search_items((user,))
            return ", ".join(item["value"]["text"] for item in found["items"]) or "nothing"
        case "state":
            status = (await server.threads.get(thread))["status"]
            values = (await server.threads.get_state(thread))["values"]
            assert (status, values["messages"][-1]["content"]) == ("busy", "state")
            return "remembers nothing yet"
        case "stream":
            return str([part async for part in server.runs.stream(None, "memory")])
        case "checkpoint":
            return str(await server.runs.create(thread, "memory", checkpoint_id="x"))
        case "named":
            name = "2b1f6c1e-0d5f-4c6e-9a53-7d1f0c9be001"
            await server.threads.create(thread_id=name)
            begun = await server.runs.create(name, "memory", input={"messages": "x"}, config=NOTES)
            again = await server.runs.create(name, "memory", input={"messages": "y"}, config=NOTES)
            assert begun["thread_id"] == again["thread_id"]
            assert (await server.threads.get(name))["thread_id"] == name
            return str(begun["thread_id"])
        case "secret":
            config = {"configurable": {"kind": "${secret:api_key}"}}
            return str(await server.runs.create(None, "memory", input={"messages": "x"}, config=config))
        case "nobody":
            return str(await server.runs.create(None, "nobody", input={}))
    await server.runs.create(
        thread_id=thread,
        assistant_id="memory",
        input={"messages": state["messages"]},
        config={"configurable": {"user_id": user, "kind": "notes"}},
        multitask_strategy="enqueue",
        after_seconds=3600 if text.startswith("later") else 0,
    )
    return "noted later"


async def remember(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
    configurable = config["configurable"]
    text = state["messages"][-1].text
    await get_store().aput((configurable["user_id"],), "note", {"text": text})
    return {"messages": [AIMessage(f"{configurable['user_id']}: {text} ({configurable['kind']})")]}


chat: Any = StateGraph(MessagesState).add_sequence([answer]).add_edge(START, "answer").compile()
memory: Any = StateGraph(MessagesState).add_sequence([remember]).add_edge(START, "remember").compile()
