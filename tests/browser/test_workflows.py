"""Workflows in the console: started with files, watched, answered, stopped, gone on with, downloaded, deleted."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from stellwerk.workflows.documents.writers import write_document
from tests.browser.chatting import somebody_is_faster
from tests.browser.conftest import Screenshot
from tests.browser.logs import spoken
from tests.browser.watched import PHONE, Watched, accessible, of_server
from tests.documents.made import locked_pdf, pdf

Opening = Callable[..., Awaitable[Watched]]
TABLE = "city,amount\nBerlin,3\nBonn,4.5\n"
DROPPED = """() => {
    const carried = new DataTransfer();
    carried.items.add(new File(["They were good, too."], "dropped.txt"));
    return carried;
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    made = {
        "sales.xlsx": write_document("sales.xlsx", TABLE).data,
        "notes.pdf": pdf("The sales of May were good."),
        "locked.pdf": locked_pdf(),
        "huge.bin": bytes(26 * 1024 * 1024),
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return {name: folder / name for name in made}


def id_of(page: Watched) -> str:
    return str(page.url.rpartition("/")[2])


async def start(page: Watched, wish: str, *chosen: Path) -> None:
    """Starts a workflow by hand, from the list."""
    await page.goto(page.url.partition("#")[0] + "#/workflows")
    await page.get_by_role("link", name="Start a workflow").first.click()
    await page.get_by_label("What do you need?").fill(wish)
    await page.get_by_label("Choose files").set_input_files(chosen)
    await page.get_by_role("button", name="Start", exact=True).click()
    await page.get_by_role("heading", level=1, name=wish[:40]).wait_for()


async def standing(page: Watched, word: str) -> None:
    await page.locator("header", has=page.locator("h1")).get_by_text(word, exact=True).wait_for()


def task(page: Watched, text: str) -> Any:
    return page.get_by_role("list", name="Tasks").get_by_role("listitem").filter(has_text=text)


async def downloaded(page: Watched, name: str) -> bytes:
    async with page.expect_download() as coming:
        await page.get_by_role("list", name="Results").get_by_role("button", name=f"Download {name}").click()
    download = await coming.value
    assert download.suggested_filename == name
    return content_of(await download.path())


def content_of(path: Path) -> bytes:
    return path.read_bytes()


async def test_two_files_become_a_report_that_is_downloaded(
    page: Watched, files: dict[str, Path], screenshot: Screenshot
) -> None:
    await start(page, "Write a report on the sales", files["sales.xlsx"], files["notes.pdf"])
    await task(page, "Work out the figures").get_by_text("done").wait_for()
    await standing(page, "completed")
    await page.locator("[role=progressbar][aria-valuenow='100']").wait_for()
    workflow = await of_server(page, f"/api/workflows/{id_of(page)}")
    said = page.get_by_role("list", name="Messages").locator("> li")
    await said.nth(len(workflow["messages"]) - 1).wait_for()
    assert await said.count() == len(workflow["messages"]), "each message once"
    lines = await page.get_by_role("region", name="Log").get_by_role("listitem").all_text_contents()
    assert all(line["message"] in shown for line, shown in zip(workflow["logs"], reversed(lines), strict=True))
    await accessible(page)
    await screenshot(page, "workflow")
    made = {f"{one['name']}.{one['ext']}": one for said in workflow["messages"][1:] for one in said["documents"]}
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(page.url))
    async with httpx2.AsyncClient(base_url=origin, timeout=60) as client:
        for name in ("report.md", "report.docx"):
            assert await downloaded(page, name) == (await client.get(made[name]["dataUrl"])).content
        await spoken(client, "a chat on the same server")
    await page.get_by_role("navigation").get_by_role("link", name="Workflows").click()
    async with page.expect_response(lambda answer: answer.url.endswith("?limit=51&chats=false")) as polled:
        pass
    assert "if-none-match" in await (await polled.value).request.all_headers(), "what has not changed is not sent again"
    row = page.get_by_role("row").filter(has_text="Write a report on the sales")
    await row.get_by_text("completed").wait_for()
    assert await page.get_by_role("row").filter(has_text="a chat on").count() == 0, "that is no workflow"
    await accessible(page)
    await screenshot(page, "workflows")
    await row.get_by_role("link").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await accessible(page)
    await page.get_by_role("button", name="Delete permanently").click()
    await page.get_by_role("heading", level=1, name="Workflows").wait_for()
    await row.wait_for(state="detached")
    assert workflow["id"] not in [one["id"] for one in await of_server(page, "/api/workflows")]


async def test_a_workflow_that_is_stopped_goes_on_in_another_round(page: Watched, files: dict[str, Path]) -> None:
    await start(page, "Take it slow, and write a report", files["sales.xlsx"], files["locked.pdf"])
    await task(page, "Take it slow").get_by_text("running").wait_for()
    await page.reload()  # in the middle: it goes on, and nothing is shown twice
    await task(page, "Take it slow").get_by_text("running").wait_for()
    await task(page, "Write a report").get_by_text("waiting").wait_for()
    await page.get_by_text("is protected by a password").first.wait_for()
    said = page.get_by_role("list", name="Messages").get_by_text("This takes half a minute")
    await said.wait_for()
    assert await said.count() == 1
    await page.get_by_role("button", name="Stop").click()
    await standing(page, "stopped")
    await task(page, "Write a report").get_by_text("not done").wait_for()
    await page.get_by_label("What next?").fill("Write a report, and ask me")
    await page.get_by_role("button", name="Continue").click()
    await standing(page, "Round 2")
    box = page.get_by_label("Which title shall the report have?")
    await box.wait_for()
    await page.reload()
    await box.wait_for()
    await accessible(page)
    await box.fill("Sales of June")
    await somebody_is_faster(page, {"text": "Sales of May"})
    await page.get_by_role("button", name="Answer").click()
    await page.get_by_text("Your answer was not used. You said: “Sales of June”").first.wait_for()
    await standing(page, "completed")
    assert (await downloaded(page, "report.md")).startswith(b"# Sales of May")
    await page.get_by_label("What next?").fill("*Now* let it fail")
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("list", name="Messages").get_by_text("*Now* let it fail", exact=True).wait_for()
    await page.get_by_text("Completed, but 1 of 2 tasks failed.").wait_for()
    await standing(page, "1 task failed")
    await accessible(page)
    await page.get_by_role("link", name="Workflows").first.click()
    await page.get_by_role("row").filter(has_text="completed").filter(has_text="1 task failed").first.wait_for()


async def test_a_file_that_is_refused_says_why_and_the_others_are_taken(
    new_page: Opening, files: dict[str, Path], screenshot: Screenshot
) -> None:
    page = await new_page("#/workflows/new", viewport=PHONE, locale="de-DE", color_scheme="dark")
    await page.get_by_label("Dateien auswählen").set_input_files([files["huge.bin"], files["notes.pdf"]])
    dropped = await page.evaluate_handle(DROPPED)
    await page.get_by_text("oder hier ablegen").dispatch_event("drop", {"dataTransfer": dropped})
    await page.get_by_text("Abgelehnt:").wait_for()
    listed = page.get_by_role("list", name="Dateien").get_by_role("listitem")
    assert "größer, als dieser Server zulässt" in await listed.filter(has_text="huge.bin").inner_text()
    await accessible(page)
    await page.get_by_role("textbox").fill("What do they say?")
    await page.get_by_label("Sprache der Antwort").select_option("Deutsch")
    await screenshot(page, "workflow-phone")
    await page.get_by_role("textbox").press("Control+Enter")
    await standing(page, "fertig")
    await page.get_by_role("list", name="Ergebnisse").get_by_role("button", name="bericht.md").wait_for()
    await accessible(page)
    overflow = await page.evaluate("(main) => main.scrollWidth - main.clientWidth", await page.query_selector("main"))
    assert overflow <= 0, "nothing overflows sideways"
    workflow = await of_server(page, f"/api/workflows/{id_of(page)}")
    assert [one["name"] for one in workflow["messages"][0]["documents"]] == ["notes", "dropped"]
