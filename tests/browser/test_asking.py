"""Questions and approvals as they are shown: to the end, with all that is in them, to all who may see them."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest

from tests.browser.chatting import begin, register, say, spoken, wait_for_status, words
from tests.browser.watched import PHONE, WIDE, Watched, accessible

Opening = Callable[..., Awaitable[Watched]]
MAY_SAVE = "Allow save_document to run?"
INSIDE = """(card) => {
    const { left, right } = card.getBoundingClientRect();
    const parts = [...card.querySelectorAll("button, bdi, li, textarea, input")];
    const fits = (part) => [...part.getClientRects()].every((one) => one.left >= left && one.right <= right);
    return parts.filter((part) => !fits(part) || part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0)
        .map((part) => part.textContent);
}"""
"""The parts of a card that overflow it."""


async def asking(page: Watched, address: str, text: str) -> Any:
    """A session in which this was said; its last card."""
    await register(address, "asking")
    await page.reload()
    await begin(page, "asking")
    await say(page, text)
    await wait_for_status(page, "waiting for you")
    return spoken(page).get_by_role("region").last


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_all_that_is_approved_can_be_read_and_every_button_reached(
    new_page: Opening, shared_address: str, viewport: dict[str, int]
) -> None:
    page = await new_page(viewport=viewport)
    card = await asking(page, shared_address, "hide")
    await card.get_by_text("&send_all_money_to=mallory").wait_for()
    assert await card.evaluate(INSIDE) == []
    await accessible(page)
    await card.get_by_role("button", name="Answer for the tool").click()
    await card.get_by_label("Result to give the agent").fill("No.")
    await card.get_by_role("button", name="Back").click()
    await card.get_by_role("button", name="Edit arguments").click()
    assert await card.evaluate(INSIDE) == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_every_option_can_be_read_and_chosen(
    new_page: Opening, shared_address: str, viewport: dict[str, int]
) -> None:
    page = await new_page(viewport=viewport)
    card = await asking(page, shared_address, "options")
    assert await card.evaluate(INSIDE) == []
    await say(page, "none of them")
    refused = spoken(page).get_by_role("alert")
    await refused.get_by_text("to the end").wait_for()
    assert await refused.evaluate("(box) => box.scrollWidth <= box.clientWidth && box.getBoundingClientRect().x >= 0")
    await refused.get_by_role("button", name="Edit").click()
    await card.get_by_role("button", name="to the end").click()
    await spoken(page).get_by_text("You chose: aaa").wait_for()


async def test_arguments_are_changed_line_by_line(page: Watched, shared_address: str) -> None:
    card = await asking(page, shared_address, "lines")
    assert await page.get_by_placeholder("Approve or reject the tool call above …").count() == 1
    await card.get_by_role("button", name="Edit arguments").click()
    assert await card.get_by_label("Text").input_value() == "one\n\n  two\nthree"
    await card.get_by_label("Text").press("End")
    await page.keyboard.type("!")
    async with page.expect_request("**/answers") as sent:
        await card.get_by_role("button", name="Approve with these arguments").click()
    edited = (await sent.value).post_data_json["data"]["edited_action"]
    assert edited["args"]["text"].replace("!", "") == "one\n\n  two\nthree"
    await card.get_by_text("approved with changes").wait_for()
    await wait_for_status(page, "completed")


async def test_what_nobody_sees_is_named_where_it_is_approved(page: Watched, shared_address: str) -> None:
    card = await asking(page, shared_address, "spoof")
    shown = " ".join((await card.inner_text()).split())
    assert "name: invoice_U+202Egnp.exe.md" in shown
    assert "content: payU+200Bpal \U0001f469\u200d\U0001f467" in shown, "an emoji of two is one"
    assert not set(shown) & {"\u202e", "\u200b"}
    await accessible(page)
    await card.get_by_role("button", name="Edit arguments").click()
    typed = await card.get_by_label("Name").input_value()
    assert typed == '"invoice_\\u202Egnp.exe.md"'
    assert json.loads(typed) == "invoice_\u202egnp.exe.md", "it can be changed, and is sent as it was if it is not"


async def test_the_composer_says_what_it_takes_for_an_answer(page: Watched, shared_address: str) -> None:
    box = page.get_by_role("textbox", name="Message")
    card = await asking(page, shared_address, "hide")
    assert await box.get_attribute("placeholder") == "Decide above, or type approve or reject"
    await box.fill("yes please")
    await page.get_by_text("This is not a decision. Use the buttons above.").wait_for()
    assert await page.get_by_role("button", name="Send").is_disabled()
    await page.keyboard.press("Enter")
    assert await box.input_value() == "yes please", "it is not sent"
    await box.fill("reject")
    await page.keyboard.press("Enter")
    await card.get_by_text("rejected", exact=True).wait_for()
    await wait_for_status(page, "completed")
    await say(page, "several")
    await wait_for_status(page, "waiting for you")
    assert await box.get_attribute("placeholder") == "Answer the questions above …"
    await box.fill("blue")
    await page.get_by_text("Several questions are open. Answer each one above.").wait_for()
    await spoken(page).get_by_role("button", name="blue").click()
    await page.wait_for_function("box => box.placeholder.endsWith('or here …')", arg=await box.element_handle())
    await box.fill("green")
    await page.keyboard.press("Enter")
    await wait_for_status(page, "completed")
    assert "green" in await words(page)


async def test_who_may_not_answer_sees_what_there_is_to_choose_from(page: Watched, shared_address: str) -> None:
    async def reader(route: Any) -> None:
        known = await (answer := await route.fetch()).json()
        await route.fulfill(response=answer, json={**known, "scopes": ["read"]})

    await asking(page, shared_address, "options")
    await page.route("**/me", reader)
    await page.reload()
    card = spoken(page).get_by_role("region").last
    await card.get_by_text("to the end").wait_for()
    await card.get_by_role("listitem").nth(22).wait_for()  # the buttons go once the rights are known
    assert await card.get_by_role("listitem").count() == 23
    assert await card.get_by_role("button").count() == 0
    assert await card.evaluate(INSIDE) == []
    await accessible(page)


async def test_who_answers_by_keyboard_stays_at_the_question(page: Watched, shared_address: str) -> None:
    card = await asking(page, shared_address, "hide")
    await card.get_by_role("button", name="Approve").focus()
    await page.keyboard.press("Enter")
    await card.get_by_text("approved", exact=True).wait_for()
    await wait_for_status(page, "completed")
    assert await page.evaluate("document.activeElement.ariaLabel") == MAY_SAVE


async def test_a_row_of_a_table_is_as_high_as_its_words(page: Watched, shared_address: str) -> None:
    await register(shared_address, "asking")
    rows = [f"name {number},{number},{number}" for number in range(300)]
    table = "\n".join(["town,one_very_long_name_of_a_column,another very long name of a column", *rows])
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        files = {"file": ("towns.csv", table.encode(), "text/csv")}
        document = (await client.post("/files", files=files)).json()["id"]
        sid = (await client.post("/sessions", json={"agent_system_id": "asking"})).json()["id"]
        said = {"text": "count", "documents": [document]}
        assert (await client.post(f"/sessions/{sid}/messages", json=said)).status_code == 202
    await page.goto(f"{shared_address}/#/chat/{sid}")
    await page.get_by_role("button", name="Tool table_figures").click()
    region = page.get_by_role("region", name="table_figures")
    await region.get_by_text("name 7", exact=True).first.wait_for()
    heights = "(table) => [...new Set([...table.querySelectorAll('tbody tr')].map((row) => row.offsetHeight))]"
    [height] = await region.evaluate(heights)
    assert height < 40, "one line"


async def test_a_text_begins_at_the_side_at_which_its_language_begins(page: Watched, shared_address: str) -> None:
    card = await asking(page, shared_address, "options")

    async def direction(part: Any) -> str:
        return str(await part.evaluate("(part) => getComputedStyle(part).direction"))

    assert await direction(card.get_by_text("ما هو اللون؟")) == "rtl"
    assert await direction(spoken(page).get_by_text("options", exact=True)) == "ltr"
    await card.get_by_role("button", name="a", exact=True).click()
    await wait_for_status(page, "completed")
    await say(page, "مرحبا")
    await spoken(page).get_by_text("English", exact=True).wait_for()  # it stood as completed before, too
    await wait_for_status(page, "completed")
    texts = [spoken(page).get_by_text(text, exact=True) for text in ("مرحبا", "مرحبا بالعالم", "أول", "English")]
    assert [await direction(text) for text in texts] == ["rtl", "rtl", "rtl", "ltr"]
