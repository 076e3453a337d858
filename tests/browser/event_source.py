"""A page in a real browser: its EventSource comes back by itself, and it shows each word once.

Not part of ``make test``, because it needs a browser: ``make browser``.
"""

import shutil
import socket
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Page, async_playwright

from tests.crash.process import server_process
from tests.runs.talking import begin, events, send

PAGE = """
(sid) => {
    const words = window.words = new Map();  // by model call: what was cut off is taken back
    window.ids = [];
    const source = new EventSource(`/sessions/${sid}/stream`);
    source.onmessage = (message) => {
        const event = JSON.parse(message.data);
        window.ids.push(Number(message.lastEventId));
        if (event.type === "llm_token")
            words.set(event.call_id, (words.get(event.call_id) ?? "") + event.payload.text);
        if (event.type === "llm_end" && event.payload.status === "abandoned") words.delete(event.call_id);
        document.body.textContent = [...words.values()].join("");
        if (event.type === "run_end") document.title = event.payload.status;
    };
}
"""


async def shown(page: Page) -> str:
    return str(await page.evaluate("document.body.textContent"))


async def test_a_page_goes_on_when_the_server_was_killed_and_started_again(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data, errors = tmp_path / "data", tmp_path / "errors"
    async with async_playwright() as playwright:
        chromium = shutil.which("chromium")
        if chromium is None:
            pytest.fail("there is no chromium; install Debian's package of that name")
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = await browser.new_page()
        with server_process(data, errors=errors, port=port) as server:
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                sid = await begin(client)
                await send(client, sid, "slow")
            await page.goto(f"{server.address}/docs")
            await page.evaluate(PAGE, sid)
            await page.wait_for_function("document.body.textContent.includes('reload the page')", timeout=60_000)
            server.kill()
        before = await shown(page)
        with server_process(data, errors=errors, port=port) as server:
            await page.wait_for_function("document.title === 'completed'", timeout=90_000)
            async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
                told = await events(client, sid)
        text, ids = await shown(page), await page.evaluate("window.ids")
        await page.screenshot(path=str(tmp_path / "page.png"))
        await browser.close()
    assert text == told[-1]["payload"]["result"] or text.endswith(told[-1]["payload"]["result"])
    assert "reload the page" in before and text.count("reload the page") == 1
    assert ids == sorted(set(ids)), "each event once, in order"
