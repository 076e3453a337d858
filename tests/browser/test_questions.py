"""Questions and approvals in the console: answered after a reload, in another tab, too late; changed, refused."""

from typing import Any

import httpx2

from tests.browser.chatting import begin, register, say, somebody_is_faster, spoken, wait_for_status, words
from tests.browser.conftest import Screenshot
from tests.browser.watched import Watched, accessible


async def test_a_question_is_answered_after_a_reload_and_in_another_tab_it_is_seen(
    page: Watched, screenshot: Screenshot
) -> None:
    sid = await begin(page)
    await say(page, "ask")
    await page.get_by_role("button", name="blue").wait_for()
    await wait_for_status(page, "waiting for you")
    await accessible(page)
    await screenshot(page, "question")
    await page.get_by_role("textbox", name="Message").fill("a thought, not sent")
    await page.reload()
    await page.get_by_role("button", name="blue").wait_for()
    assert await page.get_by_role("textbox", name="Message").input_value() == "a thought, not sent"
    other = await page.context.new_page()
    await other.goto(page.url)
    await other.get_by_role("button", name="blue").wait_for()
    await somebody_is_faster(page, {"text": "blue"})
    await page.get_by_role("button", name="green").click()
    await spoken(page).get_by_role("alert").get_by_text("Your answer was not used. You said: “green”").wait_for()
    await accessible(page)
    for each in (page, other):
        await spoken(each).get_by_text("You answered: blue").wait_for()
        await each.get_by_role("region", name="assistant asks").get_by_text("answered", exact=True).wait_for()
    listed = page.get_by_role("complementary", name="Sessions").locator(f'a[href*="{sid}"]')
    await listed.get_by_text("completed").wait_for()
    await other.get_by_role("button", name="Delete session").click()
    await other.get_by_role("button", name="Delete", exact=True).click()
    await other.get_by_role("heading", name="Start a session").wait_for()
    await page.get_by_text("Session not found").wait_for()
    await listed.wait_for(state="detached")


async def test_a_tool_runs_as_the_user_has_changed_it_or_not_at_all(page: Watched, shared_address: str) -> None:
    await register(shared_address, "odd")
    await page.reload()
    await begin(page, "odd")
    await say(page, "weather")
    card = page.get_by_role("region", name="Allow get_weather to run?")
    await card.get_by_text("Berlin").wait_for()
    await card.get_by_text("assistant asks").wait_for()
    assert await card.get_by_text("requires approval").count() == 0, "that says no more than the heading"
    await accessible(page)
    await card.get_by_role("button", name="Edit arguments").click()
    await card.get_by_label("City").fill("Ulm")
    await card.get_by_role("button", name="Approve with these arguments").click()
    await card.get_by_text("approved with changes").wait_for()
    await spoken(page).get_by_text("It says:").wait_for()
    assert "Ulm" in await words(page)
    await say(page, "weather again")
    await card.last.get_by_role("button", name="Reject").click()
    await card.last.get_by_label("Reason (optional)").fill("it is late")
    await page.keyboard.press("Enter")
    await card.last.get_by_text("rejected").wait_for()
    assert await card.last.get_by_text("it is late").count() == 1
    await wait_for_status(page, "completed")
    await say(page, "weather once more")
    await somebody_is_faster(page, {"refused": True})
    await card.last.get_by_role("button", name="Edit arguments").click()
    await card.last.get_by_role("button", name="Approve with these arguments").click()
    await card.last.get_by_text("Your answer was not used. Your decision: approved.").wait_for()
    await card.last.get_by_text("rejected", exact=True).wait_for()
    await wait_for_status(page, "completed")


async def test_whoever_approves_is_told_why_he_is_asked(page: Watched, shared_address: str) -> None:
    await register(shared_address, "odd")
    await page.reload()
    sid = await begin(page, "odd")
    await say(page, "keep it")
    card = page.get_by_role("region", name="Allow save_document to run?")
    why = "assistant has read what others may have written (list_documents), so this call needs your approval"
    await card.get_by_text(why, exact=True).wait_for()
    await card.get_by_text("It is *kept*.").wait_for()
    await accessible(page)

    async def too_many(route: Any) -> None:
        await route.fulfill(status=429, content_type="application/problem+json", body='{"code": "too_many_requests"}')

    await page.route("**/answers", too_many, times=1)
    async with page.expect_response("**/answers"):
        await card.get_by_role("button", name="Approve").click()
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as elsewhere:
        answer = await elsewhere.post(f"/sessions/{sid}/answers", json={"data": {"type": "approve"}})
        assert answer.status_code == 202, answer.text
    await card.get_by_text("approved", exact=True).wait_for()
    await card.get_by_text(why, exact=True).wait_for()
    await spoken(page).get_by_text("This came of it:").wait_for()
    assert await spoken(page).get_by_text("Your answer was not used").count() == 0, "no other answer came first"
