"""Reviews of LangChain's middleware and of Agent Inbox in the console: approvals with forms, not raw data."""

from collections.abc import Iterator
from typing import Any

import pytest

from stellwerk.settings import Settings
from tests.browser.chatting import SYSTEMS, begin, say, spoken, wait_for_status
from tests.browser.test_shell import Opening
from tests.browser.watched import PHONE, WIDE, Watched, accessible
from tests.conftest import server_beside

REVIEWING = SYSTEMS / "reviewing.py"


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    own = {"middleware": f"{REVIEWING}:middleware", "inbox": f"{REVIEWING}:agent_inbox"}
    with server_beside(Settings(data=tmp_path_factory.mktemp("reviews") / "data"), own=own) as found:
        yield found


async def asked(page: Watched, system: str) -> Any:
    await begin(page, system)
    await say(page, "Go")
    await wait_for_status(page, "waiting for you")
    return spoken(page).get_by_role("region", name="Allow send_mail to run?")


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_each_action_of_a_review_is_an_approval_and_its_arguments_have_a_form(
    new_page: Opening, viewport: dict[str, int]
) -> None:
    page = await new_page(viewport=viewport)
    card = await asked(page, "middleware")
    await card.get_by_text("The mail goes to a customer.").wait_for()
    assert await card.get_by_text("action_requests").count() == 0
    await accessible(page)
    await card.get_by_role("button", name="Edit arguments").click()
    assert await card.get_by_label("body").input_value() == "Dear Ann,\n\nhere it is."
    await card.get_by_label("subject").fill("Our offer")
    await card.get_by_label("to").fill("")
    await card.get_by_role("button", name="Approve with these arguments").click()
    await card.get_by_text("This field is required.").wait_for()
    await card.get_by_label("to").fill("bob@example.com")
    await accessible(page)
    async with page.expect_request("**/answers") as sent:
        await card.get_by_role("button", name="Approve with these arguments").click()
    edited = (await sent.value).post_data_json["data"]["edited_action"]["args"]
    assert edited == {
        "to": "bob@example.com",
        "subject": "Our offer",
        "body": "Dear Ann,\n\nhere it is.",
        "urgent": False,
    }
    await card.get_by_text("approved with changes").wait_for()
    other = spoken(page).get_by_role("region", name="Allow book_room to run?")
    assert await other.get_by_role("button", name="Edit arguments").count() == 0, "the graph does not allow it"
    await other.get_by_role("button", name="Reject").click()
    await other.get_by_label("Reason (optional)").fill("too small")
    await other.get_by_role("button", name="Reject").click()
    await spoken(page).get_by_text("['edit', 'reject']").wait_for()


async def test_a_review_of_agent_inbox_reads_as_it_was_written_and_takes_an_answer(page: Watched) -> None:
    card = await asked(page, "inbox")
    await card.get_by_role("heading", name="Draft").wait_for()
    await card.get_by_text("Where is the offer?").wait_for()
    await accessible(page)
    await card.get_by_role("button", name="Answer for the tool").click()
    await card.get_by_label("Result to give the agent").fill("It is sent already.")
    await card.get_by_role("button", name="Answer for the tool").click()
    await spoken(page).get_by_text("response: It is sent already.").wait_for()
    await card.get_by_text("answered for the tool").wait_for()
