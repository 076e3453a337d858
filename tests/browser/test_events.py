"""The raw log in the console: filtered, marked, exported, live, and long."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import pytest_asyncio

from tests.browser.conftest import Screenshot
from tests.browser.logs import say, spoken, whole
from tests.browser.watched import PHONE, Watched, accessible

Opening = Callable[..., Awaitable[Watched]]
WORDS = " ".join(f"w{number}" for number in range(5_000))
TALKER = f"""version: 1
system:
  name: talker
  coalescing_window: 0
agents:
  - id: assistant
    model:
      provider: scripted
      script: [{{steps: [{{say: {WORDS}}}]}}]
"""


@pytest_asyncio.fixture(loop_scope="session")
async def server(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        yield client


async def counted(page: Watched, words: str) -> None:
    """As everybody sees it; what is read out tells it only when the filter changes."""
    await page.get_by_text(words, exact=True).and_(page.locator("p:not([role])")).wait_for()


async def headed(page: Watched, title: str, sid: str) -> None:
    """By its title, with the id to be copied; what says that it was copied does not cover it."""
    heading = page.get_by_role("heading", name=title, exact=True)
    await heading.wait_for()
    await page.get_by_role("button", name=f"Copy {sid}").click()
    await page.wait_for_function("(sid) => navigator.clipboard.readText().then((text) => text === sid)", arg=sid)
    top, bottom = (f"(one) => one.getBoundingClientRect().{side}" for side in ("top", "bottom"))
    assert await page.get_by_text("Copied.").locator("..").evaluate(bottom) <= await heading.evaluate(top)


async def test_a_log_is_filtered_marked_exported_and_goes_on(
    new_page: Opening, server: httpx2.AsyncClient, screenshot: Screenshot
) -> None:
    sid = await spoken(server, "delegate")
    log = await whole(server, sid)
    page = await new_page(f"#/events/{sid}", permissions=["clipboard-read", "clipboard-write"])
    await counted(page, f"{len(log)} events")
    await headed(page, "Events: delegate", sid)
    await accessible(page)

    starts = [one for one in log if one["type"] == "tool_start"]
    await page.get_by_role("button", name="tool_start").click()
    await counted(page, f"{len(starts)} of {len(log)} events")
    rows = page.get_by_role("listbox").get_by_role("option")
    assert [await row.get_attribute("id") for row in await rows.all()] == [f"event-{one['position']}" for one in starts]
    await page.get_by_role("searchbox").fill("COUNT_words")
    await counted(page, f"1 of {len(log)} events")
    assert "type=tool_start" in page.url and "q=COUNT_words" in page.url, "the address says what is shown"

    await rows.first.click()
    found = next(one for one in starts if one["payload"]["tool_name"] == "count_words")
    details = page.get_by_role("region", name=f"Event {found['position']}")
    await details.get_by_text("count_words", exact=True).wait_for()
    await page.get_by_role("button", name="Copy as JSON").click()
    await page.get_by_text("Copied.").first.wait_for()
    assert json.loads(await page.evaluate("navigator.clipboard.readText()")) == found

    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Export JSONL").click()
    path = await (await downloading.value).path()
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == log
    await page.get_by_role("button", name="Copy as curl").click()
    await page.wait_for_function("() => navigator.clipboard.readText().then((text) => text.startsWith('curl '))")

    await page.get_by_role("searchbox").fill("")
    await page.get_by_role("button", name="tool_start").click()
    await page.get_by_role("combobox", name="Profile").select_option("debug")
    everything = await whole(server, sid, "debug")
    assert len(everything) > len(log)
    await counted(page, f"{len(everything)} events")
    await screenshot(page, "events")
    await page.get_by_role("button", name="Follow new events").click()
    await say(server, sid, "weather")
    after = await whole(server, sid, "debug")
    await counted(page, f"{len(after)} events")
    await page.locator(f"#event-{after[-1]['position']}").wait_for()
    assert len(after) > len(everything), "what comes is shown as it comes"


async def test_a_link_leads_to_its_event_also_to_one_that_is_hidden(
    new_page: Opening, server: httpx2.AsyncClient
) -> None:
    sid = await spoken(server, "weather")
    log, everything = await whole(server, sid), await whole(server, sid, "debug")
    seen = {one["position"] for one in log}
    hidden = next(one["position"] for one in everything if one["position"] not in seen)
    last = log[-1]["position"]

    page = await new_page(f"#/events/{sid}?at={last}", viewport=PHONE, color_scheme="dark", locale="de-DE")
    await page.locator(f"#event-{last}[aria-selected=true]").wait_for()
    await page.get_by_role("heading", name=f"Ereignis {last}").wait_for()
    await accessible(page)
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await page.get_by_role("listbox").focus()
    await page.keyboard.press("ArrowUp")
    await page.get_by_role("heading", name=f"Ereignis {log[-2]['position']}").wait_for()

    other = await new_page(f"#/events/{sid}?at={hidden}")
    await other.get_by_text("This event is hidden from users.").wait_for()
    await other.get_by_role("button", name="All events (debug)").click()
    await other.locator(f"#event-{hidden}[aria-selected=true]").wait_for()
    await other.get_by_role("searchbox").fill("no such words")
    await other.evaluate("(sid) => { location.hash = `#/events/${sid}` }", next_sid := await spoken(server, "hello"))
    await counted(other, f"{len(await whole(server, next_sid))} events")
    assert await other.get_by_role("searchbox").input_value() == "", "another log has a filter of its own"
    await other.go_back()
    await other.get_by_role("link", name="Replay").click()
    await other.get_by_role("region", name="Replay").wait_for()


async def test_five_thousand_events_are_read_searched_and_scrolled(
    new_page: Opening, server: httpx2.AsyncClient
) -> None:
    await server.post("/agent-systems", content=TALKER, headers={"Content-Type": "application/yaml"})
    sid = await spoken(server, "speak", system="talker")
    head = (await server.get(f"/sessions/{sid}")).json()["position"]
    assert head > 5_000
    page = await new_page(f"#/events/{sid}?at=2500")
    await page.locator("#event-2500[aria-selected=true]").wait_for()
    nodes = []
    box = page.get_by_role("listbox")
    for part in (0, 0.3, 0.6, 1):
        await box.evaluate("(box, part) => { box.scrollTop = part * box.scrollHeight }", part)
        wanted = "1" if part == 0 else str(head) if part == 1 else None
        if wanted:
            await page.locator(f"#event-{wanted}").wait_for()
        nodes.append(await page.evaluate("document.querySelectorAll('*').length"))
    assert max(nodes) < 1_500, "only what can be seen is in the page"
    await page.get_by_role("searchbox").fill("w4321")
    await page.get_by_role("listbox").get_by_role("option").filter(has_text="w4321").first.wait_for()
    await accessible(page)


async def test_the_log_of_a_session_that_is_deleted_says_only_that(page: Watched, server: httpx2.AsyncClient) -> None:
    sid = await spoken(server, "hello")
    await page.goto(page.url.partition("#")[0] + f"#/events/{sid}")
    await page.get_by_role("button", name="Follow new events").wait_for()
    await server.delete(f"/sessions/{sid}")
    await page.get_by_role("alert").get_by_text("Session not found").wait_for()
    assert await page.get_by_text("Reconnecting").count() == 0
