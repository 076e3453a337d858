"""The work: an agent on the scripted model that calls one tool and then speaks a given number of tokens."""

import asyncio
import json
from pathlib import Path

from stellwerk.agents.build.factory import AgentFactory
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.database.sqlite import Sqlite
from stellwerk.ids import SystemClock
from stellwerk.runs.systems import Systems
from stellwerk.tenants.principals import LOCAL_TENANT


def system_text(name: str, *, tokens: int, pace: float) -> str:
    """An agent system, as YAML: JSON is YAML, too."""
    steps = [
        {"call": "get_weather", "args": {"city": "Berlin"}},
        {"say": " ".join(f"word{n % 100:02}" for n in range(tokens))},
    ]
    agent = {
        "id": "assistant",
        "system_prompt": "You are measured.",
        "tools": {"allow": ["get_weather"]},
        "model": {"pace": pace, "script": [{"steps": steps}]},
    }
    return json.dumps({"version": 1, "system": {"name": name}, "agents": [agent]})


def chunks(tokens: int) -> int:
    """What the model sends in one run: the tool's name, its arguments in three pieces, the tokens, two ends."""
    return tokens + 6


async def register(data: Path, *systems: str) -> None:
    """Put systems into the data folder of a server that is not running yet."""
    await asyncio.to_thread(data.mkdir, parents=True, exist_ok=True)
    database = Sqlite(data / "stellwerk.db")
    await database.open()
    try:
        factory = AgentFactory(Resources(saver=DurableSaver(database, tenant=LOCAL_TENANT)))

        async def factories(_tenant: str, _system: str) -> AgentFactory:
            return factory

        known = Systems(database, factories, SystemClock())
        for text in systems:
            await known.register(LOCAL_TENANT, text, source="benchmark")
    finally:
        await database.close()
