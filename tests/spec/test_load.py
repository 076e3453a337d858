import pytest

from stellwerk.demo import demo_yaml
from stellwerk.errors import SpecError
from stellwerk.spec.load import load_system

SMALL = """
version: 1
system: {name: small}
agents: [{id: only}]
"""


def test_the_demo_system_loads() -> None:
    system = load_system(demo_yaml(), source="demo.yaml")
    assert (system.system.name, system.orchestrator().id) == ("demo", "assistant")


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("version: [", "not YAML"),
        ("version: 1\nversion: 1", "duplicate key"),
        (SMALL.replace("small", "../x"), "system.name"),
        (SMALL.replace("only", "only, colour: red"), "agents.0.colour"),
        (SMALL.replace("version: 1", "version: 2"), "version"),
        (SMALL + "#" * 300_000, "more than 256 KiB"),
        ("just a text", "document"),
    ],
    ids=["broken", "duplicate", "a path as a name", "unknown field", "version", "too large", "no mapping"],
)
def test_a_bad_document_is_told_where_and_what(text: str, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint) as refused:
        load_system(text, source="my.yaml")
    assert "my.yaml" in str(refused.value)
