"""Chat in the console: what is said, asked, stopped, forked; over reloads, in many tabs, and at length."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2

from tests.browser.chatting import begin, downloaded, register, say, spoken, streams, wait_for_status, words
from tests.browser.conftest import Screenshot
from tests.browser.logs import spoken as session_that_said
from tests.browser.watched import PHONE, Watched, accessible, of_server
from tests.crash.waiting import eventually

Opening = Callable[..., Awaitable[Watched]]
TEXTS = {
    "weather": "It is sunny. This is what the tool said:",
    "table": "A table keeps its columns and types",
    "file": "The bytes are stored once",
    "delegate": "The researcher says:",
    "plan": "the list is done:",
    "fail": "the script of the demo says that this run fails",
}
HIDDEN = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def has_failed(page: Watched, sid: str) -> bool:
    return bool((await of_server(page, f"/sessions/{sid}"))["status"] == "failed")


async def test_every_word_of_the_demo_is_answered(page: Watched) -> None:
    sid = await begin(page)
    await accessible(page)
    for word, text in TEXTS.items():
        await say(page, word)
        await page.get_by_label("Conversation").get_by_text(text).last.wait_for()
        await wait_for_status(page, "failed" if word == "fail" else "completed")
        if word == "file":
            assert "You said: file" in await downloaded(page, "Report.md")
    await spoken(page).get_by_text("scripted_failure").wait_for()
    await accessible(page)
    async with page.expect_response("**/regenerate") as regenerated:  # it may end before it is visible
        await page.get_by_role("button", name="Regenerate").click()
    assert (await regenerated.value).status == 202
    await eventually(lambda: has_failed(page, sid), within=60, what="the answer is not regenerated")
    await wait_for_status(page, "failed")
    forked = page.url
    await page.locator("li", has_text="the list is done").get_by_role("button", name="Continue from here").click()
    await page.wait_for_function("url => location.href !== url", arg=forked)
    await page.get_by_label("Conversation").get_by_text(TEXTS["plan"]).wait_for()
    assert "scripted_failure" not in await words(page)


async def test_stopped_means_stopped_and_what_waits_is_shown(page: Watched, screenshot: Screenshot) -> None:
    sid = await begin(page)
    await say(page, "slow")
    await spoken(page).get_by_text("wait_a_while is running").wait_for()
    await say(page, "and then this")
    await page.get_by_text("queued").wait_for()
    await spoken(page).get_by_text("Now I speak slowly").wait_for()
    await page.get_by_text("writing …", exact=True).last.wait_for()
    await screenshot(page, "chat")
    await page.get_by_role("button", name="Stop").press("Enter")
    await spoken(page).get_by_text("Stopped", exact=True).wait_for()
    assert await page.get_by_role("textbox", name="Message").evaluate("box => box === document.activeElement")
    await spoken(page).get_by_text("interrupted").wait_for()
    times = {event["type"]: event["ts"] for event in (await of_server(page, f"/sessions/{sid}/events"))["events"]}
    assert times["run_end"] - times["stop_request"] < 1
    said = await words(page)
    assert "and then this" not in said, "what waited is withdrawn"
    await page.get_by_text("They are back in the input box.").wait_for()
    box = page.get_by_role("textbox", name="Message")
    assert await box.input_value() == "and then this"
    await page.reload()
    await spoken(page).get_by_text("Stopped", exact=True).wait_for()
    assert await words(page) == said
    assert await box.input_value() == "and then this", "it is there after a reload, too"
    await box.press("Enter")
    await spoken(page).get_by_text("and then this", exact=True).first.wait_for()
    assert await box.input_value() == ""

    async def is_said_once() -> bool:
        return bool(await spoken(page).get_by_text("and then this", exact=True).count() == 1)

    await eventually(is_said_once, within=30, what="what was sent again is shown twice")


async def test_what_is_sent_again_because_a_line_was_lost_is_said_once(page: Watched) -> None:
    sid = await begin(page)
    await say(page, "good morning")
    await wait_for_status(page, "completed")
    lost: list[Any] = []

    async def lose(route: Any) -> None:
        if lost:
            await route.continue_()
            return
        lost.append(await route.fetch())  # the server has it, and the page never learns that
        await route.abort()

    await page.route("**/messages", lose)
    await say(page, "hello")
    await page.get_by_text("sending …").wait_for()
    await say(page, "at once")
    await say(page, "and this")
    await spoken(page).get_by_text("You said “and this”").wait_for()
    await page.get_by_text("sending …").first.wait_for(state="detached")
    await wait_for_status(page, "completed")
    assert [response.status for response in lost] == [202]
    messages = (await of_server(page, f"/sessions/{sid}/messages"))["messages"]
    said = [entry["content"][0]["text"] for entry in messages if entry["role"] == "user"]
    assert said == ["good morning", "hello", "at once", "and this"]
    assert len(messages) == 2 * len(said)
    first = messages[0]["position"]
    await spoken(page).get_by_role("link", name=f"Event {first}", exact=True).click()
    await page.wait_for_url(f"**#/events/{sid}?at={first}")


async def test_while_a_session_is_read_nothing_is_said_of_how_it_stands(page: Watched, shared_address: str) -> None:
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        sid = await session_that_said(client, "hello")
    arrived = asyncio.Event()

    async def held(route: Any) -> None:
        await arrived.wait()
        await route.continue_()

    await page.route(f"**/sessions/{sid}**", held)
    await page.goto(page.url.partition("#")[0] + f"#/chat/{sid}")
    await page.get_by_role("textbox", name="Message").wait_for()
    assert await page.locator("main header").first.get_by_text("new", exact=True).count() == 0
    arrived.set()
    await wait_for_status(page, "completed")


async def test_nothing_that_a_model_says_runs_or_is_fetched(page: Watched, shared_address: str) -> None:
    """The page is watched: a request to another origin, or one that the policy stops, fails the test."""
    await register(shared_address, "odd")
    await page.reload()
    await begin(page, "odd")
    await say(page, "attack")
    await spoken(page).get_by_text("The attack is over.").wait_for()
    await wait_for_status(page, "completed")
    assert await page.evaluate("window.attacked") is None
    said = page.get_by_label("Conversation")
    assert await said.locator("script, img, iframe, style, object, [onclick], [onerror], [onload]").count() == 0
    elsewhere = "all.filter((one) => one.origin !== location.origin)"
    links = await said.locator("a").evaluate_all(f"all => {elsewhere}.map((one) => [one.protocol, one.rel])")
    assert {protocol for protocol, _ in links} == {"https:", "mailto:"}
    assert all("noopener" in rel and "nofollow" in rel for _, rel in links)
    assert "Fish & chips © R&D; x" in await words(page), "the CSP allows HTML entities"


async def test_eight_tabs_work_at_once_because_hidden_ones_hold_no_connection(page: Watched) -> None:
    """A browser has six connections for a server."""
    sid = await begin(page)
    tabs, held = [page], [streams(page)]
    for _ in range(7):
        await tabs[-1].evaluate(HIDDEN, True)
        tabs.append(await page.context.new_page())
        held.append(streams(tabs[-1]))
        await tabs[-1].goto(page.url)
        await tabs[-1].get_by_role("textbox", name="Message").wait_for()
    await say(tabs[-1], "weather")
    await spoken(tabs[-1]).get_by_text("It is sunny.").wait_for()
    await wait_for_status(tabs[-1], "completed")
    assert not any(held[:-1]), "they have let go"
    for tab in (tabs[0], tabs[3]):
        await tabs[-1].evaluate(HIDDEN, True)
        assert "sunny" not in await words(tab)
        await tab.evaluate(HIDDEN, False)
        await spoken(tab).get_by_text("It is sunny.").wait_for()
        assert await words(tab) == await words(tabs[-1])
        await tab.evaluate(HIDDEN, True)
    assert sid in tabs[0].url


async def test_eight_windows_side_by_side_do_not_hold_each_other_up(page: Watched) -> None:
    windows = [page]
    for _ in range(7):
        windows.append(await page.context.new_page())
        await windows[-1].goto(page.url)
    sids = [await begin(window) for window in windows]
    for window in windows:
        await say(window, "weather")
    for window in windows:
        await spoken(window).get_by_text("It is sunny.").wait_for()
        await wait_for_status(window, "completed")
        listed = window.get_by_role("complementary", name="Sessions")
        for sid in sids:
            await listed.locator(f'a[href*="{sid}"]').get_by_text("completed").wait_for()
    async with windows[-1].expect_request(lambda request: "/stream" in request.url):
        for window in windows[:4]:
            await window.close()
    await say(windows[-1], "table")
    await wait_for_status(windows[-1], "completed")


async def test_a_very_long_session_opens_quickly_and_scrolls(
    page: Watched, shared_address: str, record_property: Callable[[str, object], None]
) -> None:
    await register(shared_address, "odd")
    earlier = [{"role": ("user", "assistant")[i % 2], "content": f"**Message** number {i}."} for i in range(490)]
    async with httpx2.AsyncClient(base_url=shared_address, timeout=120) as client:
        body = {"messages": [*earlier, {"role": "user", "content": "much"}], "agent_system_id": "odd"}
        sid = (await client.post("/stream-test", json=body)).headers["stellwerk-session"]
        position = (await client.get(f"/sessions/{sid}")).json()["position"]
    assert position > 5000
    await page.evaluate("window.began = performance.now()")
    await page.goto(page.url.partition("#")[0] + f"#/chat/{sid}")
    await page.get_by_label("Conversation").get_by_text("word4599").last.wait_for()
    took = await page.evaluate("performance.now() - window.began")
    record_property("a session of 5,000 events opened in milliseconds", took)
    items = page.get_by_label("Conversation").locator("ol > li[data-index]")
    assert await items.count() < 40, "only what can be seen is built"
    box = page.get_by_label("Conversation")
    await box.evaluate("box => box.scrollTo({ top: 0 })")
    await spoken(page).get_by_text("number 0.").wait_for()
    assert await items.count() < 60
    async with httpx2.AsyncClient(base_url=shared_address, timeout=120) as client:
        await client.post(f"/sessions/{sid}/messages", json={"text": "another client"})
    await page.wait_for_function("count => document.querySelector('ol > li[data-index]').ariaSetSize > count", arg=492)
    assert await box.evaluate("box => box.scrollTop") == 0, "a reader who scrolled up is not moved"
    await page.get_by_role("button", name="Jump to the end").click()
    await spoken(page).get_by_text("You said: another client").wait_for()


async def test_it_looks_well_in_the_dark_on_a_phone_and_in_german(
    page: Watched, new_page: Opening, screenshot: Screenshot
) -> None:
    sid = await begin(page)
    await say(page, "ask")
    await page.get_by_role("button", name="blue").wait_for()
    looks: dict[str, dict[str, object]] = {
        "chat-dark": {"color_scheme": "dark"},
        "chat-phone": {"viewport": PHONE, "locale": "de-DE", "has_touch": True},
    }
    for name, options in looks.items():
        other = await new_page(f"#/chat/{sid}", **options)
        await other.get_by_role("button", name="blue").wait_for()
        await accessible(other)
        await screenshot(other, name)
        assert await other.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
