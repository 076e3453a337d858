"""Pages of the AI SDK and of assistant-ui, built as people build them, in a browser and from another origin."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests import keyed
from tests.browser.conftest import Screenshot
from tests.browser.test_other_origin import Places, origin
from tests.conftest import server_beside, without_pauses
from tests.protocols.ai_sdk.conftest import CHATS
from tests.protocols.node import CLIENTS, NODE

SIZE = {"width": 900, "height": 760}
_numbers = count(1)
Open = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    built, data = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("data")
    assert NODE is not None
    with origin(built) as friend:
        subprocess.run([NODE, CLIENTS / "page/build.mjs", built], check=True, timeout=240)
        key = asyncio.run(keyed.before_the_start(data))["Authorization"].removeprefix("Bearer ")
        settings = Settings(data=data, origins=friend, demo=True)
        with server_beside(settings, own={"chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)) as server:
            yield Places(server, key, friend, "")


@pytest.fixture(params=["useChat", "assistant-ui"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(loop_scope="session")
async def opened(browser: Any, places: Places, kind: str) -> AsyncIterator[Open]:
    """Opens a chat in a tab of its own; when the test is over, no page has complained."""
    complaints: list[str] = []
    contexts = []

    async def opening(system: str, chat: str = "") -> Any:
        context = await browser.new_context(viewport=SIZE, locale="en-US")
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = await context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        api = f"{places.server}/ai-sdk/{system}/chat"
        query = httpx2.QueryParams(kind=kind, id=chat or f"{kind} {next(_numbers)}", api=api, key=places.key)
        await page.goto(f"{places.friend}/?{query}")
        return page

    yield opening
    for context in contexts:
        await context.close()
    assert not complaints


async def say(page: Any, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def test_a_user_sees_tables_and_answers_questions_and_approvals_with_a_click(
    opened: Open, screenshot: Screenshot, kind: str
) -> None:
    page = await opened("demo")
    await say(page, "table")
    await page.get_by_text("all the way to your page").wait_for()
    assert await page.locator(".tool tbody tr").count() == 5
    await say(page, "ask")
    await page.get_by_role("button", name="green").wait_for()
    await page.get_by_role("button", name="Send").wait_for()
    await page.locator(".messages").evaluate("all => all.scrollTo(0, all.scrollHeight)")
    await screenshot(page, "use-chat" if kind == "useChat" else "assistant-ui")
    await page.get_by_role("button", name="blue").click()
    await page.get_by_text("You answered: blue").wait_for()
    await page.reload()
    await page.get_by_text("You answered: blue").wait_for()
    assert await page.locator(".tool tbody tr").count() == 5

    page = await opened("chats")
    await say(page, "pay")
    await page.get_by_role("button", name="Approve").click()
    await page.get_by_text("Written: ").wait_for()
    await say(page, "fail")
    await page.locator(".error").filter(has_text="the script says so").wait_for()


async def test_a_reload_and_a_second_tab_in_mid_run_go_on_and_the_stop_button_stops_the_run(
    opened: Open, places: Places, kind: str
) -> None:
    chat = f"{kind} in mid-run"
    page = await opened("chats", chat)
    await say(page, "wait")
    await page.get_by_text("Now I wait.").wait_for()
    await page.reload()
    second = await opened("chats", chat)
    for tab in (page, second):
        await tab.get_by_text("Now I wait.").wait_for()
        await tab.get_by_role("button", name="Stop").wait_for()
    await second.get_by_role("button", name="Stop").click()
    for tab in (page, second):
        await tab.get_by_role("button", name="Send").wait_for()
        assert await tab.get_by_text("Now I wait.").count() == 1
    async with httpx2.AsyncClient(base_url=places.server, headers={"X-Api-Key": places.key}) as client:
        stored = (await client.get(f"/ai-sdk/chats/chat/{chat}")).json()
    assert stored[-1]["metadata"]["status"] == "stopped"
