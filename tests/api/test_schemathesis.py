"""Whatever the published OpenAPI allows, and much that it does not: no 5xx, and no answer that is not documented."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy
from schemathesis import GenerationMode, checks

from stellwerk.demo import demo_yaml
from tests import keyed
from tests.crash.process import server_process

PATIENCE = 60
EXAMPLES = 6
SESSIONS = "/sessions/{sid}"
PROMISED = [
    *(checks.not_a_server_error, checks.status_code_conformance),
    *(checks.content_type_conformance, checks.response_schema_conformance),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With a demo that does not take its time."""
    folder: Path = tmp_path_factory.mktemp("fuzzed")
    quick = folder / "quick.yaml"
    quick.write_text(demo_yaml().replace("pace: 0.03", "pace: 0").replace("name: demo", "name: quick"))
    with server_process(folder / "data", errors=folder / "errors", serves=[str(quick)]) as started:
        yield started.address


@pytest.fixture(scope="module")
def published(server: str) -> Any:
    return schemathesis.openapi.from_url(f"{server}/openapi.json")


@pytest.fixture(scope="module")
def session(server: str) -> dict[str, str]:
    """The session to use; one that was deleted is replaced."""
    return {"sid": begin(server)}


def begin(server: str) -> str:
    return str(httpx2.post(f"{server}/sessions", json={"agent_system_id": "quick"}, timeout=PATIENCE).json()["id"])


def within_reason(case: Any, sid: str) -> None:
    """A session that there is, every other time; and nothing that waits for what never comes."""
    if case.path.startswith(SESSIONS) and len(str(case.path_parameters)) % 2:
        case.path_parameters["sid"] = sid
    if case.path == f"{SESSIONS}/stream":
        case.query["until"] = "run_end"
    if (
        isinstance(case.body, dict)
        and case.body.get("agent_system_id", "demo") == "demo"
        and "/messages" not in case.path
    ):
        case.body["agent_system_id"] = "quick"
    if "wait" in (case.query or {}):
        case.query["wait"] = 0.01 if case.query["wait"] in range(61) else case.query["wait"]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_answer_is_documented_and_none_is_our_fault(
    server: str, published: Any, session: dict[str, str], mode: GenerationMode
) -> None:
    operations = [found.ok() for found in published.get_all_operations()]
    if mode is GenerationMode.NEGATIVE:
        operations = [found for found in operations if can_be_wrong(found)]
    assert operations
    for operation in operations:
        fuzz(operation.as_strategy(generation_mode=mode), server, session)


def can_be_wrong(operation: Any) -> bool:
    """Where there is only text in the path, or nothing, all is right; to look for what is not would take long."""
    numbers = [each for each in operation.path_parameters if each.definition["schema"]["type"] != "string"]
    return any((*numbers, *operation.query, *operation.headers, *operation.body))


def fuzz(cases: SearchStrategy[Any], server: str, session: dict[str, str]) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def ask(case: Any) -> None:
        within_reason(case, session["sid"])
        answer = case.call(timeout=PATIENCE, headers=keyed.shown_to(server))
        case.validate_response(answer, checks=PROMISED)
        if answer.status_code == 204:
            session["sid"] = begin(server)

    ask()
