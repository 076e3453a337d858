"""An agent without a server: your own tool, and every event of a run. It needs no key."""

import asyncio

from stellwerk import AgentFactory, ChatMessage, CompleteAgent, ToolSchema, tool
from stellwerk.spec.model import ModelSpec
from stellwerk.spec.script import ScriptRule, ScriptStep


@tool
async def price_of(article: str) -> list[dict[str, object]]:
    """Say what an article costs."""
    return [{"article": article, "euros": 20}]


SCRIPT = ScriptRule(steps=[ScriptStep(call="price_of", args={"article": "lamp"}), ScriptStep(say="It costs 20 euros.")])
CLERK = CompleteAgent(
    name="clerk",
    tool_schemas=[ToolSchema(name="price_of")],
    model=ModelSpec(script=[SCRIPT]),  # or ModelSpec(provider="openai", model="gpt-4.1"), and OPENAI_API_KEY
)


async def main() -> None:
    clerk = await AgentFactory(tools=[price_of]).build(CLERK)
    print(await clerk.run([ChatMessage(content="What does a lamp cost?")]))
    async for envelope in clerk.envelopes([ChatMessage(content="And now in detail?")]):
        print(type(envelope).__name__, envelope.payload)


if __name__ == "__main__":
    asyncio.run(main())
