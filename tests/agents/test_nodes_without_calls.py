"""Nodes of an operator's graph that call neither a model nor a tool are visible, also in the profile ``user``."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import MessagesState

from stellwerk.dialects.native import shown
from stellwerk.envelope.frames import Stored
from stellwerk.envelope.model import Envelope, Update, decode, encode
from tests.agents.test_graph_answers import model, served, steps


class State(MessagesState):
    found: dict[str, Any]


@tool
def count(text: str) -> str:
    """Count."""
    return str(len(text))


async def ask(state: State) -> dict[str, Any]:
    return {"found": {"by": str((await model("yes").ainvoke("?")).text)}}


def use(state: State) -> dict[str, Any]:
    return {"found": {"count": count.invoke({"text": "abc"})}}


def search(state: State) -> dict[str, Any]:
    return {"found": {"secret": 1, "no_calls": True}}


def idle(state: State) -> None:
    return None


def say(state: State) -> dict[str, Any]:
    return {"messages": [AIMessage("Found.")]}


def in_profile_user(told: Sequence[Envelope]) -> list[tuple[str, Any]]:
    stored = [Stored(number, encode(envelope)) for number, envelope in enumerate(told, 1)]
    left = [decode(each.body) for each in shown(stored, "user")]
    return [(e.payload.node, e.payload.delta) for e in left if isinstance(e, Update)]


async def test_a_node_that_calls_nothing_is_seen_by_users_without_what_it_changed() -> None:
    nodes = [("ask", ask), ("use", use), ("search", search), ("idle", idle), ("say", say)]
    told = await served(steps(State, *nodes)).send("lamps")
    assert in_profile_user(told) == [("search", None), ("idle", None), ("say", None)]
    changed = {e.payload.node: e.payload.delta for e in told if isinstance(e, Update)}
    assert changed["search"] == {"found": {"secret": 1, "no_calls": True}}
    (used,) = [e for e in told if isinstance(e, Update) and e.payload.node == "use"]
    assert b"no_calls" not in encode(used)


async def test_a_state_that_looks_like_such_a_node_shows_nothing() -> None:
    async def pretend(state: State) -> dict[str, Any]:
        await model("yes").ainvoke("?")
        return {"found": {"no_calls": True}}

    told = await served(steps(State, ("pretend", pretend), ("say", say))).send("lamps")
    assert in_profile_user(told) == [("say", None)]
