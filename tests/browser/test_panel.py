"""The panel next to the conversation: calls, tasks, files, progress and usage of the demo system."""

import base64
import csv
import io
from asyncio import to_thread
from pathlib import Path

import httpx2
import pytest

from tests.browser.test_shell import Opening
from tests.browser.watched import PHONE, Watched, accessible
from tests.runs.talking import begin, rest_of_run, send

DOT = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGPgTioGAAFcAOEwhXtBAAAAAElFTkSuQmCC")


async def session_that_said(address: str, *words: str, image: bytes = b"") -> str:
    """A session in which all this was said, each in a round of its own, with an image beside it."""
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        sid = await begin(client)
        files = {"file": ("dot.png", image, "image/png")}
        documents = [(await client.post("/files", files=files)).json()["id"]] if image else []
        for word in words:
            sent = await send(client, sid, word, documents=documents)
            await rest_of_run(client, sid, sent["after"])
    return sid


@pytest.mark.requirement("001.frontend.tool-activity-rendered", "002.adapter.nested-calls-can-be-rendered")
async def test_the_calls_of_an_agent_are_inside_it_and_unfold_by_the_keyboard(
    new_page: Opening, shared_address: str
) -> None:
    sid = await session_that_said(shared_address, "delegate: what is the time?")
    page = await new_page(f"#/chat/{sid}")
    panel = page.get_by_role("complementary", name="Details")
    researcher = panel.get_by_role("button", name="Agent researcher")
    await researcher.wait_for()
    inner = panel.get_by_role("button", name="level 2, Tool count_words")
    await inner.wait_for()
    await researcher.focus()
    await page.keyboard.press("ArrowLeft")
    await inner.wait_for(state="hidden")
    await page.keyboard.press("ArrowRight")
    await inner.wait_for()
    await walked(page, "ArrowDown", "count_words")
    await page.keyboard.press("Enter")
    await panel.get_by_text("characters: ").wait_for()
    await accessible(page)
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    assert "researcher" in await page.evaluate("document.activeElement.textContent"), "left leads to the one around"
    assert "tokens" in str(await panel.get_by_role("button", name="Round 1").text_content())
    link = panel.get_by_role("link", name="Events of count_words")
    assert f"#/events/{sid}?at=" in str(await link.get_attribute("href"))


async def walked(page: Watched, key: str, name: str) -> None:
    """Presses the key until what has the focus is called so."""
    for _ in range(30):
        if name in await page.evaluate("document.activeElement.textContent"):
            return
        await page.keyboard.press(key)
    pytest.fail(f"{key} does not lead to {name}")


async def test_a_table_is_sorted_and_taken_along_as_csv(page: Watched, shared_address: str) -> None:
    sid = await session_that_said(shared_address, "table")
    await page.goto(f"{shared_address}/#/chat/{sid}")
    await page.get_by_role("button", name="Tool make_table").click()
    table = page.get_by_role("region", name="make_table")
    first = table.locator("tbody tr").first
    await page.get_by_role("button", name="inhabitants").click()
    await first.get_by_text("Utrecht").wait_for()
    await page.get_by_role("button", name="inhabitants").click()
    await first.get_by_text("Berlin").wait_for()
    assert await table.get_by_role("columnheader", name="inhabitants").get_attribute("aria-sort") == "descending"
    await accessible(page)
    rows = list(csv.reader(io.StringIO(await saved(page, "Download CSV"))))
    assert rows[0] == ["town", "country", "inhabitants"]
    assert rows[1] == ["Berlin", "Germany", "3878000"], "in the order that is shown"
    assert len(rows) == 6


async def saved(page: Watched, button: str) -> str:
    """What a button gives the browser to keep."""
    async with page.expect_download() as awaited:
        await page.get_by_role("button", name=button).click()
    path = await (await awaited.value).path()
    return await to_thread(Path(path).read_text, "utf-8-sig")


async def test_tasks_files_and_usage_have_views_of_their_own(new_page: Opening, shared_address: str) -> None:
    sid = await session_that_said(shared_address, "plan", "write a file", image=DOT)
    page = await new_page(f"#/chat/{sid}")
    await page.get_by_role("tab", name="Tasks 2/2").click()
    await page.get_by_text("2 of 2 tasks done").wait_for()
    assert await page.get_by_role("progressbar").count() == 0, "the round is over"
    await accessible(page)
    await page.get_by_role("tab", name="Files 2").click()
    await page.get_by_role("button", name="Preview report.md").click()
    report = page.get_by_role("region", name="report.md")
    await report.get_by_role("heading", name="Report").wait_for()
    assert (await saved(page, "Download report.md")).startswith("# Report\n\nYou said: write a file\n")
    await page.get_by_role("button", name="Preview dot.png").click()
    await page.get_by_role("img", name="dot.png").and_(page.locator("img[src^='data:image/png']")).wait_for()
    await page.get_by_role("button", name="Preview todolist.md").click()
    await page.get_by_role("region", name="todolist.md").get_by_text("Look at the weather").wait_for()
    await accessible(page)
    await page.get_by_role("tab", name="Usage").click()
    await page.get_by_role("cell", name="scripted").wait_for()
    await page.get_by_role("link", name="Events of Usage").click()
    await page.get_by_role("listbox").get_by_role("option").filter(has_text="llm_end").first.wait_for()
    await page.go_back()
    await page.get_by_role("tab", name="Files 2").click()
    await page.get_by_role("link", name="Events of dot.png").click()
    await page.get_by_role("listbox").get_by_role("option").filter(has_text="dot.png").first.wait_for()
    await page.go_back()
    phone = await new_page(f"#/chat/{sid}", viewport=PHONE, color_scheme="dark")
    await phone.get_by_role("button", name="Details").click()
    await phone.get_by_role("dialog").get_by_role("tab", name="Files").click()
    await phone.get_by_role("dialog").get_by_text("report.md").wait_for()
    await accessible(phone)
    for empty, word in {"State": "No plan or state", "Log": "No progress reports"}.items():
        await page.get_by_role("tab", name=empty).click()
        await page.get_by_text(word).wait_for()
        await accessible(page)


async def test_a_run_that_fails_says_why(page: Watched, shared_address: str) -> None:
    sid = await session_that_said(shared_address, "fail")
    await page.goto(f"{shared_address}/#/chat/{sid}")
    panel = page.get_by_role("complementary", name="Details")
    await panel.get_by_text("Error: the script of the demo says that this run fails").wait_for()
    await panel.get_by_role("button", name="Model scripted").get_by_text("failed").wait_for()
    await accessible(page)


async def test_an_image_that_the_model_does_not_get_is_named_below_its_message(
    new_page: Opening, shared_address: str
) -> None:
    page = await new_page(f"#/chat/{await session_that_said(shared_address, 'look', image=DOT)}")
    await page.get_by_label("Conversation").get_by_text("The model is not shown dot.png").wait_for()
    await accessible(page)
