"""Registered systems: however many there are, only so many agents are held ready."""

import gc
import weakref

import pytest

from stellwerk.database.sqlite import Sqlite
from stellwerk.systems import registry
from stellwerk.systems.registry import Systems
from tests.agents.driving import agents_of_anybody
from tests.samples import TENANT, SteadyClock


def text(name: str, mission: str = "") -> str:
    return f"{{version: 1, system: {{name: {name}}}, agents: [{{id: one, mission: 'Do it {mission}'}}]}}"


async def test_agents_that_nobody_has_used_for_long_are_let_go_and_built_anew(
    database: Sqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "KEPT", 2)
    systems = Systems(database, agents_of_anybody, SteadyClock())
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
