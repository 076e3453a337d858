"""Every golden AG-UI stream, read by the models that the protocol's authors publish."""

import json

import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from tests.golden.files import BY_NAME, dialect_file

EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_published_models_take_every_event_and_know_every_field_of_it(name: str) -> None:
    lines = dialect_file("ag-ui", name).read_text("utf-8").splitlines()
    sent = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert sent
    for event in sent:
        read = EVENTS.validate_python(event)
        assert not read.model_extra
        assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == event
