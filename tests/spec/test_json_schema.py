"""Schemas that others wrote: they may say whether a value fits, and cannot do anything else."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.envelope.payloads import Answered, Asked
from stellwerk.errors import InvalidField
from stellwerk.spec.json_schema import objection
from stellwerk.views.questions import check_answer

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
EXPLODES = "(a+)+$"
VICTIM = "a" * 100 + "!"
"""With that expression, this text would take longer than there is."""


def test_a_value_that_does_not_fit_is_explained() -> None:
    schema: dict[str, Any] = {"$schema": DRAFT_7, "type": "object", "properties": {"days": {"$ref": "#/$defs/few"}}}
    schema |= {"$defs": {"few": {"type": "integer", "maximum": 9}}, "additionalProperties": False}
    assert objection(schema, {"days": 9}) is None
    wrong, unknown = objection(schema, {"days": 10}), objection(schema, {"nights": 1})
    assert wrong is not None and (wrong.json_path, wrong.message) == ("$.days", "10 is greater than the maximum of 9")
    assert unknown is not None and "'nights' was unexpected" in unknown.message


class Listening(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """The list says enough."""


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Listening) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_nothing_is_fetched_for_a_reference(address: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"const": "canary"}')
    for place in (f"{address}/metadata", secret.as_uri(), "other.json", "#/nowhere", "http://["):
        assert objection({"properties": {"x": {"$ref": place}}}, {"x": 1}) is None
        assert objection({"$id": f"{address}/base", "$ref": place}, 1) is None
    assert Listening.asked == []


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": EXPLODES},
        {"default": {"pattern": EXPLODES}, "$ref": "#/default"},
        {"allOf": [{"$schema": DRAFT_7, "pattern": EXPLODES}]},
        {"const": {"$schema": DRAFT_7, "pattern": EXPLODES}, "$ref": "#/const"},
        {"pattern": "a{99999999999}"},
    ],
    ids=["plain", "in a default", "by other rules", "by other rules, hidden", "not even an expression"],
)
def test_expressions_are_not_tried(schema: dict[str, Any]) -> None:
    assert objection(schema, VICTIM) is None


@pytest.mark.parametrize("rest", ["additionalProperties", "unevaluatedProperties"])
def test_names_are_not_held_against_expressions_either(rest: str) -> None:
    assert objection({"patternProperties": {EXPLODES: {}}, rest: False}, {VICTIM: 1}) is None


def doubling(levels: int) -> dict[str, Any]:
    """A few lines whose parts each name the next one twice."""
    twice = {f"n{level}": {"allOf": [{"$ref": f"#/$defs/n{level + 1}"}] * 2} for level in range(levels)}
    return {"$defs": twice | {f"n{levels}": {"type": "string"}}, "$ref": "#/$defs/n0"}


def test_a_schema_that_unfolds_without_end_is_not_asked() -> None:
    few = objection(doubling(3), 1)
    assert few is not None and few.message == "1 is not of type 'string'"
    assert objection(doubling(200), 1) is None
    assert objection({"$ref": "#"}, 1) is None
    assert objection({"allOf": [{}] * 100_000, "type": "string"}, 1) is None
    assert objection({"items": {"type": "string"}}, [1] * 1_000_000) is None
    assert objection({"anyOf": [{"type": "string"}] * 1400}, ["x" * 4_000_000]) is None, "each would quote all of it"


names = st.sampled_from(
    "type properties items required enum const minimum multipleOf maxLength allOf anyOf oneOf not if then else contains"
    " additionalProperties propertyNames dependentRequired dependentSchemas prefixItems $ref $id $anchor $dynamicRef"
    " $defs $schema pattern patternProperties format minItems unevaluatedItems x".split()
)
words = st.sampled_from(["#", "#/$defs/x", "#x", "http://[", "object", "string", "nonsense", "(", "x", DRAFT_7])
plain = st.none() | st.booleans() | st.integers() | st.floats() | words
anything = st.recursive(
    plain, lambda below: st.lists(below, max_size=3) | st.dictionaries(names | words, below, max_size=4), max_leaves=12
)


@settings(deadline=None)
@given(st.dictionaries(names, anything, max_size=5), anything)
def test_no_schema_brings_anything_down(schema: dict[str, Any], value: Any) -> None:
    objection(schema, value)


def test_an_answer_is_not_refused_by_a_schema_that_cannot_judge() -> None:
    for schema in ({"$ref": "http://127.0.0.1:9/none"}, {"type": "nonsense"}, {"pattern": EXPLODES}, doubling(200)):
        check_answer(Asked(ask_id="a", question="?", schema=schema), Answered(ask_id="a", text=VICTIM))
    with pytest.raises(InvalidField, match="does not fit the question: 'red' is not of type 'integer'"):
        check_answer(Asked(ask_id="a", question="?", schema={"type": "integer"}), Answered(ask_id="a", text="red"))
