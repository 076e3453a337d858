"""What tests of the chat do again and again."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.browser.watched import Watched

MUCH = " ".join(f"word{number}" for number in range(4600))
SYSTEMS = Path(__file__).parent / "systems"


def spoken(page: Watched) -> Any:
    """The conversation, without the panel next to it."""
    return page.get_by_label("Conversation")


async def register(address: str, name: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        text = (SYSTEMS / f"{name}.yaml").read_text("utf-8").replace("MUCH", MUCH)
        answer = await client.post("/agent-systems", content=text, headers={"Content-Type": "application/yaml"})
        assert answer.status_code == 201, answer.text


async def begin(page: Watched, system: str = "demo") -> str:
    """Start a session by hand; its id."""
    await page.goto(page.url.partition("#")[0] + "#/")
    await page.get_by_role("button", name=f"Start with {system}").click()
    await page.get_by_role("heading", name=f"Session with {system}").wait_for()
    await page.get_by_role("textbox", name="Message").wait_for()
    return str(page.url.rpartition("/")[2])


async def say(page: Watched, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")
    await spoken(page).get_by_text(text, exact=True).last.wait_for()


async def wait_for_status(page: Watched, status: str) -> None:
    """The session of this page has come to this."""
    await page.locator("main header").first.get_by_text(status, exact=True).wait_for()


async def downloaded(page: Watched, name: str) -> str:
    """What is in the file that this button gives."""
    async with page.expect_download() as download:
        await page.get_by_role("button", name=name).click()
    path = Path(await (await download.value).path())
    return await asyncio.to_thread(path.read_text, "utf-8")


async def somebody_is_faster(page: Watched, answer: dict[str, object]) -> None:
    """Let the next answer that this page sends come second."""

    async def second(route: Any) -> None:
        ask = route.request.post_data_json["ask_id"]
        headers = {name: value for name, value in route.request.headers.items() if name != "idempotency-key"}
        first = await route.fetch(post_data={"ask_id": ask, **answer}, headers=headers)
        assert first.status == 202, await first.text()
        await route.continue_()

    await page.route("**/answers", second, times=1)


async def words(page: Watched) -> str:
    """All that is in the conversation, in one line."""
    return " ".join((await page.get_by_label("Conversation").inner_text()).split())


def streams(page: Watched) -> set[Any]:
    """The requests for streams that are open on this page, from now on."""
    found: set[Any] = set()

    def concerns(request: Any) -> bool:
        path = urlsplit(request.url)
        return path.path.endswith("/stream") or "wait=" in path.query

    page.on("request", lambda request: found.add(request) if concerns(request) else None)
    for name in ("requestfinished", "requestfailed"):
        page.on(name, lambda request: found.discard(request))
    return found
