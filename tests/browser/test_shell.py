"""The frame of every page of the console: navigation, keyboard, themes, languages, the API key."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from anyio.from_thread import start_blocking_portal

from stellwerk.settings import Settings
from tests.browser.chatting import say, streams, wait_for_status
from tests.browser.conftest import Screenshot
from tests.browser.logs import spoken
from tests.browser.watched import PHONE, Watched, accessible, watched
from tests.conftest import running_server

Opening = Callable[..., Awaitable[Watched]]
LONG = "a-very-long-name-of-a-system-that-does-not-fit-into-its-column"
SYSTEM = """version: 1
system: {{name: {name}, description: One of many.}}
agents: [{{id: assistant, model: {{provider: scripted, script: [{{steps: [{{say: Well.}}]}}]}}}}]
"""
WINDOWS: tuple[dict[str, Any], ...] = (
    {"viewport": {"width": 1440, "height": 900}},
    {"viewport": {"width": 768, "height": 1024}, "locale": "de-DE"},
    {"viewport": {"width": 390, "height": 800}},
    {"viewport": {"width": 720, "height": 450}},
)
THERE = "() => document.querySelector('main h1') && !document.querySelector('main [role=status] .animate-pulse')"
BEYOND = """() => {
    const { documentElement: page, body } = document, main = document.querySelector("main");
    main.scrollTo(0, main.scrollHeight);
    return {
        down: Math.max(page.scrollHeight, body.scrollHeight) - innerHeight,
        aside: page.scrollWidth - innerWidth,
        aside_in_main: main.scrollWidth - main.clientWidth,
    };
}"""
TWICE = "(button) => { button.click(); button.click(); }"


async def heading(page: Watched, text: str) -> None:
    await page.get_by_role("heading", level=1, name=text).wait_for()


async def test_every_page_is_reached_by_the_navigation_and_by_the_keyboard(page: Watched) -> None:
    await heading(page, "Start a session")
    places = {"Workflows": "w", "Systems": "s", "Tools": "t", "Events": "e", "Chat": "c"}
    headings = {"Systems": "Agent systems", "Chat": "Start a session"}
    for name in places:
        await page.get_by_role("navigation").get_by_role("link", name=name).click()
        await heading(page, headings.get(name, name))
        await accessible(page)
    for name, key in places.items():
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await heading(page, headings.get(name, name))
    await page.keyboard.press("?")
    await page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    await accessible(page)
    await page.keyboard.press("Escape")
    await page.goto(page.url.partition("#")[0] + "#/nowhere")
    await heading(page, "Page not found")
    await accessible(page)


async def test_a_new_session_is_in_the_sidebar_and_is_found_below_a_hundred_others(
    page: Watched, shared_address: str
) -> None:
    await page.get_by_role("button", name="Start with demo").click()
    await heading(page, "Session with demo")
    sid = page.url.rpartition("/")[2]
    listed = page.get_by_role("complementary").locator(f'a[href*="{sid}"][aria-current=page]')
    await listed.wait_for()
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        await asyncio.gather(*(client.post("/sessions", json={"agent_system_id": "demo"}) for _ in range(100)))
        await listed.wait_for(state="detached")
        older = page.get_by_role("button", name="Show older")
        await older.click()
        await listed.wait_for()
        await older.wait_for(state="detached")
        await accessible(page)
        await client.post("/sessions", json={"agent_system_id": "demo"})
    await page.get_by_role("complementary", name="Sessions").get_by_role("listitem").nth(101).wait_for()


async def test_the_session_in_which_something_happens_moves_to_the_beginning_of_the_list(page: Watched) -> None:
    first = page.get_by_role("complementary", name="Sessions").get_by_role("listitem").first
    async with httpx2.AsyncClient(base_url=page.url.partition("#")[0], timeout=60) as client:
        begun = [(await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"] for _ in range(2)]
        await first.locator(f'a[href*="{begun[1]}"]').wait_for()
        await client.post(f"/sessions/{begun[0]}/messages", json={"text": "the older one"})
        await first.locator(f'a[href*="{begun[0]}"]').get_by_text("the older one").wait_for()


async def test_colours_and_language_are_chosen_and_stay(new_page: Opening) -> None:
    page = await new_page(locale="de-DE", color_scheme="dark")
    await heading(page, "Sitzung starten")
    dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    await page.get_by_role("button", name="Design: Systemstandard").click()
    light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    await page.get_by_role("button", name="Sprache: Deutsch").click()
    await heading(page, "Start a session")
    await page.reload()
    await heading(page, "Start a session")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == light
    assert await page.evaluate("document.documentElement.lang") == "en"


async def test_on_a_phone_the_sessions_are_in_a_drawer(new_page: Opening, screenshot: Screenshot) -> None:
    page = await new_page(viewport=PHONE)
    await heading(page, "Start a session")
    await accessible(page)
    await page.get_by_role("button", name="Show sessions").click()
    drawer = page.get_by_role("dialog", name="Sessions")
    await drawer.get_by_role("link", name="New session").wait_for()
    await accessible(page)
    await page.keyboard.press("Escape")
    await drawer.wait_for(state="hidden")
    overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overflow <= 0, "nothing overflows sideways"


async def pages_with_much_on_them(address: str) -> list[str]:
    async with httpx2.AsyncClient(base_url=address, timeout=120) as client:
        for name in [LONG, *(f"system-{number}" for number in range(25))]:
            text = SYSTEM.format(name=name)
            answer = await client.post("/agent-systems", content=text, headers={"Content-Type": "application/yaml"})
            assert answer.status_code == 201, answer.text
        sid = await spoken(client, "table", "markdown", "weather", "delegate")
        file = (await client.post("/files", files={"file": ("notes.txt", b"The sales of May were good.")})).json()
        wish = {"prompt": "Write a report", "listFileId": [file["fileId"]]}
        workflow = (await client.post("/api/workflows/start", json=wish)).json()["id"]
        await client.get(f"/sessions/{workflow}/stream", params={"until": "run_end"})
    own = [f"chat/{sid}", f"workflows/{workflow}", f"systems/{LONG}", f"events/{sid}", "chat/missing", "nowhere"]
    return ["", "workflows", "workflows/new", "systems", "systems/demo", "register", "tools", "events", *own]


async def test_no_page_is_larger_than_its_window(new_page: Opening, shared_address: str) -> None:
    """What does not find room is scrolled inside the page, and no wheel moves the page itself away."""
    paths = await pages_with_much_on_them(shared_address)
    for options in WINDOWS:
        page = await new_page(**options)
        for path in paths:
            await page.goto(page.url.partition("#")[0] + f"#/{path}")
            await page.reload()
            await page.wait_for_function(THERE)
            beyond = await page.evaluate(BEYOND)
            assert all(by <= 0 for by in beyond.values()), f"{path} at {options['viewport']}: {beyond}"


async def test_two_fast_clicks_do_a_thing_once(page: Watched) -> None:
    posted: list[str] = []
    page.on("request", lambda one: posted.append(urlsplit(one.url).path) if one.method == "POST" else None)
    start = page.url.partition("#")[0]

    async def done_once(button: Any, path: str) -> None:
        posted.clear()
        async with page.expect_response(lambda one: urlsplit(one.url).path == path and one.request.method == "POST"):
            await button.evaluate(TWICE)
        assert posted.count(path) == 1, posted

    async def goes(path: str) -> None:
        await page.goto(start + path)

    await done_once(page.get_by_role("button", name="Start with demo"), "/sessions")
    await heading(page, "Session with demo")
    sid = page.url.rpartition("/")[2]
    await say(page, "hello")
    await wait_for_status(page, "completed")
    await done_once(page.get_by_role("button", name="Continue from here"), f"/sessions/{sid}/fork")
    await page.wait_for_url(lambda url: not url.endswith(sid))
    await say(page, "ask")
    await wait_for_status(page, "waiting for you")
    copy = page.url.rpartition("/")[2]
    await done_once(page.get_by_role("button", name="red", exact=True), f"/sessions/{copy}/answers")
    await goes("#/systems/demo")
    await done_once(page.get_by_role("button", name="Try it"), "/sessions")
    await heading(page, "Session with demo")
    await goes("#/register")
    await page.get_by_text("No errors").wait_for()
    await done_once(page.get_by_role("button", name="Register"), "/agent-systems")
    await goes("#/workflows/new")
    await page.get_by_label("What do you need?").fill("Write a report")
    await done_once(page.get_by_role("button", name="Start", exact=True), "/api/workflows/start")


async def test_reduced_motion_is_respected(new_page: Opening) -> None:
    page = await new_page(reduced_motion="reduce")
    await heading(page, "Start a session")
    pulse = await page.evaluate_handle("document.body.appendChild(document.createElement('p'))")
    style = "(one) => { one.className = 'animate-pulse'; return getComputedStyle(one).animationIterationCount; }"
    assert await pulse.evaluate(style) == "1"


async def shows_a_reader_only_what_is_allowed(page: Watched, asking: str) -> None:
    """And nothing that would be refused."""
    start, note = page.url.partition("#")[0], page.get_by_text("Your key is read-only.")
    for path in ("#/", f"#/chat/{asking}", "#/workflows/new", f"#/workflows/{asking}"):
        await page.goto(start + path)
        await note.first.wait_for()
        await accessible(page)
    for path in ("#/register", "#/systems/demo"):
        await page.goto(start + path)
        if path != "#/register":
            await page.get_by_role("tab", name="YAML").click()
        await page.get_by_text("Your key may not register agent systems.").wait_for()
    await page.goto(f"{start}#/chat/{asking}")
    await page.get_by_role("region", name="assistant asks").get_by_text("Which colour do you like?").wait_for()
    for name in ("Delete", "Answer", "Try it", "New session", "Register", "Start", "Send", "blue"):
        assert await page.get_by_role("main").get_by_role("button", name=name).count() == 0, name


async def test_a_server_that_asks_for_a_key_gets_one(browser: Any, tmp_path: Path) -> None:
    """The key is asked for, kept for the tab, sent with each request, never in an address, and missed when revoked. Who
    may only read is offered nothing else."""
    serving = running_server(Settings(data=tmp_path / "data"))
    with start_blocking_portal() as thread, thread.wrap_async_context_manager(serving) as address:
        async with httpx2.AsyncClient(base_url=address, timeout=60) as anybody:
            token = (await anybody.post("/keys", json={"name": "ada", "role": "admin"})).json()["token"]
        bearer = {"Authorization": f"Bearer {token}"}
        async with watched(browser, address) as opening, httpx2.AsyncClient(base_url=address, headers=bearer) as ada:
            page = await opening("#/tools")
            box = page.get_by_role("dialog", name="API key required").get_by_label("API key")
            await box.wait_for()
            await page.keyboard.type("sw_wrong_wrong")  # it has the focus
            await page.keyboard.press("Enter")
            await page.get_by_text("Key rejected").wait_for()
            await accessible(page)
            await box.fill(token)
            await page.keyboard.press("Enter")
            await page.get_by_text("get_weather").first.wait_for()
            await page.reload()
            await page.get_by_text("get_weather").first.wait_for()
            assert "sw_" not in page.url
            sid = (await ada.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
            sent = (await ada.post(f"/sessions/{sid}/messages", json={"text": "ask"})).json()
            await ada.get(f"/sessions/{sid}/stream", params={"after": sent["after"], "until": "run_end"})
            other = (await ada.post("/keys", json={"name": "grace", "role": "reader"})).json()
            reading = await page.context.new_page()
            held = streams(reading)
            await reading.goto(page.url)
            await reading.get_by_role("dialog").get_by_label("API key").fill(other["token"])
            await reading.keyboard.press("Enter")
            await shows_a_reader_only_what_is_allowed(reading, sid)
            assert all("/stream" in request.url for request in held), "two keys in view: one of them waits for the list"
            await reading.close()
            other = (await ada.post("/keys", json={"name": "grace", "role": "admin"})).json()
            await page.get_by_role("button", name="API key").click()
            await box.fill(other["token"])
            async with page.expect_request(lambda request: "wait=" in request.url):
                await page.keyboard.press("Enter")
            await ada.delete(f"/keys/{other['id']}")
            await ada.post("/sessions", json={"agent_system_id": "demo"})  # the list has changed, and is asked for
            await page.get_by_text("Key rejected").wait_for()
