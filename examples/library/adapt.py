"""Any LangGraph graph as Stellwerk's envelopes, without a server; recorded, and replayed as AG-UI. It needs no key."""

import asyncio

from langchain.agents import create_agent
from langchain_core.tools import tool

import stellwerk
from stellwerk.testing import ScriptedModel, ScriptRule, ScriptStep


@tool
def price_of(article: str) -> str:
    """Say what an article costs."""
    return f"A {article} costs 20 euros."


MODEL = ScriptedModel(
    script=[ScriptRule(steps=[ScriptStep(call="price_of", args={"article": "lamp"}), ScriptStep(say="20 euros.")])]
)
GRAPH = create_agent(MODEL, [price_of])
QUESTION = {"messages": [{"role": "user", "content": "What does a lamp cost?"}]}


async def main() -> None:
    async for envelope in stellwerk.adapt(GRAPH.astream_events(QUESTION, version="v2"), agent="clerk"):
        print(type(envelope).__name__, envelope.seq, envelope.payload)
    recording = [stellwerk.event_line(event) async for event in GRAPH.astream_events(QUESTION, version="v2")]
    async for event in stellwerk.adapt(recording, agent="clerk", dialect="ag-ui"):  # or an open file of such lines
        print(event["type"])


if __name__ == "__main__":
    asyncio.run(main())
