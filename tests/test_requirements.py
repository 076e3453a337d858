"""The ledger of promises agrees with the tests, and its checker can fail in every way it should.

Broken ledgers are planted in a temporary folder; the real one is only read.
"""

import tomllib
from pathlib import Path

import pytest

from tests.requirements import LEDGER, TESTS, find_problems, main, read_citations, read_ledger

OPEN = '[000]\n"000.area.first" = { says = "It is so.", state = "open" }\n'
KEPT = OPEN.replace('"open"', '"kept"')
CITES = '@pytest.mark.requirement("000.area.first")\ndef test_it(): ...\n'


def plant(folder: Path, *, ledger: str, test: str = "") -> Path:
    tests = folder / "tests"
    tests.mkdir()
    (tests / LEDGER).write_text(ledger, "utf-8")
    (tests / "test_planted.py").write_text(test, "utf-8")
    return tests


def test_the_ledger_and_the_tests_agree() -> None:
    problems = find_problems(TESTS)
    assert not problems, "\n".join(["", *problems])


def test_reading_by_line_finds_what_toml_finds() -> None:
    text = (TESTS / LEDGER).read_text("utf-8")
    promises, problems = read_ledger(text)
    tables = tomllib.loads(text)
    assert not problems
    assert [promise.id for promise in promises] == [identity for table in tables.values() for identity in table]


def test_every_promise_is_a_sentence_of_its_own() -> None:
    sentences = [promise.says for promise in read_ledger((TESTS / LEDGER).read_text("utf-8"))[0]]
    assert len(set(sentences)) == len(sentences) >= 110
    assert not [sentence for sentence in sentences if not sentence.endswith(".")]


@pytest.mark.parametrize(
    ("ledger", "test", "complaint"),
    [
        pytest.param(OPEN, CITES.replace("first", "other"), "cites '000.area.other', which is not", id="unknown id"),
        pytest.param(KEPT, "", "is marked kept, but no test cites it", id="kept without a test"),
        pytest.param(OPEN, CITES, "test_planted.py:1 cites it; mark it kept", id="open with a test"),
        pytest.param(OPEN + OPEN.split("\n")[1], "", "duplicate id 000.area.first, first in line 2", id="duplicate"),
        pytest.param(OPEN.replace("first", "Not_Kebab"), "", "malformed id", id="not kebab-case"),
        pytest.param(OPEN.replace("area.", ""), "", "malformed id", id="no area"),
        pytest.param('[trust]\n"trust.I24" = { says = "No.", state = "open" }', "", "malformed id", id="beyond I23"),
        pytest.param(
            '[fault]\n"fault-61" = { says = "No.", state = "open" }', "", "malformed id", id="beyond fault 60"
        ),
        pytest.param(
            '[trust]\n"fault-01" = { says = "No.", state = "open" }', "", "move it to [fault]", id="not there"
        ),
        pytest.param(OPEN.replace("[000]", "[001]"), "", "move it to [000]", id="wrong table"),
        pytest.param(OPEN.replace('"open"', '"done"'), "", "unknown state 'done'", id="unknown state"),
        pytest.param(OPEN.replace('"open"', "1"), "", "not a promise", id="state is no text"),
        pytest.param(OPEN.replace("It is so.", ""), "", "not a promise", id="says nothing"),
        pytest.param(OPEN.replace("says", "tells"), "", "not a promise", id="unknown field"),
        pytest.param(OPEN.replace("{", ""), "", "not a promise", id="not TOML"),
        pytest.param(KEPT, CITES.replace("test_it", "fixture"), "no test cites it", id="cited by no test"),
        pytest.param(KEPT, "@pytest.mark.skip\n" + CITES, "no test cites it", id="cited by a skipped test"),
        pytest.param(KEPT, "@pytest.mark.xfail(raises=OSError)\n" + CITES, "no test cites it", id="expected to fail"),
        pytest.param(OPEN, CITES.replace('"000.area.first"', "*IDS"), "cites '*IDS'", id="not a literal"),
        pytest.param(
            KEPT, CITES.replace('"000.area.first"', '"000.area.first", ' * 6), "cites 6 promises", id="too many for one"
        ),
    ],
)
def test_a_planted_problem_is_found_once(tmp_path: Path, ledger: str, test: str, complaint: str) -> None:
    (problem,) = find_problems(plant(tmp_path, ledger=ledger, test=test))
    assert complaint in problem


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(CITES, id="decorator"),
        pytest.param(CITES.replace("def", "async def"), id="async test"),
        pytest.param(CITES.replace('("', '("000.area.first", "'), id="several ids"),
        pytest.param('pytestmark = pytest.mark.requirement("000.area.first")', id="file"),
        pytest.param(
            'pytestmark = [pytest.mark.slow, pytest.mark.requirement("000.area.first")]', id="file, in a list"
        ),
        pytest.param('CASES = [pytest.param(1, marks=pytest.mark.requirement("000.area.first"))]', id="parameter"),
        pytest.param('CASES = [pytest.param(1, marks=(pytest.mark.requirement("000.area.first"),))]', id="in a tuple"),
    ],
)
def test_a_citation_is_found_wherever_pytest_takes_marks(tmp_path: Path, test: str) -> None:
    tests = plant(tmp_path, ledger=KEPT, test=test)
    assert {citation.id for citation in read_citations(tests)} == {"000.area.first"}
    assert not find_problems(tests)


@pytest.mark.parametrize(("before", "test", "after"), [(OPEN, CITES, KEPT), (KEPT, "", OPEN), (OPEN, "", OPEN)])
def test_write_sets_the_state_and_touches_nothing_else(tmp_path: Path, before: str, test: str, after: str) -> None:
    frame = "# The word open stays.\n\n{}\n# The end, without a line feed"
    tests = plant(tmp_path, ledger=frame.format(before), test=test)
    assert main(["--write"], tests=tests) == (0 if after == KEPT else 1)
    assert (tests / LEDGER).read_text("utf-8") == frame.format(after)


def test_the_summary_counts_by_source_and_in_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trust = '[trust]\n"trust.I1" = { says = "No gaps.", state = "open" }\n'
    assert main([], tests=plant(tmp_path, ledger=KEPT + trust, test=CITES)) == 0
    assert capsys.readouterr().out == (
        "000       1 of   1\ntrust     0 of   1\n1 of 2 promises kept by tests; 1 open\n"
    )


def test_problems_are_listed_and_fail_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], tests=plant(tmp_path, ledger=KEPT)) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{LEDGER}:2: 000.area.first is marked kept")


def test_a_promise_of_a_seed_is_kept_or_given_up_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = plant(tmp_path, ledger=OPEN)
    assert main([], tests=tests) == 1
    assert "000.area.first is open; write a test that keeps it" in capsys.readouterr().out
    (tests / LEDGER).write_text(OPEN.replace('"open"', '"open", deviates = "Nobody needs it."'), "utf-8")
    assert main([], tests=tests) == 0
