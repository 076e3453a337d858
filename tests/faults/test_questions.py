"""Questions in trouble: asked side by side, inside a sub-agent, answered together with something else, over a crash."""

import asyncio
from typing import Any

import httpx2
import pytest

from stellwerk.testing.order import order_problems
from tests.api.reading import Event, whole_round
from tests.faults.conftest import FaultServer
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send


def of(told: list[Event], kind: str, tool: str | None = None) -> list[Event]:
    return [e for e in told if e["type"] == kind and tool in (None, e["payload"].get("tool_name"))]


def ask_ids(told: list[Event]) -> dict[str, str]:
    """By what they are about."""
    asked = [e["payload"] for e in of(told, "ask_user")]
    return {one.get("args", {}).get("to", one["question"]): one["ask_id"] for one in asked}


async def answered(client: httpx2.AsyncClient, sid: str, **body: Any) -> list[Event]:
    """The run that goes on, and before it the whole log has been legal."""
    told = await rest_of_run(client, sid, (await answer(client, sid, **body))["after"])
    assert order_problems(log_of(await events(client, sid))) == []
    return told


@pytest.mark.requirement("fault-32", "fault-34", "trust.I13", "trust.I14")
async def test_what_ran_beside_a_question_is_not_run_or_told_again(
    client: httpx2.AsyncClient, faulty: FaultServer
) -> None:
    sid = await begin(client, "faulty")
    first = await whole_round(client, sid, "aside")
    second = await answered(client, sid, text="left")
    assert faulty.ledger() == ["note beside"]
    assert of(second, "tool_start") == [], "what goes on does not begin again"
    written = [e["payload"]["tool_call_id"] for e in of(first, "tool_update") if e["payload"]["phase"] == "args"]
    assert len(of(first, "tool_start")) == len(set(written)) == 2
    assert not of(second, "tool_update")
    (start,), (end,) = of(first, "tool_start", "ask_user"), of(second, "tool_end", "ask_user")
    assert (end["call_id"], end["payload"]["tool_call_id"]) == (start["call_id"], start["payload"]["tool_call_id"])


@pytest.mark.requirement("fault-38")
async def test_a_run_that_asks_has_ended_its_text_before(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "faulty")
    told = await whole_round(client, sid, "aside")
    (begun,), (ended,) = of(told, "llm_start"), of(told, "llm_end")
    spoken = [e["position"] for e in of(told, "llm_token")]
    assert begun["position"] < min(spoken) <= max(spoken) < ended["position"] < told[-1]["position"]
    assert (told[-1]["type"], told[-1]["payload"]["status"]) == ("run_end", "awaiting_user")


@pytest.mark.requirement("fault-33", "fault-36")
@pytest.mark.parametrize("order", [("Ann", "Bob"), ("Bob", "Ann")])
async def test_of_two_calls_one_is_approved_and_one_rejected_in_any_order(
    client: httpx2.AsyncClient, faulty: FaultServer, order: tuple[str, str]
) -> None:
    sid = await begin(client, "faulty")
    asks = ask_ids(await whole_round(client, sid, "pay"))
    assert asks.keys() == {"Ann", "Bob"} and len(set(asks.values())) == 2
    wishes = {"Ann": {"type": "approve"}, "Bob": {"type": "reject", "message": "he is rich"}}
    first, last = order
    assert (await answer(client, sid, ask_id=asks[first], data=wishes[first]))["status"] == "noted"
    told = await answered(client, sid, ask_id=asks[last], data=wishes[last])
    assert faulty.ledger() == ["pay Ann"]
    assert told[-1]["payload"] == {**told[-1]["payload"], "status": "completed", "result": "Paid."}
    (asked,) = [e["payload"]["messages"] for e in of(told, "llm_start")]
    assert [one["role"] for one in asked[-3:]] == ["ai", "tool", "tool"], "every call has its result"
    given = {e["payload"]["tool_call_id"]: e["payload"] for e in of(told, "tool_end")}
    (wanted,) = [one["tool_calls"] for one in asked if one.get("tool_calls")]
    ends = {call["args"]["to"]: given[call["id"]] for call in wanted}
    assert (ends["Ann"]["status"], ends["Ann"]["result"]["text"]) == ("ok", "paid Ann")
    assert (ends["Bob"]["status"], "he is rich" in str(ends["Bob"])) == ("error", True)


@pytest.mark.requirement("fault-35")
@pytest.mark.parametrize(
    "decision, done",
    [
        ({"type": "approve"}, ["pay Cleo"]),
        ({"type": "edit", "edited_action": {"name": "pay", "args": {"to": "Dora"}}}, ["pay Dora"]),
        ({"type": "reject", "message": "not her"}, []),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else None,
)
async def test_an_approval_inside_a_sub_agent_is_asked_at_the_top(
    client: httpx2.AsyncClient, faulty: FaultServer, decision: dict[str, Any], done: list[str]
) -> None:
    sid = await begin(client, "faulty")
    first = await whole_round(client, sid, "purser")
    (question,) = (await client.get(f"/sessions/{sid}/state")).json()["questions"]
    assert question["ask_id"] == ask_ids(first)["Cleo"]
    told = await answered(client, sid, ask_id=question["ask_id"], data=decision)
    assert (told[-1]["payload"]["status"], faulty.ledger()) == ("completed", done)
    (inner,) = of(first, "tool_start", "purser")
    (end,) = of(told, "tool_end", "purser")
    assert end["call_id"] == inner["call_id"]
    assert [e["agent"] for e in of(told, "llm_start")] == ["purser", "clerk"]


@pytest.mark.requirement("fault-37")
async def test_of_a_message_and_an_answer_that_come_together_one_is_taken(client: httpx2.AsyncClient) -> None:
    sid = await begin(client, "faulty")
    asked = await whole_round(client, sid, "aside")
    both = await asyncio.gather(
        client.post(f"/sessions/{sid}/answers", json={"text": "left"}),
        client.post(f"/sessions/{sid}/messages", json={"text": "right"}),
    )
    assert sorted(one.status_code for one in both) == [202, 409]
    await rest_of_run(client, sid, asked[-1]["position"])
    late = await client.post(f"/sessions/{sid}/answers", json={"text": "left", "ask_id": ask_ids(asked)["Which way?"]})
    assert late.status_code == 409
    told = await events(client, sid)
    assert len(of(told, "user_answer")) == 1
    assert order_problems(log_of(told)) == []


@pytest.mark.requirement("fault-34", "trust.I13")
async def test_a_question_keeps_its_ids_over_kill_9_and_nothing_is_announced_twice(faulty: FaultServer) -> None:
    async with faulty.server() as (_, client):
        sid = await begin(client, "faulty")
        await send(client, sid, "purser")
        first = await rest_of_run(client, sid)
    async with faulty.server() as (_, client):
        (ask_id,) = ask_ids(first).values()
        second = await answered(client, sid, ask_id=ask_id, data={"type": "approve"})
        whole = await events(client, sid)
    assert whole[: len(first)] == [{**event, "origin": "replay"} for event in without_id(first)]
    for kind in ("tool_start", "llm_start", "tool_end", "llm_end"):
        calls = [e["call_id"] for e in of(whole, kind)]
        assert len(calls) == len(set(calls)), kind
    assert {e["call_id"] for e in of(whole, "tool_end")} == {e["call_id"] for e in of(whole, "tool_start")}
    said = [e["payload"]["message_id"] for e in of(whole, "message")]
    assert len(said) == len(set(said))
    assert {e["trace_id"] for e in second if "trace_id" in e} == {first[0]["trace_id"]}
    assert faulty.ledger() == ["pay Cleo"]


def without_id(told: list[Event]) -> list[Event]:
    return [{key: value for key, value in event.items() if key != "id"} for event in told]
