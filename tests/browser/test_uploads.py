"""Files in the console: dropped, attached, removed, lost on leaving the page, and downloaded."""

import asyncio
from pathlib import Path
from typing import Any

from tests.browser.chatting import begin, downloaded, say, spoken, wait_for_status, words
from tests.browser.watched import Watched, accessible

DROPPED = """() => {
    const files = new DataTransfer();
    files.items.add(new File(["dropped here"], "dropped.txt", { type: "text/plain" }));
    const event = new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true });
    return document.body.dispatchEvent(event); // true: the browser would do what it always does
}"""


async def drop(page: Watched, path: Path, place: Any) -> None:
    """Drops a file from outside the browser."""
    devtools = await page.context.new_cdp_session(page)
    box = await place.bounding_box()
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for step in ("dragEnter", "dragOver", "drop"):
        await devtools.send("Input.dispatchDragEvent", {"type": step, **where, "data": data})


async def test_files_are_dropped_sent_and_downloaded(page: Watched, tmp_path: Path) -> None:
    await begin(page)
    assert not await page.evaluate(DROPPED)
    await page.get_by_role("button", name="Remove dropped.txt").wait_for()
    (tmp_path / "chosen.txt").write_text("chosen here", "utf-8")
    await page.locator("input[type=file]").set_input_files(tmp_path / "chosen.txt")
    await page.get_by_role("button", name="Remove chosen.txt").wait_for()
    await page.reload()
    await page.get_by_role("button", name="Remove dropped.txt").click()
    await say(page, "hello")
    await wait_for_status(page, "completed")
    assert await downloaded(page, "chosen.txt") == "chosen here"
    assert "dropped.txt" not in await words(page)
    await page.goto(page.url.partition("#")[0] + "#/tools")
    await page.get_by_role("searchbox").wait_for()
    assert not await page.evaluate(DROPPED), "it does not take the place of the console"


async def test_a_message_is_sent_by_itself_when_its_files_are_there(page: Watched, tmp_path: Path) -> None:
    await begin(page)
    (tmp_path / "chosen.txt").write_text("chosen here", "utf-8")
    arrived = asyncio.Event()

    async def held(route: Any) -> None:
        await arrived.wait()
        await route.continue_()

    await page.route("**/files", held)
    session = page.url
    await page.evaluate(DROPPED)
    await page.get_by_text("Uploading dropped.txt").wait_for()
    await page.get_by_role("link", name="Tools").click()
    await page.get_by_role("searchbox").wait_for()
    await page.goto(session)
    waits = page.get_by_text("Your message is sent when the uploads are complete.")
    assert await waits.count() == 0, "nothing was sent"
    await page.get_by_role("textbox", name="Message").press("Enter")  # a file says enough
    await waits.wait_for()
    await page.locator("input[type=file]").set_input_files(tmp_path / "chosen.txt")
    await page.get_by_role("button", name="Cancel the upload of chosen.txt").press("Enter")
    await page.get_by_text("Uploading chosen.txt").wait_for(state="detached")
    assert await page.get_by_role("textbox", name="Message").evaluate("box => box === document.activeElement")
    assert await waits.count() == 0, "removing a file cancels the sending"
    await page.keyboard.press("Enter")
    await waits.wait_for()
    await accessible(page)
    await page.get_by_role("link", name="Tools").click()
    await page.get_by_role("searchbox").wait_for()
    async with page.expect_response("**/messages"):
        arrived.set()
    await page.goto(session)
    await spoken(page).get_by_text("You said “[attached dropped.txt").wait_for()
    assert await page.get_by_role("button", name="chosen.txt").count() == 0, "it was taken away"
    assert await downloaded(page, "dropped.txt") == "dropped here"


async def test_whoever_leaves_while_a_file_is_under_way_is_asked(page: Watched) -> None:
    await begin(page)
    never = asyncio.Event()

    async def held(route: Any) -> None:
        await never.wait()
        await route.abort()

    await page.route("**/files", held)
    await page.get_by_role("textbox", name="Message").press(
        "a"
    )  # the browser shows the prompt only after an interaction
    await page.evaluate(DROPPED)
    await page.get_by_text("Uploading dropped.txt").wait_for()
    asked: list[str] = []

    async def stay(dialog: Any) -> None:
        asked.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    async with page.expect_event("dialog"):
        await page.evaluate("setTimeout(() => location.reload())")
    await page.get_by_role("button", name="Cancel the upload of dropped.txt").click()
    assert asked == ["beforeunload"]
    await page.get_by_text("Uploading dropped.txt").wait_for(state="detached")
    never.set()
    async with page.expect_event("load"):
        await page.evaluate("setTimeout(() => location.reload())")
    assert asked == ["beforeunload"], "there is nothing to lose"


async def test_a_folder_that_is_dropped_is_called_one(page: Watched, tmp_path: Path) -> None:
    await begin(page)
    await drop(page, tmp_path, page.get_by_role("textbox", name="Message"))
    await page.get_by_role("alert").get_by_text(f"{tmp_path.name}: This is a folder").wait_for()
    await page.goto(page.url.partition("#")[0] + "#/workflows/new")
    await drop(page, tmp_path, page.get_by_text("or drop them here"))
    await page.get_by_role("listitem").get_by_text("Rejected: This is a folder").wait_for()
