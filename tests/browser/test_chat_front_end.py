"""The page of examples/chat-front-end, opened in a browser from the server that it is mounted in."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.browser.watched import watched
from tests.forked import FOURTH, Forked, surroundings

EXAMPLE = Path(__file__).parents[2] / "examples/chat-front-end"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The app of the example's serve.py, served by uvicorn in a process of its own."""
    uvicorn = ["--app-dir", str(EXAMPLE), "serve:app", "--fd", str(FOURTH), "--log-level", "warning"]
    around = {**surroundings(), "STELLWERK_DATA": str(tmp_path / "data")}
    with (
        socket.socket() as listening,
        open(os.devnull, "r+b") as nothing,
        (tmp_path / "errors").open("wb") as errors,
    ):
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # a client that connects before it is ready waits
        files = [file.fileno() for file in (nothing, nothing, errors, listening)]
        process = Forked(uvicorn, files=files, cwd=tmp_path, environment=around, module="uvicorn")
        found = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield found
    finally:
        process.kill()
        process.wait()


async def test_the_example_page_runs_in_a_browser_and_shows_the_answer_to_what_is_typed(
    browser: object, address: str
) -> None:
    async with watched(browser, address) as opening:
        page = await opening("chat/")
        await page.get_by_placeholder("Type weather").fill("weather")
        await page.get_by_role("button", name="Send").click()
        await page.locator(".answer .text").filter(has_text="It is sunny.").wait_for()
        assert await page.locator(".user").inner_text() == "weather"
        assert any("get_weather" in step for step in await page.locator(".answer .activity").all_inner_texts())


async def test_the_example_page_answers_a_question_of_the_agent_in_the_same_session(
    browser: object, address: str
) -> None:
    async with watched(browser, address) as opening:
        page = await opening("chat/")
        for text, shown in {"ask": "Which colour do you like?", "blue": "You answered: blue"}.items():
            await page.get_by_placeholder("Type weather").fill(text)
            await page.get_by_role("button", name="Send").click()
            await page.locator(".answer .text").filter(has_text=shown).wait_for()
        async with httpx2.AsyncClient(base_url=address) as client:
            (session,) = (await client.get("/sessions")).json()["sessions"]
        assert (session["round"], session["status"]) == (2, "completed")
