"""Jobs in the console: crons are paused, delayed runs are seen, and failed reports to webhooks are sent again."""

from collections.abc import Iterator

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.browser.watched import Watched, accessible, of_server
from tests.conftest import server_beside
from tests.jobs.receiver import POLICY, SECRET, Receiver, receiving


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def shared_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("jobs")
    config = folder / "operator.yaml"
    config.write_text(POLICY, "utf-8")
    with server_beside(Settings(data=folder / "data", config=config, demo=True)) as found:
        yield found


async def test_crons_delayed_runs_and_reports_are_listed_and_changed(
    page: Watched, shared_address: str, receiver: Receiver
) -> None:
    receiver.statuses = [410, 200]
    async with httpx2.AsyncClient(base_url=shared_address, timeout=60) as client:
        cron = {"schedule": "0 7 * * mon-fri", "agent_system_id": "demo", "message": {"text": "weather at seven"}}
        await client.post("/crons", json=cron)
        sid = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
        await client.post(f"/sessions/{sid}/messages", json={"text": "weather", "after_seconds": 3600})
        await client.put("/secrets/webhook_secret", json={"value": SECRET})
        other = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
        await client.post(f"/sessions/{other}/messages", json={"text": "table", "webhook": receiver.url})
    await receiver.has(1)
    await page.goto(page.url.partition("#")[0] + "#/systems")
    await page.get_by_role("link", name="Jobs").click()
    await page.get_by_text("demo: weather at seven").wait_for()
    await page.get_by_role("heading", name="Delayed runs").wait_for()
    await page.get_by_text("1 attempt · status 410").wait_for()
    await accessible(page)
    await page.get_by_role("button", name="Pause").click()
    await page.get_by_role("button", name="Continue").wait_for()
    (stored,) = (await of_server(page, "/crons"))["crons"]
    assert (stored["enabled"], stored["message"]) == (False, {"text": "weather at seven"})
    await page.get_by_role("button", name="Send again").click()
    await page.get_by_text("delivered").wait_for()
    await receiver.has(2)
