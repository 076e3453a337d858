"""A server with a graph that answers, asks and fails, beside the demo."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.conftest import server_beside, without_pauses
from tests.protocols.agui.conftest import CHATS

GRAPH = Path(__file__).parent / "project/graph.py"


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of these tests, which leave nothing behind that another would see."""
    settings = Settings(data=tmp_path_factory.mktemp("langgraph") / "data", demo=True)
    with server_beside(
        settings, own={"chat": f"{GRAPH}:graph", "chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)
    ) as found:
        yield found


@pytest.fixture
def url(served: str) -> str:
    return f"{served}/langgraph"


@pytest.fixture
async def sdk(url: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=url) as made:
        yield made


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as made:
        yield made
