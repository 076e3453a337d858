"""On SQLite a server is alone: what is for several nodes is refused."""

from pathlib import Path

import pytest

from tests.forked import completed

pytestmark = pytest.mark.only_sqlite


@pytest.mark.parametrize("option", [("--role", "worker"), ("--workers", "2")])
def test_roles_and_workers_without_a_database_to_share_are_refused(option: tuple[str, str], tmp_path: Path) -> None:
    done = completed("serve", "--port", "0", "--data", str(tmp_path), *option)
    assert done.returncode == 2
    assert "PostgreSQL database" in done.stderr
