"""The plan of a workflow: read from what a model wrote, refused with reasons, put into an order."""

import json
from typing import Any

import pytest

from stellwerk.errors import PlanRefused
from stellwerk.workflows.workplan.plan import Workplan, read_plan, review_text, task_prompt, texts_for

AGENTS = ("analyst", "writer")


def task(agent: str = "analyst", reads: list[str] | None = None, writes: list[str] | None = None) -> dict[str, Any]:
    return {"agent": agent, "prompt": "Do it.", "inputDocuments": reads or [], "outputDocuments": writes or []}


def written(*tasks: dict[str, Any], final: tuple[str, ...] = (), **more: Any) -> str:
    wanted = [{"name": name, "description": ""} for name in final]
    said = {"objUserResponse": "I begin.", "userLanguage": "en", **more}
    return json.dumps({"objFinalDocuments": wanted, "objWorkplan": list(tasks), **said})


def read(reply: str, **known: Any) -> Workplan:
    return read_plan(reply, agents=AGENTS, **known)


@pytest.mark.requirement(
    "003.plan.final-documents", "003.plan.workplan", "003.plan.user-response", "003.plan.user-language"
)
def test_a_plan_has_exactly_the_four_names_of_the_contract() -> None:
    plan = read(written(task(writes=["a.md"]), final=("a.md",))).model_dump(mode="json")
    assert sorted(plan) == ["objFinalDocuments", "objUserResponse", "objWorkplan", "userLanguage"]
    assert plan["objWorkplan"] == [task(writes=["a.md"])]
    assert [document["name"] for document in plan["objFinalDocuments"]] == ["a.md"]
    assert Workplan.model_json_schema()["required"] == ["objUserResponse"]


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Here is my plan:\n{}\nI hope it helps.", "```\n{}\n```"])
def test_words_and_fences_around_the_plan_do_no_harm(around: str) -> None:
    assert read(around.replace("{}", written(task(), comment="mine"))).objWorkplan[0].agent == "analyst"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("I would rather not.", "no JSON object"),
        ('{"objUserResponse": ', "no JSON object"),
        ("```\n" + "\n" * 100_000, "no JSON object"),
        ('{"objUserResponse": "", "objWorkplan": 3}', "objWorkplan"),
        (written(task("cook")), "there is no agent 'cook'; there are: analyst, writer"),
        (written(task(writes=["a.md"]), task("writer", writes=["A.md"])), "task 2 writes 'A.md', which task 1 writes"),
        (written(task(reads=["b.csv"])), "task 1 reads 'b.csv', which is not there and which no task writes"),
        (written(task(), final=("a.md",)), "no task writes the final document 'a.md'"),
        (written(task(reads=["b"], writes=["a"]), task(reads=["a"], writes=["b"])), "wait for each other: 1 → 2 → 1"),
        (written(task(writes=["../a.md"])), "outputDocuments"),
        (written(*[task()] * 51), "objWorkplan"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_its_reason(reply: str, why: str) -> None:
    with pytest.raises(PlanRefused) as refused:
        read(reply)
    assert why in refused.value.message


def test_tasks_wait_for_those_that_write_what_they_read() -> None:
    plan = read(
        written(
            task("writer", reads=["Sums.csv", "sales.xlsx"], writes=["report.md"]),
            task(writes=["sums.csv"]),
            task(),
            task("writer", reads=["report.md"]),
        ),
        there=["sales.xlsx"],
    )
    assert (plan.waves(), plan.order()) == ([[1, 2], [0], [3]], [1, 2, 0, 3])


def test_a_star_stands_for_what_the_user_gave_and_a_document_may_be_named_by_its_id() -> None:
    plan = read(written(task(reads=["*", "id1"])), there=["a.csv", "b.txt", "id1"], given=["a.csv", "b.txt"])
    assert plan.objWorkplan[0].inputDocuments == ["a.csv", "b.txt", "id1"]


@pytest.mark.requirement("003.plan.language-set")
@pytest.mark.parametrize(
    ("language", "begins"),
    [
        ("de", "Dokumente für"),
        ("de-CH", "Dokumente für"),
        ("fr", "Documents pour"),
        ("it", "Doc"),
        ("", "Documents for"),
    ],
)
def test_an_agent_is_asked_in_the_language_of_the_user(language: str, begins: str) -> None:
    asked = task_prompt("Tu es.", ["- a.csv (1): Table"], ["b.md"], language).split("\n\n")
    assert asked[0] == "Tu es."
    assert asked[1].startswith(begins)
    assert asked[2].endswith("- b.md")
    assert len(asked) == (4 if language else 3)
    assert texts_for("xx") == texts_for("en")


def test_a_language_that_has_no_words_here_is_named_to_the_agent() -> None:
    assert task_prompt("Tee.", [], [], "fi").endswith("in this language: Finnish.")


def test_a_review_tells_what_is_there_and_what_is_not() -> None:
    expected, delivered, failures = ["a.md", "B.csv"], ["b.csv", "x.txt"], [("writer", "no ink")]
    assert review_text("en", expected, delivered, failures) == (
        "1 of 2 expected documents is there.\n\nDelivered:\n- b.csv\n- x.txt\n\nMissing:\n- a.md\n\n"
        "Tasks that have failed:\n- writer: no ink"
    )
    german = review_text("de", expected, delivered, failures)
    assert german.endswith("Gescheiterte Aufgaben:\n- writer")
    assert review_text("en", replies=["It is 42."]) == "It is 42."
    assert review_text("de", ["a.md"]).startswith("0 von 1 erwarteten Dokumenten sind da.")


def test_every_language_has_all_texts() -> None:
    for language in ("de", "fr", "it"):
        assert texts_for(language).keys() == texts_for("en").keys() and texts_for(language) != texts_for("en")
