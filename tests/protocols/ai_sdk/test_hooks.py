"""Hooks of React, as pages use them: `useChat` with `resume`, and assistant-ui's runtime for the AI SDK."""

from collections.abc import Iterator

import httpx2
import pytest

from tests import keyed
from tests.protocols.node import CLIENTS, Node, running


@pytest.fixture(scope="module")
def page() -> Iterator[Node]:
    with running(CLIENTS / "ai_sdk_hooks.mjs") as node:
        yield node


@pytest.mark.parametrize("kind", ["useChat", "assistant-ui"])
def test_a_page_shows_an_answer_with_its_table(page: Node, server: str, kind: str) -> None:
    url, name = f"{server}/ai-sdk/demo/chat", f"{kind}-1"
    page.call("open", tab=name, kind=kind, url=url, id=name, headers=keyed.headers(server))
    page.call("send", tab=name, text="table")
    shown = page.call("shows", tab=name, text="all the way to your page")
    assert shown["messages"] == 2
    assert ("dynamic-tool" if kind == "useChat" else "tool-call") in shown["types"]
    page.call("close", tab=name)


def test_a_reload_in_mid_run_goes_on_by_itself(page: Node, server: str) -> None:
    url, headers = f"{server}/ai-sdk/chats/chat", keyed.headers(server)
    page.call("open", tab="before", kind="useChat", url=url, id="reloaded", headers=headers)
    page.call("send", tab="before", text="pause")
    page.start("shows", tab="before", text="").until("text")
    page.call("close", tab="before")
    messages = httpx2.get(f"{url}/reloaded").json()
    page.call("open", tab="after", kind="useChat", url=url, id="reloaded", headers=headers, messages=messages)
    shown = page.call("shows", tab="after", text="That was it.")
    assert (shown["text"], shown["messages"]) == ("Now I pause. That was it.", 2)
