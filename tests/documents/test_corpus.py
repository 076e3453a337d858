"""Every file of the corpus ends in items or in a clear error on that document, and its child stays small."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from structlog.testing import capture_logs

from stellwerk.errors import ExtractionError
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.extraction import LIMITS
from tests.documents.conftest import DocumentReader
from tests.documents.corpus import BAD, GOOD, Bad, Good
from tests.documents.many import Outcome, read_many

LARGEST_CHILD = LIMITS.memory >> 20
LARGE = {
    *("large.xlsx", "huge.txt", "deep.json", "deep.html", "open_quote.csv", "bundle.zip"),
    *("bomb.docx", "bomb.xlsx", "bomb.zip", "far_cell.xlsx", "many.zip", "giant.txt"),
}
"""What is about limits, and has a child of its own; also one of many kinds."""


@pytest.fixture(scope="module")
def small() -> dict[str, Outcome]:
    cases: list[Good | Bad] = [*GOOD, *BAD]
    return read_many({case.name: case.make() for case in cases if case.name not in LARGE})


@pytest.mark.requirement("003.content.summary", "003.input.static-summaries")
@pytest.mark.parametrize("case", [case for case in GOOD if case.name in LARGE], ids=lambda case: case.name)
async def test_a_good_file_becomes_items(reader: DocumentReader, case: Good) -> None:
    with capture_logs() as logs:
        items = await reader.read(case.name, case.make())
    check(case, items)
    assert all(item.name for item in items)
    assert 0 < peak(logs) < LARGEST_CHILD


@pytest.mark.requirement("003.content.sequence-nr", "003.content.name-and-type", "003.content.data")
@pytest.mark.requirement("003.content.metadata")
@pytest.mark.parametrize("case", [case for case in GOOD if case.name not in LARGE], ids=lambda case: case.name)
def test_a_small_file_becomes_items(small: Mapping[str, Outcome], case: Good) -> None:
    outcome = small[case.name]
    assert outcome.code is None, outcome
    check(case, outcome.items)


def check(case: Good, items: Sequence[ContentItem]) -> None:
    shown = [item.summary for item in items]
    assert len(shown) == len(case.summaries), shown
    for summary, begin in zip(shown, case.summaries, strict=True):
        assert summary.startswith(begin)
    text = "\n".join(item.data_extracted for item in items)
    assert [part for part in case.holds if part not in text] == []
    assert [part for part in case.lacks if part in text] == []
    assert [item.sequence_nr for item in items] == list(range(1, len(items) + 1))
    for item in items:
        fields = msgspec.to_builtins(item)
        assert fields.keys() == {
            *("sequenceNr", "name", "ext", "contentType", "data", "dataExtracted", "metadata", "summary")
        }
        assert fields["metadata"].keys() >= {"isText", "base64Encoded", "aiProcessed"}
        assert ".." not in item.name and not item.name.startswith("/")


@pytest.mark.parametrize("case", [case for case in BAD if case.name in LARGE], ids=lambda case: case.name)
async def test_a_bad_file_is_an_error_in_words(reader: DocumentReader, case: Bad) -> None:
    with capture_logs() as logs, pytest.raises(ExtractionError) as refused:
        await reader.read(case.name, case.make())
    assert refused.value.code == case.code, refused.value
    assert 20 < len(str(refused.value)) < 400
    assert peak(logs) < LARGEST_CHILD


@pytest.mark.parametrize("case", [case for case in BAD if case.name not in LARGE], ids=lambda case: case.name)
def test_a_small_bad_file_is_an_error_in_words(small: Mapping[str, Outcome], case: Bad) -> None:
    outcome = small[case.name]
    assert outcome.code == case.code, outcome
    assert 20 < len(outcome.message) < 400


def peak(logs: Sequence[Mapping[str, object]]) -> int:
    (found,) = [log["peak_mib"] for log in logs if log["event"] == "document_read"] or [0]
    assert isinstance(found, int)
    return found
