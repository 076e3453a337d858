"""The lowest versions in pyproject.toml are those that `make floors` runs the core of the suite with."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from stellwerk.agents.isolated.environment import NEEDED as NEEDED_BY_WORKERS
from stellwerk.agents.isolated.environment import numbers
from tests.test_containerfile import pins
from tests.test_layout import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
EXTRAS = tomllib.loads(PROJECT)["project"]["optional-dependencies"]
NEEDED = [Requirement(each) for each in tomllib.loads(PROJECT)["project"]["dependencies"]]


def lowest(needed: Requirement) -> Version:
    [floor] = [each.version for each in needed.specifier if each.operator == ">="]
    return Version(floor)


def test_every_dependency_has_a_lowest_version_and_is_tested_with_it() -> None:
    tested = {canonicalize_name(name): Version(version) for name, version in pins(ROOT / "tests/floors.lock").items()}
    said = {canonicalize_name(each.name): lowest(each) for each in NEEDED}
    assert said == {name: tested.get(name) for name in said}, (
        "change pyproject.toml, then `make lock` and `make floors`"
    )


def test_the_environment_of_a_worker_is_tested_with_the_lowest_versions_that_it_may_have() -> None:
    tested = pins(ROOT / "tests/worker.lock")
    needed = {name: numbers(version) for name, version in NEEDED_BY_WORKERS.items()}
    assert {name: numbers(tested[name]) for name in needed} == needed, (
        "change tests/worker.in, then `make lock` and `make floors`"
    )


def test_an_upper_bound_has_its_reason_on_the_same_line() -> None:
    bounded = [line for line in PROJECT.splitlines() if re.match(r'.*"[\w-]+[^"]*(?:<|==|~=)[^"]*"', line)]
    assert [line for line in bounded if not re.search(r"\] *# \w|, *# \w", line)] == []
    limits = [each for listed in EXTRAS.values() for each in listed if re.search("<|==|~=", each)]
    assert len(bounded) == len(limits) + sum(bool(re.search("<|==|~=", str(each.specifier))) for each in NEEDED)


def test_the_newest_versions_that_are_tested_are_far_above_the_lowest() -> None:
    """Three minor versions back, and more."""
    newest = pins(ROOT / "requirements.lock")
    floors = {each.name: lowest(each) for each in NEEDED}
    for name in ("fastapi", "starlette", "langchain-core"):
        assert Version(newest[name]).minor - floors[name].minor >= 3, name
