"""Node processes with the AI SDK, one for each major version."""

from collections.abc import Iterator

import pytest

from tests.protocols.node import CLIENTS, Node, running

PACKAGES = {"7": ("ai", "@ai-sdk/react"), "6": ("ai-6", "@ai-sdk/react-6")}


@pytest.fixture(scope="session", params=PACKAGES)
def sdk(request: pytest.FixtureRequest) -> Iterator[Node]:
    with running(CLIENTS / "ai_sdk.mjs", *PACKAGES[request.param]) as node:
        yield node
        assert node.unhandled == []
