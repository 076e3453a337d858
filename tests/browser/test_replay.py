"""The replay of the console: the whole page at any position of the log, and played."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import pytest_asyncio

from tests.browser.conftest import Screenshot
from tests.browser.logs import say, spoken, whole
from tests.browser.watched import PHONE, Watched, accessible

Opening = Callable[..., Awaitable[Watched]]
SHOWN = """([text, more]) => {
    const words = (text) => text.replace(/\\s+/g, " ").trim();
    const shown = words(document.querySelector("main").innerText);
    return shown.includes(words(text)) && (more === null || !shown.includes(words(more)));
}"""

AT_ITS_END = """() => {
    const box = document.querySelector("section[aria-label=Conversation]");
    return box.scrollHeight > box.clientHeight && box.scrollHeight - box.scrollTop - box.clientHeight <= 1;
}"""
CONTROLS = ["Previous event", "Play", "Next event", "1×", "2×", "5×", "10×", "50×"]
FOCUSED = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"

IN_SIGHT = """(one) => {
    const { x } = one.getBoundingClientRect();
    return x > 0 && x < innerWidth;
}"""
PLACES = """(slider) => {
    window.places = [];
    new MutationObserver(() => window.places.push(Number(slider.value))).observe(slider, {attributes: true});
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def server(shared_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        yield client


async def opened(page: Watched, sid: str, count: int) -> Watched:
    """The replay of a session that has so many events."""
    await page.goto(page.url.partition("#")[0] + f"#/chat/{sid}")
    await page.get_by_role("button", name="Replay", exact=True).click()
    bar = page.get_by_role("region", name="Replay")
    await bar.get_by_text(f"{count} of {count}").wait_for()
    return bar


async def walked(page: Watched, key: str, last: str) -> list[str]:
    """What had the focus, one after the other, until this had it."""
    focused: list[str] = []
    while last not in focused:
        assert len(focused) < 40, f"{key} does not lead to {last}"
        await page.keyboard.press(key)
        focused += [str(await page.evaluate(FOCUSED))]
    return focused


async def reaches_every_control(page: Watched) -> None:
    """By the Tab key, from the first control to where one writes, which is behind the last."""
    assert await page.evaluate(FOCUSED) == "Position in the log"
    await walked(page, "Shift+Tab", CONTROLS[0])
    focused = [CONTROLS[0], *await walked(page, "Tab", "Message")]
    assert focused[:8] == CONTROLS
    assert focused[9:12] == ["Back to now", "Close replay", "Position in the log"]
    assert [one.partition(",")[0] for one in focused[12:-1]] == ["demo", "scripted"], "of each lane one bar"


async def test_the_page_shows_what_was_there_at_any_position_and_plays(
    page: Watched, server: httpx2.AsyncClient, screenshot: Screenshot
) -> None:
    sid = await spoken(server, "delegate", "hello")
    log = await whole(server, sid)
    answer = [one for one in log if one["type"] == "llm_token" and one["trace_id"] == log[-1]["trace_id"]]
    assert len(answer) > 4, "the last answer was written in parts"
    bar = await opened(page, sid, len(log))
    await page.wait_for_function(SHOWN, arg=["see what happens.", None])
    slider = bar.get_by_role("slider")

    middle = len(answer) // 2
    written = ["".join(one["payload"]["text"] for one in answer[:count]) for count in (middle, middle + 1)]
    await slider.fill(str(log.index(answer[middle - 1]) + 1))
    await page.wait_for_function(SHOWN, arg=written)
    await bar.get_by_role("button", name="Next event").click()
    await page.wait_for_function(SHOWN, arg=[written[1], "see what happens."])
    await page.keyboard.press(",")
    await page.wait_for_function(SHOWN, arg=written)
    await accessible(page)
    await screenshot(page, "replay")

    await slider.fill("0")
    await page.wait_for_function(
        "() => !document.querySelector('main').innerText.includes('I hand this to the researcher')"
    )
    await bar.get_by_role("button", name="50×").click()
    await slider.evaluate(PLACES)
    await slider.press(" ")
    await bar.get_by_text(f"{len(log)} of {len(log)}").wait_for()
    await page.wait_for_function(SHOWN, arg=["see what happens.", None])
    await bar.get_by_role("button", name="Play", exact=True).wait_for()
    assert await bar.get_by_role("button", name="Back to now").is_disabled(), "what was played ends now"
    places = await page.evaluate("window.places")
    assert len(places) > 2 and places == sorted(places) and places[-1] == len(log), "it went there in steps"


async def test_each_call_of_a_round_is_a_bar_that_leads_to_it_while_the_session_goes_on(
    page: Watched, server: httpx2.AsyncClient
) -> None:
    sid = await spoken(server, "delegate", "hello")
    log = await whole(server, sid)
    await page.set_viewport_size({"width": 1360, "height": 560})  # so that what was said does not find room
    bar = await opened(page, sid, len(log))
    await bar.get_by_text("Round 2").wait_for()
    await page.wait_for_function(AT_ITS_END)
    await reaches_every_control(page)
    await bar.get_by_role("slider").fill("3")
    await bar.get_by_text("Round 1").wait_for()
    tools = bar.get_by_role("list", name="Tools")
    names = [str(await one.get_attribute("aria-label")) for one in await tools.get_by_role("button").all()]
    assert {name.partition(",")[0] for name in names} == {"current_time", "count_words", "research_done"}
    await tools.get_by_role("button", name="count_words").click()
    begun = [one["type"] == "tool_start" and one["payload"]["tool_name"] == "count_words" for one in log]
    place = begun.index(True) + 1
    await bar.get_by_text(f"{place} of {len(log)}").wait_for()
    await say(server, sid, "weather")
    longer = await whole(server, sid)
    await bar.get_by_text(f"{place} of {len(longer)}").wait_for()
    await bar.get_by_role("button", name="Back to now").click()
    await page.wait_for_function(SHOWN, arg=["It is sunny.", None])
    await page.keyboard.press("Escape")
    await bar.wait_for(state="hidden")
    assert str(await page.evaluate(FOCUSED)).strip() == "Replay", "the focus is where it came from"


async def test_an_address_opens_the_page_at_a_position(new_page: Opening, server: httpx2.AsyncClient) -> None:
    sid = await spoken(server, "delegate")
    log = await whole(server, sid)
    at = next(one["position"] for one in log if one["type"] == "tool_end")
    place = sum(one["position"] <= at for one in log)
    page = await new_page(f"#/chat/{sid}?at={at}", viewport=PHONE, color_scheme="dark", locale="de-DE")
    bar = page.get_by_role("region", name="Wiedergabe")
    await bar.get_by_text(f"{place} von {len(log)}").wait_for()
    await accessible(page)
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    moment = await bar.locator("span.bg-ink").element_handle()
    await page.wait_for_function(IN_SIGHT, arg=moment)
    await bar.get_by_role("link", name=f"Ereignis {at}").click()
    await page.locator(f"#event-{at}[aria-selected=true]").wait_for()
    await page.go_back()
    await bar.get_by_text(f"{place} von {len(log)}").wait_for()
    await bar.get_by_role("button", name="Wiedergabe schließen").click()
    await bar.wait_for(state="hidden")
    assert "at=" not in page.url


async def test_a_low_window_leaves_room_for_what_was_said(page: Watched, server: httpx2.AsyncClient) -> None:
    """As a window is that was zoomed in."""
    await page.set_viewport_size({"width": 720, "height": 450})
    sid = await spoken(server, "delegate")
    bar = await opened(page, sid, len(await whole(server, sid)))
    assert await bar.get_by_role("list").count() == 0, "the bars of the calls are left out"
    said = await page.get_by_label("Conversation").bounding_box()
    assert said["height"] > 450 / 5
    await accessible(page)
