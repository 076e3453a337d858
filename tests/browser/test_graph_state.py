"""A graph of the operator in the console: what its sub-graph returned; its state, read, at checkpoints, and changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.browser.conftest import Screenshot
from tests.browser.test_shell import Opening
from tests.browser.watched import PHONE, accessible
from tests.conftest import server_beside
from tests.runs.talking import answer, begin, rest_of_run, send

LOOKS: dict[str, dict[str, Any]] = {
    "wide": {},
    "phone": {"viewport": PHONE},
    "dark": {"color_scheme": "dark"},
    "german": {"locale": "de-DE"},
}
DESK = Path(__file__).parents[2] / "examples/own-graph/desk.py"


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server_beside(Settings(data=tmp_path_factory.mktemp("desk") / "data"), own={"desk": f"{DESK}:graph"}) as found:
        yield found


async def session_with_a_desk(address: str) -> str:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        sid = await begin(client, "desk")
        sent = await send(client, sid, "A lamp and a desk, please.")
        await rest_of_run(client, sid, sent["after"])
        given = await answer(client, sid, text="yes")
        await rest_of_run(client, sid, given["after"])
    return sid


async def test_the_call_of_a_sub_graph_shows_what_its_node_returned(new_page: Opening, shared_address: str) -> None:
    page = await new_page(f"#/chat/{await session_with_a_desk(shared_address)}")
    panel = page.get_by_role("complementary", name="Details")
    await panel.get_by_text("Returned by node pricing").wait_for()
    await panel.get_by_text("total: 320").wait_for()
    assert await panel.get_by_text("No return value.").count() == 0
    await accessible(page)


@pytest.mark.parametrize("look", LOOKS)
async def test_the_state_tab_shows_the_whole_state_of_the_graph_by_its_keys(
    new_page: Opening, shared_address: str, look: str, screenshot: Screenshot
) -> None:
    sid = await session_with_a_desk(shared_address)
    page = await new_page(f"#/chat/{sid}", **LOOKS[look])
    if look == "phone":
        await page.get_by_role("button", name="Details").click()
    await page.get_by_role("tab", name="Zustand" if look == "german" else "State").click()
    shown = page.get_by_role("tabpanel")
    for key, node in (("total", "pricing"), ("items", "pricing"), ("quoted", "quote")):
        section = shown.get_by_role("region", name=key, exact=True)
        await section.get_by_text(f"geschrieben von {node}" if look == "german" else f"written by {node}").wait_for()
    messages = shown.get_by_role("region", name="messages", exact=True)
    await messages.get_by_text("Noted: lamp, desk, 320 euros.").wait_for()
    await shown.get_by_text("320", exact=True).wait_for()
    await accessible(page)
    if look == "wide":
        await screenshot(page, "graph-state")


async def state_tab(new_page: Opening, address: str) -> tuple[Any, Any]:
    page = await new_page(f"#/chat/{await session_with_a_desk(address)}")
    await page.get_by_role("tab", name="State").click()
    shown = page.get_by_role("tabpanel")
    await shown.get_by_role("region", name="total", exact=True).wait_for()
    return page, shown


async def test_an_earlier_checkpoint_can_be_chosen(new_page: Opening, shared_address: str) -> None:
    page, shown = await state_tab(new_page, shared_address)
    choice = shown.get_by_label("Checkpoint")
    await choice.locator("option", has_text="pricing").wait_for(state="attached")
    listed = await choice.locator("option").all_inner_texts()
    assert listed[0] == "Latest"
    assert any("pricing" in one for one in listed) and any("quote" in one for one in listed)
    await shown.get_by_role("region", name="quoted").get_by_text("lamp").first.wait_for()
    [before] = [one for one in listed if "pricing" in one]
    await choice.select_option(before)
    await shown.get_by_text("Next: quote").wait_for()
    await shown.get_by_role("region", name="quoted").get_by_text("lamp").first.wait_for(state="detached")
    await accessible(page)
    await choice.select_option("Latest")
    await shown.get_by_text("The graph is at its end.").wait_for()


async def test_the_state_is_changed_with_a_form_and_the_timeline_shows_it(
    new_page: Opening, shared_address: str, screenshot: Screenshot
) -> None:
    page, shown = await state_tab(new_page, shared_address)
    await shown.get_by_role("button", name="Change …").click()
    dialog = page.get_by_role("dialog", name="Change the state")
    await dialog.get_by_role("button", name="Change state").click()
    await dialog.get_by_text("Choose at least one key.").wait_for()
    await dialog.get_by_label("Key", exact=True).select_option("total")
    assert await dialog.get_by_role("textbox", name="total").input_value() == "320"
    await dialog.get_by_role("textbox", name="total").fill("many")
    await dialog.get_by_label("Another key").select_option("quoted")
    await dialog.get_by_text("The graph has a reducer for this key").wait_for()
    await dialog.get_by_role("button", name="Add: quoted").click()
    await page.keyboard.type("chair")
    await dialog.get_by_role("button", name="Change state").click()
    await dialog.get_by_text("Enter a number.").wait_for()
    await accessible(page)
    await screenshot(page, "graph-state-change")
    await dialog.get_by_role("textbox", name="total").fill("400")
    await dialog.get_by_role("button", name="Change state").click()
    await dialog.wait_for(state="hidden")
    await shown.get_by_role("region", name="total").get_by_text("400").wait_for()
    await shown.get_by_role("region", name="total").get_by_text("changed by a user, as quote").wait_for()
    await shown.get_by_role("region", name="quoted").get_by_text("chair").wait_for()
    await page.get_by_role("tab", name="Activity").click()
    changed = page.get_by_text("State changed by a user")
    await changed.click()
    await page.get_by_role("tabpanel").get_by_text("total: 400").wait_for()
    await accessible(page)
    await page.reload()
    await page.get_by_text("State changed by a user").wait_for()


async def test_an_error_of_a_change_is_shown_and_nothing_changes(new_page: Opening, shared_address: str) -> None:
    page, shown = await state_tab(new_page, shared_address)
    await shown.get_by_role("button", name="Change …").click()
    dialog = page.get_by_role("dialog", name="Change the state")
    await dialog.get_by_label("Key", exact=True).select_option("messages")
    await dialog.get_by_role("textbox", name="messages").fill('{"no": "message"}')
    await dialog.get_by_role("button", name="Change state").click()
    await dialog.get_by_text("The graph does not accept them").wait_for()
    await accessible(page)
    await page.keyboard.press("Escape")
    await shown.get_by_text("The graph is at its end.").wait_for()


async def test_a_reader_sees_the_state_and_cannot_change_it(new_page: Opening, shared_address: str) -> None:
    async def reader(route: Any) -> None:
        known = await (answer := await route.fetch()).json()
        await route.fulfill(response=answer, json={**known, "scopes": ["read"]})

    page = await new_page()
    await page.route("**/me", reader)
    await page.goto(f"{shared_address}/#/chat/{await session_with_a_desk(shared_address)}")
    await page.reload()
    await page.get_by_text("Your key is read-only.").wait_for()
    await page.get_by_role("tab", name="State").click()
    await page.get_by_role("tabpanel").get_by_role("region", name="total").wait_for()
    assert await page.get_by_role("button", name="Change …").count() == 0


async def test_a_replay_shows_the_state_of_its_moment(new_page: Opening, shared_address: str) -> None:
    sid = await session_with_a_desk(shared_address)
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        history = (await client.get(f"/sessions/{sid}/state/history")).json()["checkpoints"]
    [then] = [one for one in history if one["node"] == "pricing"]
    page = await new_page(f"#/chat/{sid}?at={then['position'] + 1}")
    await page.get_by_text("You are viewing the past.").wait_for()
    await page.get_by_role("tab", name="State").click()
    shown = page.get_by_role("tabpanel")
    await shown.get_by_text("Next: quote").wait_for()
    assert await page.get_by_role("button", name="Change …").count() == 0
