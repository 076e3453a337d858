"""useStream of LangGraph's SDK in JavaScript, the newest version and one before."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.protocols.node import CLIENTS, Node, running


@pytest.fixture(scope="module", params=["@langchain/langgraph-sdk", "@langchain/langgraph-sdk-before"])
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    with running(CLIENTS / "langgraph.mjs", request.param) as made:
        yield made


def test_an_answer_with_a_tool_is_shown_once_and_stays_after_a_reload(node: Node, url: str) -> None:
    node.call("open", tab="a", url=url, assistant="demo")
    shown = node.call("submit", tab="a", text="weather")
    assert (shown["error"], shown["errors"]) == (None, [])
    assert [message["type"] for message in shown["messages"]] == ["human", "ai", "tool", "ai"]
    assert "sunny" in shown["messages"][-1]["text"]
    again = node.call("open", tab="b", url=url, assistant="demo", thread=shown["thread"])
    assert again["messages"] == shown["messages"]
    more = node.call("submit", tab="a", text="table")
    assert len(more["messages"]) == 8
    for tab in "ab":
        node.call("close", tab=tab)


def test_a_question_is_an_interrupt_that_a_command_answers(node: Node, url: str) -> None:
    node.call("open", tab="q", url=url, assistant="demo")
    asked = node.call("submit", tab="q", text="ask")
    assert asked["interrupt"]["options"] == ["red", "green", "blue"]
    answered = node.call("submit", tab="q", command={"resume": "blue"})
    assert answered["interrupt"] is None
    assert answered["messages"][-1]["text"] == "You answered: blue"
    node.call("close", tab="q")


def test_a_failed_run_is_an_error(node: Node, url: str) -> None:
    node.call("open", tab="f", url=url, assistant="chat")
    failed = node.call("submit", tab="f", text="fail")
    assert failed["error"]
    node.call("close", tab="f")


def test_a_sub_agent_is_a_call_of_task(node: Node, url: str) -> None:
    node.call("open", tab="s", url=url, assistant="demo")
    shown = node.call("submit", tab="s", text="delegate")
    calls = [call for message in shown["messages"] for call in message["calls"]]
    assert [(name, args["subagent_type"]) for name, args in calls] == [("task", "researcher")]
    assert [message["type"] for message in shown["messages"]] == ["human", "ai", "tool", "ai"]
    node.call("close", tab="s")


@pytest.mark.parametrize(
    ("text", "tool", "result"),
    [("table", "make_table", "inhabitants"), ("file", "write_report", "report.md")],
)
def test_tables_and_files_are_results_of_tools(node: Node, url: str, text: str, tool: str, result: str) -> None:
    node.call("open", tab="t", url=url, assistant="demo")
    shown = node.call("submit", tab="t", text=text)
    assert [call[0] for message in shown["messages"] for call in message["calls"]] == [tool]
    assert result in shown["messages"][2]["text"]
    node.call("close", tab="t")


@pytest.mark.parametrize(
    ("decision", "written"),
    [
        ({"type": "approve"}, "bill.md"),
        ({"type": "edit", "edited_action": {"name": "write_report", "args": {"title": "Other", "text": "6"}}}, "other"),
        ({"type": "reject", "message": "too dear"}, "too dear"),
    ],
)
def test_a_call_is_approved_edited_or_rejected(node: Node, url: str, decision: dict[str, Any], written: str) -> None:
    node.call("open", tab="p", url=url, assistant="chats")
    asked = node.call("submit", tab="p", text="pay")
    assert asked["interrupt"]["action_requests"][0]["name"] == "write_report"
    assert asked["interrupt"]["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject"]
    answer = {"resume": {"decisions": [decision]}}
    decided = node.call("submit", tab="p", nothing={}, command=answer)  # agent-chat-ui sends {} with a command
    assert (decided["interrupt"], decided["error"]) == (None, None)
    assert written in decided["messages"][2]["text"]
    node.call("close", tab="p")


def test_a_message_in_the_middle_of_a_run_waits_for_its_turn(node: Node, url: str) -> None:
    node.call("open", tab="w", url=url, assistant="chats")
    node.call("submit", tab="w", text="pause", waits=False)
    node.call("enqueue", tab="w", text="hello")
    answered = node.call("shown", tab="w", text="You said: hello")
    texts = [message["text"] for message in answered["messages"] if message["type"] != "tool"]
    assert texts == ["pause", "A moment. ", "It is over.", "hello", "You said: hello"]
    node.call("close", tab="w")


def test_a_stop_ends_the_run_and_a_second_tab_sees_it(node: Node, url: str) -> None:
    node.call("open", tab="s1", url=url, assistant="chats")
    thread = node.call("submit", tab="s1", text="wait", waits=False)["thread"]
    node.call("stop", tab="s1")
    second = node.call("open", tab="s2", url=url, assistant="chats", thread=thread)
    assert [message["text"] for message in second["messages"]][:2] == ["wait", "Now I wait. "]
    again = node.call("submit", tab="s2", text="hello")
    assert again["messages"][-1]["text"] == "You said: hello"
    for tab in ("s1", "s2"):
        node.call("close", tab=tab)


def test_a_page_that_is_reloaded_in_the_middle_of_a_run_shows_it_to_its_end(node: Node, url: str) -> None:
    options = {"onDisconnect": "continue", "streamResumable": True}
    node.call("open", tab="r", url=url, assistant="chats", reconnect=True)
    thread = node.call("submit", tab="r", text="pause", waits=False, options=options)["thread"]
    node.call("close", tab="r")
    node.call("open", tab="r2", url=url, assistant="chats", thread=thread, reconnect=True)
    shown = node.call("shown", tab="r2", text="It is over.")
    texts = [message["text"] for message in shown["messages"] if message["type"] != "tool"]
    assert texts == ["pause", "A moment. ", "It is over."]
    assert node.call("rest", tab="r2")["error"] is None
    node.call("close", tab="r2")


def test_a_message_is_edited_twice_and_its_answer_made_once_more_and_the_newest_branch_goes_on(
    node: Node, url: str
) -> None:
    def texts(shown: dict[str, Any]) -> list[str]:
        return [message["text"] for message in shown["messages"]]

    node.call("open", tab="b", url=url, assistant="chats")
    node.call("submit", tab="b", text="zero")
    first = ["zero", "You said: zero"]
    shown = node.call("submit", tab="b", text="one")
    for text in ("two", "three"):
        shown = node.call("again", tab="b", message=2, text=text)
        assert texts(shown) == [*first, text, f"You said: {text}"]
    before = shown["messages"][-1]["id"]
    for _ in range(2):
        shown = node.call("again", tab="b", message=-1)
        assert texts(shown) == [*first, "three", "You said: three"]
        assert shown["messages"][-1]["id"] != before
        before = shown["messages"][-1]["id"]
    node.call("again", tab="b", message=2, text="four")
    shown = node.call("submit", tab="b", text="five")
    assert texts(shown) == [*first, "four", "You said: four", "five", "You said: five"]
    reloaded = node.call("open", tab="b2", url=url, assistant="chats", thread=shown["thread"])
    assert reloaded["messages"] == shown["messages"]
    for tab in ("b", "b2"):
        node.call("close", tab=tab)


@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_a_thread_stream_runs_asks_and_goes_on(node: Node, url: str, transport: str) -> None:
    where = {"url": url, "assistant": "demo", "transport": transport}
    answered = node.call("overThread", text="weather", **where)
    assert [kind for kind, _ in answered["messages"]] == ["human", "ai", "tool", "ai"]
    where["thread"] = answered["thread"]
    (asked,) = node.call("overThread", text="ask", **where)["interrupts"]
    assert asked["payload"]["options"] == ["red", "green", "blue"]
    answered = node.call("overThread", interrupt=asked["id"], response="blue", **where)
    assert answered["messages"][-1] == ["ai", "You answered: blue"]
    shown = node.call("open", tab="e", url=url, assistant="demo", thread=where["thread"])
    assert shown["messages"][-1]["text"] == "You answered: blue"
    node.call("close", tab="e")
