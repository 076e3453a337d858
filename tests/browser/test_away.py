"""The console while its server is away: what was asked for is not lost, and the page stays the console's own."""

from typing import Any

from tests.browser.chatting import begin, register, say, spoken, wait_for_status
from tests.browser.watched import Watched, accessible, of_server
from tests.crash.waiting import eventually

NAVIGATION = "performance.getEntriesByType('navigation')[0].startTime + performance.timeOrigin"


def tools(page: Watched) -> Any:
    """The way to a page that was not fetched yet."""
    return page.get_by_role("navigation").get_by_role("link", name="Tools")


async def is_stopped(page: Watched, sid: str) -> bool:
    return bool((await of_server(page, f"/sessions/{sid}"))["status"] == "stopped")


async def waiting(page: Watched, address: str) -> str:
    """A session that is at work for a minute; its id."""
    await register(address, "asking")
    await page.reload()
    sid = await begin(page, "asking")
    await say(page, "wait")
    await spoken(page).get_by_text("wait_a_while is running").wait_for()
    return sid


async def test_a_stop_that_could_not_be_sent_is_sent_when_the_line_is_back(page: Watched, shared_address: str) -> None:
    sid = await waiting(page, shared_address)
    await page.context.set_offline(True)
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("button", name="stopping …").wait_for()
    await page.get_by_role("navigation").get_by_role("link", name="Chat").click()  # it does not need the page
    await page.get_by_role("heading", level=1, name="Start a session").wait_for()
    await page.context.set_offline(False)
    await eventually(lambda: is_stopped(page, sid), within=60, what="the run goes on")


async def test_a_stop_that_is_refused_says_so_and_can_be_pressed_again(page: Watched, shared_address: str) -> None:
    await waiting(page, shared_address)
    await page.route(
        "**/stop", lambda route: route.fulfill(status=403, json={"code": "forbidden", "detail": "not you"})
    )
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("alert").get_by_text("Not you").wait_for()
    await page.unroute("**/stop")
    await page.get_by_role("button", name="Stop").click()
    await wait_for_status(page, "stopped")


async def test_a_page_that_cannot_be_fetched_is_tried_again_and_the_others_live_on(page: Watched) -> None:
    await begin(page)
    began = await page.evaluate(NAVIGATION)
    await page.context.set_offline(True)
    await tools(page).click()
    await page.get_by_role("heading", level=1, name="This page could not be loaded").wait_for()
    await accessible(page)
    again = page.get_by_role("button", name="Try again").first
    await again.click()
    await again.wait_for()
    await page.go_back()
    await page.get_by_role("textbox", name="Message").wait_for()
    await page.go_forward()
    await again.wait_for()
    await page.context.set_offline(False)
    await again.click()
    await page.get_by_role("heading", level=1, name="Tools").wait_for()
    assert await page.evaluate(NAVIGATION) == began, "the console was not loaded again"


async def test_a_page_of_a_build_that_is_gone_loads_the_console_again_once(page: Watched) -> None:
    await begin(page)
    loaded: list[Any] = []
    page.on("load", lambda one: loaded.append(one))
    await page.route("**/assets/ToolsPage-*.js", lambda route: route.fulfill(status=404, json={"code": "unknown"}))
    await tools(page).click()
    await page.get_by_role("heading", level=1, name="This page crashed").wait_for()
    assert len(loaded) == 1
    await page.unroute("**/assets/ToolsPage-*.js")
    await page.get_by_role("button", name="Reload").click()
    await page.get_by_role("heading", level=1, name="Tools").wait_for()
