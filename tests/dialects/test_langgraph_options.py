"""Options of LangGraph's run streams: modes, sub-graphs, and sub-agents that are shown as calls of ``task``."""

from collections.abc import Sequence
from typing import Any

from stellwerk.dialects.base import translate
from stellwerk.dialects.langgraph.runs import RunsOptions, RunsTranslator
from stellwerk.dialects.langgraph.threads import ThreadsOptions, ThreadsTranslator
from stellwerk.envelope import model as m
from stellwerk.envelope import payloads as p
from tests.dialects.sample_logs import Story, parallel, positions, reasoning, simple


def events(log: Sequence[m.Envelope], **options: Any) -> list[tuple[str, Any]]:
    chunks = translate(RunsTranslator("s1", RunsOptions(**options)), positions(log))
    return [(chunk["event"], chunk["data"]) for _, chunk in chunks]


def test_only_the_modes_that_were_asked_for_are_sent() -> None:
    log = simple().checked()
    assert {event for event, _ in events(log, modes=frozenset({"values"}))} == {"metadata", "values"}
    assert {event for event, _ in events(log, modes=frozenset({"updates", "debug"}))} == {"metadata", "updates"}
    assert {event for event, _ in events(log, modes=frozenset({"events"}))} == {"metadata"}


def test_without_subgraphs_only_the_outermost_graph_is_sent() -> None:
    assert not [event for event, _ in events(parallel().checked(), subgraphs=False) if "|" in event]


def test_the_thread_has_the_name_that_its_client_knows() -> None:
    told = events(simple().checked(), thread_id="mine")
    assert {data[1]["thread_id"] for event, data in told if event == "messages"} == {"mine"}


def test_the_mode_messages_sends_each_message_as_far_as_it_is_written() -> None:
    told = events(reasoning().checked(), modes=frozenset({"messages"}))
    first = [(event, data) for event, data in told if event != "metadata"][:8]
    assert [event for event, _ in first] == ["messages/metadata", *["messages/partial"] * 6, "messages/complete"]
    assert first[0][1]["a"]["metadata"]["langgraph_node"] == "model"
    contents = [data[0]["content"] for _, data in first[1:]]
    assert contents[0] == [{"type": "reasoning", "reasoning": "hm", "index": 0}]
    assert [block["type"] for block in contents[3]] == ["reasoning", "text"]
    assert contents[3][1]["text"] == "I see"
    assert [data[0]["tool_calls"] for _, data in first[5:]] == [
        [{"type": "tool_call", "id": "c1", "name": "look", "args": args}] for args in ({}, {"at": "sky"}, {"at": "sky"})
    ]
    complete = [data[0] for event, data in told if event == "messages/complete"]
    assert [message["type"] for message in complete] == ["ai", "tool", "ai", "ai"]


def test_an_abandoned_message_is_open_until_values_take_it_back() -> None:
    story = Story().begin().think("a").token("a", "half").thought("a", status="abandoned").speak("b", "whole").end()
    told = events(story.checked(), modes=frozenset({"messages", "values"}))
    assert [event for event, _ in told if event == "messages/complete"] == ["messages/complete"]


def delegating() -> Story:
    story = (
        Story().begin("compare").think("a").write("a", "scout", "c1", '{"ta').write("a", "scout", "c1", 'sk": "left"}')
    )
    story.thought("a", ("scout", "c1", {"task": "left"}))
    story.use("scout", "c1", {"task": "left"}, kind="agent", title="scout").speak("l", "here", parent="#c1")
    return story.used("scout", "c1", "here").speak("b", "left").says("assistant", "left ", "b").end()


def test_a_sub_agent_is_a_call_of_task_whose_arguments_come_whole() -> None:
    told = events(delegating().checked(), agents=frozenset({"scout"}))
    chunks = [data[0]["tool_call_chunks"] for event, data in told if event == "messages" and data[0]["id"] == "a"]
    args = '{"description":"left","subagent_type":"scout"}'
    assert chunks == [[{"type": "tool_call_chunk", "index": 0, "id": "c1", "name": "task", "args": args}]]
    values = [data for event, data in told if event == "values"][-1]
    (wanted,) = values["messages"][1]["tool_calls"]
    assert (wanted["name"], wanted["args"]) == ("task", {"description": "left", "subagent_type": "scout"})
    assert values["messages"][2]["name"] == "task"


def test_the_thread_protocol_shows_a_sub_agent_as_a_call_of_task_too() -> None:
    chunks = translate(ThreadsTranslator("s1", ThreadsOptions(frozenset({"scout"}))), positions(delegating().checked()))
    (started,) = [c["params"]["data"] for _, c in chunks if c["params"]["data"].get("event") == "tool-started"]
    assert started["tool_name"] == "task"
    assert started["input"] == {"description": "left", "subagent_type": "scout"}


def test_an_enqueued_message_is_part_of_the_conversation_when_its_run_starts() -> None:
    story = Story().begin("first").think("a").token("a", "one")
    waiting = p.Said(message_id="m2", role="user", content=[p.TextPart(text="second")], status="first")
    story.log.append(m.Message(ts=1, parent_id=None, call_id="say-m2", seq=1, payload=waiting))
    story.thought("a").says("assistant", "one", "a").end().begin(None, message_id="m2").speak("b", "two").end()
    told = events(story.log)
    contents = [[each["content"] for each in data["messages"]] for event, data in told if event == "values"]
    assert contents[:3] == [["first"], ["first", "one"], ["first", "one", "second"]]
    again = [event for event, _ in told].index("metadata", 1)
    (message,) = told[again + 1][1]["__start__"]["messages"]
    assert message["content"] == "second"


def test_an_enqueued_message_that_was_withdrawn_never_comes() -> None:
    story = Story().begin("first")
    waiting = p.Said(message_id="m2", role="user", content=[p.TextPart(text="second")], status="first")
    gone = p.Said(message_id="m2", role="user", content=[], status="first", action="removed")
    for payload in (waiting, gone):
        story.log.append(m.Message(ts=1, parent_id=None, call_id="say-m2", seq=1, payload=payload))
    story.end("stopped").begin("third", message_id="m2")
    assert [m_["content"] for m_ in events(story.log)[-1][1]["messages"]] == ["first", "third"]


def test_several_actions_of_one_review_are_one_interrupt() -> None:
    story = Story().begin("pay both")
    for number, name in enumerate(("pay", "refund"), 1):
        request = {
            "action_requests": [{"name": name, "args": {"to": "Bob"}}],
            "review_configs": [{"action_name": name, "allowed_decisions": ["approve"]}],
        }
        asked: dict[str, Any] = {
            "kind": "approval",
            "interrupt_id": "i1",
            "tool_name": name,
            "args": {"to": "Bob"},
            "data": request,
        }
        story.ask(f"i1-{number}", "ok?", options=["approve"], **asked)
    ((_, data),) = [each for each in events(story.end("awaiting_user").checked()) if each[0] == "updates"][-1:]
    (interrupt,) = data["__interrupt__"]
    assert interrupt["id"] == "i1"
    assert [request["name"] for request in interrupt["value"]["action_requests"]] == ["pay", "refund"]
    assert [config["action_name"] for config in interrupt["value"]["review_configs"]] == ["pay", "refund"]


def test_an_approval_of_ours_has_the_form_of_a_request_for_review() -> None:
    story = Story().begin("pay")
    ours = {"type": "tool_approval", "name": "pay", "args": {"to": "Bob"}, "tool_call_id": "c1"}
    story.ask("i1", "Pay Bob?", kind="approval", tool_name="pay", args={"to": "Bob"}, data=ours, options=["approve"])
    data = [data for event, data in events(story.end("awaiting_user").checked()) if event == "values"][-1]
    assert data["__interrupt__"] == [
        {
            "id": "i1",
            "value": {
                "action_requests": [{"name": "pay", "args": {"to": "Bob"}, "description": "Pay Bob?"}],
                "review_configs": [{"action_name": "pay", "allowed_decisions": ["approve"]}],
            },
        }
    ]
