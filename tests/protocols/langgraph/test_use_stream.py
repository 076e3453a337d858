"""useStream of LangGraph's SDK in JavaScript, the newest version and one before."""

from collections.abc import Iterator

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


def test_a_reload_in_the_middle_of_a_run_joins_it(node: Node, url: str) -> None:
    node.call("open", tab="r", url=url, assistant="demo", reconnect=True)
    options = {"onDisconnect": "continue"}
    thread = node.call("submit", tab="r", text="slow", waits=False, options=options)["thread"]
    node.call("close", tab="r")
    node.call("open", tab="r2", url=url, assistant="demo", thread=thread, reconnect=True)
    stopped = node.call("stop", tab="r2")
    assert stopped["thread"] == thread
    rested = node.call("rest", tab="r2")
    assert rested["messages"][0]["text"] == "slow"
    node.call("close", tab="r2")
