"""Graphs that want more than a text: forms from their schemas, errors at fields, and graphs that cannot be used."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.settings import Settings
from tests.browser.chatting import SYSTEMS, spoken, wait_for_status
from tests.browser.conftest import Screenshot
from tests.browser.test_shell import Opening
from tests.browser.watched import PHONE, Watched, accessible
from tests.conftest import server_beside

TRIP = Path(__file__).parents[2] / "examples/own-graph/trip.py"
REVIEWING = SYSTEMS / "reviewing.py"
LOOKS: dict[str, dict[str, Any]] = {"wide": {}, "phone": {"viewport": PHONE}, "dark": {"color_scheme": "dark"}}
WITHIN = "(form) => form.scrollWidth <= form.clientWidth && form.getBoundingClientRect().height <= innerHeight"


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("input")
    broken = folder / "broken.py"
    broken.write_text("import no_such_package\n", "utf-8")
    own = {
        "trip": f"{TRIP}:graph",
        "both": f"{REVIEWING}:both",
        "chat": f"{REVIEWING}:only_chat",
        "broken": f"{broken}:graph",
    }
    with server_beside(Settings(data=folder / "data"), own=own) as found:
        yield found


async def begin(page: Watched, system: str) -> str:
    await page.goto(page.url.partition("#")[0] + "#/")
    await page.get_by_role("button", name=f"Start with {system}").click()
    await page.get_by_role("heading", name=f"Session with {system}").wait_for()
    return str(page.url.rpartition("/")[2])


def fields(page: Watched) -> Any:
    return page.get_by_role("region", name="Fields of the message")


async def fill_trip(page: Watched) -> None:
    form = fields(page)
    await form.get_by_label("Origin").fill("Ulm")
    await form.get_by_label("Destination").fill("Rome")
    await form.get_by_label("Days").fill("3")


@pytest.mark.parametrize("look", LOOKS)
async def test_a_graph_with_structured_input_has_a_form_in_place_of_the_input_box(
    new_page: Opening, look: str, screenshot: Screenshot
) -> None:
    page = await new_page(**LOOKS[look])
    await begin(page, "trip")
    form = fields(page)
    await form.get_by_label("Origin").wait_for()
    assert await page.get_by_role("textbox", name="Message", exact=True).count() == 0
    assert await page.get_by_role("button", name="Attach files").count() == 0
    assert await form.get_by_text("required").count() == 4, "origin, destination, days, and the amount of a budget"
    await page.get_by_role("button", name="Send", exact=True).click()
    await form.get_by_text("This field is required.").first.wait_for()
    assert await form.get_by_text("This field is required.").count() == 3
    await page.wait_for_function("document.activeElement.labels?.[0]?.innerText.startsWith('origin')")
    await fill_trip(page)
    await form.get_by_label("Style").select_option("comfortable")
    await form.get_by_role("button", name="Add: Travellers").click()
    await page.keyboard.type("Ada")  # the new item has the focus
    await form.get_by_label("Age").fill("36")
    await accessible(page)
    assert await form.evaluate(WITHIN)
    await screenshot(page, {"wide": "graph-input", "phone": "graph-input-phone", "dark": "graph-input-dark"}[look])
    await page.get_by_role("button", name="Send", exact=True).click()
    await wait_for_status(page, "completed")
    said = spoken(page)
    await said.get_by_text("Ulm – Rome by train").wait_for()
    await said.get_by_text("420").wait_for()
    await said.get_by_text("destination: Rome").wait_for()
    await accessible(page)
    await page.reload()
    await page.get_by_role("button", name="New input").click()  # it does not cover the answer
    values = [await form.get_by_label(label).input_value() for label in ("Origin", "Days", "Style", "Age")]
    assert values == ["Ulm", "3", "1", "36"], "the form keeps what was sent last"


async def test_in_another_tab_the_form_begins_with_the_last_values_of_the_log(new_page: Opening) -> None:
    page = await new_page()
    sid = await begin(page, "trip")
    await fill_trip(page)
    await page.keyboard.press("Enter")
    await wait_for_status(page, "completed")
    other = await new_page(f"#/chat/{sid}")
    await spoken(other).get_by_text("Ulm – Rome by train").wait_for()
    await other.get_by_role("button", name="New input").click()
    assert await fields(other).get_by_label("Destination").input_value() == "Rome"
    await fields(other).get_by_role("button", name="Clear fields").click()
    assert await fields(other).get_by_label("Destination").input_value() == ""


async def test_an_error_of_the_server_is_shown_at_its_field(page: Watched) -> None:
    await begin(page, "trip")
    form = fields(page)
    await fill_trip(page)
    await form.get_by_label("Days").fill("99")
    await form.get_by_label("Wishes").fill('{"sea": tru')
    await form.get_by_label("Days").click()
    await form.get_by_text("Enter valid JSON.").wait_for()
    await form.get_by_label("Wishes").fill('{"sea": true}')
    await form.get_by_text("Enter valid JSON.").wait_for(state="detached")
    await form.get_by_label("Days").press("Enter")
    await form.get_by_text("Input should be less than or equal to 30").wait_for()
    await page.wait_for_function("document.activeElement.labels?.[0]?.innerText.startsWith('days')")
    assert await form.get_by_label("Days").get_attribute("aria-invalid") == "true"
    assert await spoken(page).get_by_role("alert").count() == 0, "it is said once, at the field"
    await accessible(page)
    await form.get_by_label("Days").fill("2")
    await form.get_by_label("Days").press("Enter")
    await wait_for_status(page, "completed")
    await spoken(page).get_by_text("sea: true").wait_for()
    await page.get_by_role("button", name="New input").click()
    assert await form.get_by_label("Days").get_attribute("aria-invalid") is None


async def test_a_file_is_put_into_json_as_a_content_block_where_the_cursor_is(page: Watched) -> None:
    await begin(page, "trip")
    await fill_trip(page)
    form = fields(page)
    await form.get_by_label("Wishes").fill('{"photo": }')
    await form.get_by_label("Wishes").press("ArrowLeft")
    choose = form.locator("input[type=file]").first
    await choose.set_input_files({"name": "large.png", "mimeType": "image/png", "buffer": b"x" * 100_000})
    await form.get_by_role("alert").get_by_text("large.png is larger than 90 kB").wait_for()
    await choose.set_input_files({"name": "dot.png", "mimeType": "image/png", "buffer": b"\x00\xff\x41"})
    await form.get_by_role("alert").wait_for(state="detached")
    block = '{"type":"image","base64":"AP9B","mime_type":"image/png"}'
    assert await form.get_by_label("Wishes").input_value() == f'{{"photo": {block}}}'
    await accessible(page)
    await page.get_by_role("button", name="Send", exact=True).click()
    await wait_for_status(page, "completed")


async def test_context_and_config_are_folded_away_and_sent_along(page: Watched) -> None:
    await begin(page, "trip")
    await fill_trip(page)
    form = fields(page)
    assert await form.get_by_label("language").count() == 0
    await page.get_by_role("button", name="More").click()
    await form.get_by_label("language").select_option("German")
    await form.get_by_label("recursion_limit").fill("0")
    await accessible(page)
    await page.get_by_role("button", name="Send", exact=True).click()
    await form.get_by_text("This must be 1 or more").wait_for()
    await form.get_by_label("recursion_limit").fill("20")
    await page.get_by_role("button", name="Send", exact=True).click()
    await wait_for_status(page, "completed")
    await spoken(page).get_by_text("mit der Bahn").wait_for()
    await spoken(page).get_by_text("Context:").wait_for()
    await page.get_by_role("button", name="New input").click()
    await page.get_by_role("button", name="More 2 sent along").click()
    assert await form.get_by_label("language").count() == 0


async def test_a_graph_that_takes_a_text_and_fields_offers_both(page: Watched) -> None:
    await begin(page, "both")
    box = page.get_by_role("textbox", name="Message", exact=True)
    await page.get_by_role("button", name="More").click()
    await fields(page).get_by_label("tone").select_option("formal")
    await fields(page).get_by_role("group", name="Input").get_by_role("button", name="Add: tags").click()
    await page.keyboard.type("urgent")
    await page.get_by_role("button", name="More").click()
    await box.fill("Hello")
    await box.press("Enter")
    await spoken(page).get_by_text("Hello, formal, urgent").wait_for()
    await spoken(page).get_by_text("tone: formal").wait_for()
    await wait_for_status(page, "completed")
    assert await box.input_value() == ""


async def test_a_graph_that_takes_only_a_message_keeps_the_plain_input_box(page: Watched) -> None:
    await begin(page, "chat")
    box = page.get_by_role("textbox", name="Message", exact=True)
    await box.fill("Hello")
    assert await fields(page).count() == 0
    await box.press("Enter")
    await spoken(page).get_by_text("Hello, None,").wait_for()


@pytest.mark.parametrize("look", LOOKS)
async def test_a_graph_that_cannot_be_used_is_listed_with_its_reason(new_page: Opening, look: str) -> None:
    page = await new_page(**LOOKS[look])
    card = page.get_by_role("link", name="broken cannot be used")
    await card.get_by_text("No module named 'no_such_package'").wait_for()
    assert await page.get_by_role("button", name="Start with broken").count() == 0
    await accessible(page)
    await page.goto(page.url.partition("#")[0] + "#/systems")
    await page.get_by_role("link", name="broken").get_by_text("No module named 'no_such_package'").wait_for()
    await accessible(page)
    await page.get_by_role("link", name="broken").click()
    await page.get_by_text("This system cannot be built right now").wait_for()
    await page.get_by_text("Fix this, then restart the server.").wait_for()
    await accessible(page)
