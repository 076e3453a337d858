"""The public surface stays as the golden files record it; `make golden` rewrites them, and the diff is reviewed."""

import pytest

from tests.public.surface import HERE, surfaces


@pytest.fixture(scope="module")
def current() -> dict[str, str]:
    return surfaces()


@pytest.mark.parametrize("name", ["openapi.txt", "help.txt", "check.txt", "names.txt", "settings.txt"])
def test_the_public_surface_is_as_the_golden_file_records_it(current: dict[str, str], name: str) -> None:
    assert current[name] == (HERE / name).read_text("utf-8"), "run `make golden` and review the diff"
