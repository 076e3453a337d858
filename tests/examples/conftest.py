"""A workspace of its own for each test of the copilot; what was deployed in it ends with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.idp_tools import NODE, call


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("STELLWERK_DATA", str(tmp_path / "data"))
    if NODE:
        monkeypatch.setenv("PATH", str(Path(NODE).parent), prepend=":")
    root = tmp_path / "data" / "files" / "workspace"
    yield root
    for deployed in root.glob("deployments/[a-z]*"):
        call("undo_deployment", repository=deployed.name)
