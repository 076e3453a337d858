"""A graph of the operator's in the console: what its sub-graph returned, and the keys of its own state."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
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
async def test_the_state_tab_shows_the_keys_of_the_graph_as_its_nodes_last_wrote_them(
    new_page: Opening, shared_address: str, look: str
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
    await shown.get_by_text("320").wait_for()
    await shown.get_by_text("Reducer" if look == "german" else "reducer").wait_for()
    await accessible(page)
