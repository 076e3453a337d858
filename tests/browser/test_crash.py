"""A page in a real browser while its server is killed: no word is lost, none is said twice, and a question stays."""

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chatting import SYSTEMS, begin, say, spoken, wait_for_status, words
from tests.browser.film import SIZE, Film
from tests.browser.watched import accessible, of_server, watched
from tests.crash.process import server_process

EVENT_SOURCE = """(sid) => {
    const calls = new Map(); // by model call: what was cut off is taken back
    window.ids = [];
    new EventSource(`/sessions/${sid}/stream`).onmessage = (message) => {
        const { type, call_id, payload } = JSON.parse(message.data);
        window.ids.push(Number(message.lastEventId));
        if (type === "llm_token") calls.set(call_id, (calls.get(call_id) ?? "") + payload.text);
        if (type === "llm_end" && payload.status === "abandoned") calls.delete(call_id);
        if (type === "run_end") window.ended = [...calls.values()].join("");
    };
}"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.timeout(300)
async def test_pages_go_on_when_the_server_was_killed_in_mid_answer(browser: Any, film: Film, tmp_path: Path) -> None:
    """The console, and a page with nothing but the browser's own EventSource, which comes back by itself."""
    port = free_port()
    serves = (str(SYSTEMS / "talker.yaml"), f"traveller={SYSTEMS / 'traveller.py'}:graph")
    server = {"data": tmp_path / "data", "errors": tmp_path / "errors", "serves": serves, "port": port}
    async with watched(browser, f"http://127.0.0.1:{port}") as opening:
        with server_process(**server) as first:  # type: ignore[arg-type]
            asked = await opening()
            await begin(asked, "traveller")
            await say(asked, "I want to go away")
            await asked.get_by_label("Name").wait_for()
            page, plain = await opening(viewport=SIZE), await opening("docs")
            sid = await begin(page, "talker")
            await plain.evaluate(EVENT_SOURCE, sid)
            await film.begin(page)
            film.shell(f"Stellwerk is ready (process {first.pid})")
            await say(page, "Which stations are there?")
            await spoken(page).get_by_text("Bergedorf").wait_for()
            film.shell(f"$ kill -9 {first.pid}")
            first.kill()
            seen = await words(page)
        await page.get_by_text("Reconnecting").wait_for()
        film.shell("$ stellwerk serve")
        with server_process(**server) as second:  # type: ignore[arg-type]
            film.shell(f"Stellwerk is ready (process {second.pid}); the run goes on")
            await wait_for_status(page, "completed")
            await film.end()
            messages = (await of_server(page, f"/sessions/{sid}/messages"))["messages"]
            await plain.wait_for_function("window.ended !== undefined")
            await answer_the_form(asked)
        answer = " ".join(messages[-1]["text"].replace("**", "").split())
        shown = await words(page)
        assert "Bergedorf" in seen and shown.count(answer) == 1 and shown.count("Gotha") == 2
        heard = " ".join((await plain.evaluate("window.ended")).replace("**", "").split())
        assert heard == f"I look at the clock before I begin. {answer}"
        ids = await plain.evaluate("window.ids")
        assert ids == sorted(set(ids)), "each event once, in order"


async def answer_the_form(page: Any) -> None:
    """A validation error of the server is shown at its field."""
    form = page.get_by_role("region", name="asks")
    await form.get_by_role("button", name="Answer", exact=True).click()
    assert await form.get_by_text("This field is required.").count() == 3
    await form.get_by_label("Name").fill("Ada")
    await form.get_by_label("Age").fill("17")
    await form.get_by_label("City").fill("Ulm")
    await form.get_by_role("button", name="Answer", exact=True).click()
    await form.get_by_text("17 is less than the minimum of 18").wait_for()
    assert await form.get_by_label("Age").get_attribute("aria-invalid") == "true"
    await accessible(page)
    await form.get_by_label("Age").fill("36")
    await form.get_by_role("button", name="Answer", exact=True).click()
    await spoken(page).get_by_text("Ada, 36, goes to Ulm.").wait_for()
