"""An agent with a tool whose model and prompt are chosen by the context of a run."""

from dataclasses import dataclass

from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime


@dataclass
class Context:
    model: str = "small"
    language: str = "English"


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"Two pages about {query}."


async def call_model(state: MessagesState, runtime: Runtime[Context]) -> dict[str, list[AIMessage]]:
    model = ChatOpenAI(model=runtime.context.model).bind_tools([search])
    prompt = SystemMessage(f"Answer in {runtime.context.language}.")
    return {"messages": [await model.ainvoke([prompt, *state["messages"]])]}


graph = (
    StateGraph(MessagesState, context_schema=Context)
    .add_node(call_model)
    .add_node("tools", ToolNode([search]))
    .set_entry_point("call_model")
    .add_conditional_edges("call_model", tools_condition)
    .add_edge("tools", "call_model")
    .compile()
)
