"""Node processes with the AI SDK, one for each major version."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.app import Parts
from stellwerk.settings import Settings
from tests.conftest import server_beside, without_pauses
from tests.protocols.node import CLIENTS, Node, running

CHATS = Path(__file__).with_name("chats.yaml")
PACKAGES = {"7": ("ai", "@ai-sdk/react"), "6": ("ai-6", "@ai-sdk/react-6")}


@pytest.fixture(scope="session", params=PACKAGES)
def sdk(request: pytest.FixtureRequest) -> Iterator[Node]:
    with running(CLIENTS / "ai_sdk.mjs", *PACKAGES[request.param]) as node:
        yield node
        assert node.unhandled == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With the demo, and the system of chats.yaml."""
    settings = Settings(data=tmp_path_factory.mktemp("chats") / "data")
    with server_beside(settings, own={"chats": str(CHATS)}, parts=Parts(demo_systems=without_pauses)) as found:
        yield found
