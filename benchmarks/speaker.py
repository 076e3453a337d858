"""A graph for the benchmark of isolation: its message says how many tokens its model speaks, and at which pace."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import MessagesState, StateGraph


class Speaker(BaseChatModel):
    """Speaks as many tokens as the last message says, with so many seconds between them."""

    @property
    def _llm_type(self) -> str:
        return "speaker"

    def _generate(self, messages: list[BaseMessage], *_given: Any, **_more: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("It only streams."))])

    async def _astream(
        self, messages: list[BaseMessage], *_given: Any, **_more: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        tokens, pace = str(messages[-1].text).split()
        due = asyncio.get_running_loop().time()
        for n in range(int(tokens)):
            due += float(pace)
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"word{n % 100:02} "))


async def speak(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await Speaker().ainvoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node(speak).set_entry_point("speak").compile()
