"""Registered systems: however many there are, only so many agents are held ready."""

import gc
import weakref

from stellwerk.database.port import Database
from stellwerk.runs.systems import Systems
from tests.agents.agent_runs import same_factory
from tests.samples import TENANT, SteadyClock


def text(name: str, mission: str = "") -> str:
    return f"{{version: 1, system: {{name: {name}}}, agents: [{{id: one, mission: 'Do it {mission}'}}]}}"


async def test_agents_that_were_not_used_for_long_are_dropped_and_built_again(database: Database) -> None:
    systems = Systems(database, same_factory, SteadyClock(), kept=2)
    for mission in ("a", "b", "c", "d"):
        await systems.register(TENANT, text("many", mission), source="test")
    await systems.register(TENANT, text("other"), source="test")
    used = weakref.ref(await systems.agent(TENANT, "many", 1))
    await systems.agent(TENANT, "many", 2)
    await systems.agent(TENANT, "many", 1)
    unused = weakref.ref(await systems.agent(TENANT, "many", 2))
    await systems.agent(TENANT, "many", 1)
    await systems.agent(TENANT, "many", 3)
    gc.collect()
    assert used() is not None, "it was used last but one"
    assert unused() is None
    assert (await systems.agent(TENANT, "many", 2)).name == "one"
