"""Systems and tools in the console: looked at, written, registered, tried."""

from collections.abc import Awaitable, Callable

from tests.browser.conftest import Screenshot
from tests.browser.watched import PHONE, Watched, accessible, of_server

Opening = Callable[..., Awaitable[Watched]]
BROKEN = """version: 1
system:
  name: bench
agents:
  - id: assistant
    tools:
      allow: [got_weather]
"""


async def test_a_system_is_shown_as_a_picture_and_tried(
    page: Watched, new_page: Opening, screenshot: Screenshot
) -> None:
    await page.goto(page.url.partition("#")[0] + "#/systems")
    await page.get_by_role("main").get_by_role("link", name="demo").click()
    picture = page.get_by_role("img", name="demo: 2 agents")
    await picture.wait_for()
    shown = set(await picture.locator("text").all_text_contents())
    resolved = await of_server(page, "/agent-systems/demo")
    assert {*resolved["tools"], *(agent["id"] for agent in resolved["agents"])} <= shown
    await accessible(page)
    await screenshot(page, "systems")
    await page.get_by_text("sub-agent").click()
    await page.get_by_role("heading", name="May use").wait_for()
    await page.get_by_role("tab", name="Configuration").click()
    await page.get_by_text("coalescing_window").wait_for()
    await accessible(page)
    await page.get_by_role("button", name="Try it").click()
    await page.get_by_role("heading", name="Session with demo").wait_for()
    looks: dict[str, dict[str, object]] = {
        "systems-dark": {"color_scheme": "dark"},
        "systems-phone": {"viewport": PHONE},
    }
    for name, options in looks.items():
        other = await new_page("#/systems/demo", **options)
        await other.get_by_role("img", name="demo: 2 agents").wait_for()
        await accessible(other)
        await screenshot(other, name)


async def test_a_mistake_is_shown_at_its_line_while_one_writes(
    page: Watched, new_page: Opening, screenshot: Screenshot
) -> None:
    await page.goto(page.url.partition("#")[0] + "#/register")
    box = page.get_by_role("textbox", name="Agent system in YAML")
    await page.get_by_text("No errors").wait_for()
    await accessible(page)
    await box.fill(BROKEN)
    await page.get_by_text("did you mean 'get_weather'?").wait_for()
    await accessible(page)
    await screenshot(page, "register")
    await page.get_by_role("button", name="Line 7").click()
    start = await box.evaluate("(box) => box.value.slice(box.selectionStart)")
    assert start.startswith("      allow:"), "the cursor is at the error"
    assert await page.get_by_role("button", name="Register", exact=True).is_disabled()
    await box.fill(BROKEN.replace("got_", "get_"))
    await page.get_by_text("No errors").wait_for()
    await box.press("Control+s")
    await page.get_by_text("bench is registered as version 1.").wait_for()
    assert (await of_server(page, "/agent-systems/bench"))["version"] == 1
    await page.goto(page.url.partition("#")[0] + "#/systems/bench")
    await page.get_by_role("tab", name="YAML").click()
    changed = (await box.input_value()).replace("get_weather", "get_weather, get_time")
    assert changed.count("get_time") == 1
    await box.fill(changed)
    await page.get_by_role("tab", name="Diagram").click()
    await page.get_by_role("tab", name="YAML").click()
    assert await box.input_value() == changed, "what was written is there again"
    await box.fill(BROKEN.replace("got_", "get_"))
    await page.get_by_role("button", name="Try it").last.click()
    await page.get_by_role("heading", name="Session with bench").wait_for()


async def test_tools_are_found_by_words_and_tell_their_arguments(page: Watched, screenshot: Screenshot) -> None:
    await page.goto(page.url.partition("#")[0] + "#/tools")
    count = len((await of_server(page, "/tools"))["tools"])
    await page.get_by_text(f"{count} tools").wait_for()
    await page.get_by_role("searchbox").fill("WEATHER tell")
    await page.get_by_text("1 tool", exact=True).wait_for()
    await page.get_by_text("get_weather").click()
    await page.get_by_role("cell", name="city", exact=True).wait_for()
    await accessible(page)
    await screenshot(page, "tools")
    await page.get_by_role("searchbox").fill("no such thing")
    await page.get_by_text("No matching tools").wait_for()
