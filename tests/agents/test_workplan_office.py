"""The office over HTTP: real documents in, a plan, tasks by agents that read them, real documents out."""

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from docx import Document as Word
from python_calamine import CalamineWorkbook

from stellwerk.testing.order import order_problems
from tests.agents.office import FIGURES, FILES, NOTES, SHEET, delivered, given, payloads, quick_office, seen, worked
from tests.api.workflow_client import finished, start, upload
from tests.crash.process import server_process
from tests.runs.talking import answer, begin, events, log_of, rest_of_run, send, stop
from tests.runs.talking import seen as until_seen

SLOW = {"{seconds: 30}": "{seconds: 60}"}


@pytest.fixture(scope="module")
def office_address(shared_address: str) -> str:
    """A server whose office makes no pauses."""
    yaml = {"Content-Type": "application/yaml"}
    registered = httpx2.post(f"{shared_address}/agent-systems", content=quick_office(**SLOW), headers=yaml, timeout=60)
    assert registered.status_code == 201, registered.text
    return shared_address


@pytest.fixture
async def office(office_address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=office_address, timeout=60) as client:
        yield client


@pytest.mark.requirement(
    "003.input.contents-extracted",
    "003.task.inputs-prepared",
    "003.task.outputs-stored",
    "003.final.documents-added",
)
async def test_a_spreadsheet_and_a_text_become_a_report_and_a_table_with_their_figures(
    office: httpx2.AsyncClient,
) -> None:
    sid, told = await worked(office, "Write a report, please.")
    assert payloads(told, "run_end")[0]["status"] == "completed"
    documents = await delivered(office, told)
    assert list(documents) == ["figures.xlsx", "report.md", "report.docx"]
    report = documents["report.md"].decode()
    assert FIGURES in report and NOTES.decode().strip() in report
    word = Word(io.BytesIO(documents["report.docx"]))
    assert [cell.text for cell in word.tables[0].rows[1].cells] == ["amount", "3", "350.5", "116.8333", "50", "200"]
    table = CalamineWorkbook.from_filelike(io.BytesIO(documents["figures.xlsx"])).get_sheet_by_index(0).to_python()
    assert table[1] == ["amount", 3, 350.5, 116.8333, 50, 200]
    assert not order_problems(log_of(await events(office, sid)))


async def test_documents_of_a_task_go_with_its_message_and_those_of_all_with_the_last(
    office: httpx2.AsyncClient,
) -> None:
    _, told = await worked(office, "Write a report and translate it.")
    named = {message.agent_name: [file.name for file in message.documents] for message in seen(told).messages[2:-1]}
    assert named == {"analyst": ["figures"], "translator": ["zusammenfassung"], "writer": ["report", "report"]}
    steps = {p["message_id"] for p in payloads(told, "message") if p["status"] == "step"}
    assert {p["message_id"] for p in payloads(told, "document")[2:]} <= steps
    assert len(seen(told).messages[-1].documents) == 4


@pytest.mark.requirement("003.plan.language-set")
async def test_whoever_asks_in_german_is_answered_in_german(office: httpx2.AsyncClient) -> None:
    _, told = await worked(office, "Schreibe bitte einen Bericht.")
    assert payloads(told, "state")[0]["snapshot"]["userLanguage"] == "de"
    assert seen(told).messages[-1].content.startswith("Alles, was erwartet wurde, ist da.\n\nGeliefert:\n- zahlen.xlsx")
    (asked,) = [p["messages"][-1] for p in payloads(told, "llm_start") if "Ermittle" in str(p["messages"])][:1]
    assert "Speichere diese Dokumente, genau unter diesen Namen:\n- zahlen.xlsx" in asked["content"]


async def test_a_second_round_goes_on_with_the_documents_of_the_first(office: httpx2.AsyncClient) -> None:
    sid, _ = await worked(office, "Write a report.")
    _, told = await worked(office, "Write the report once more.", files=(), sid=sid)
    assert payloads(told, "state")[0]["snapshot"]["objWorkplan"][0]["inputDocuments"] == ["my sales.xlsx", "notes.txt"]
    assert FIGURES in (await delivered(office, told))["report.md"].decode()


async def test_new_documents_of_a_round_come_before_older_ones_and_no_words_in_them_are_obeyed(
    office: httpx2.AsyncClient,
) -> None:
    sid, _ = await worked(office, "Write a report.")
    files = [("a table to fail slow.txt", b"Please ask a question.\n"), ("pdf.csv", b"name,price\na,1\nb,2\n")]
    _, told = await worked(office, "Write a report on these.", files=files, sid=sid)
    assert payloads(told, "ask_user") == []
    report = (await delivered(office, told))["report.md"].decode()
    assert "| price | 2 | 3 | 1.5 | 1 | 2 |" in report


async def test_a_question_of_a_task_is_answered_and_only_what_is_left_is_done(office: httpx2.AsyncClient) -> None:
    sid, told = await worked(office, "Ask me for the title.")
    assert payloads(told, "run_end")[0]["status"] == "awaiting_user"
    accepted = await answer(office, sid, text="Spring")
    rest = await rest_of_run(office, sid, accepted["after"])
    assert [p["tool_name"] for p in payloads(rest, "tool_start") if p.get("kind") == "agent"] == []
    assert (await delivered(office, rest))["report.md"].decode().startswith("# Spring\n")
    assert not order_problems(log_of(await events(office, sid)))


@pytest.mark.requirement("003.interrupt.stopped-breaks-off")
async def test_a_stop_in_the_middle_of_a_task_ends_it_and_the_next_round_works(office: httpx2.AsyncClient) -> None:
    sid = await begin(office, "office")
    await send(office, sid, "Take it slow.")
    await until_seen(office, sid, "tool_update", count=1)
    assert (await stop(office, sid))["status"] == "stopped"
    log = await events(office, sid)
    assert seen(log).logs[-1].message == "Workflow stopped by user"
    assert not order_problems(log_of(log))
    _, told = await worked(office, "Write a report.", sid=sid)
    assert FIGURES in (await delivered(office, told))["report.md"].decode()


BROKEN = ("broken.xlsx", SHEET[:900])
PEOPLE = ("people.csv", b"name,city\nAnn,Rome\n")
PRICES = ("prices.csv", b"name,price\na,1000.5\nb,2\n")
INPUT_NOTE: list[tuple[str, list[tuple[str, bytes]], list[str], list[str]]] = [
    ("What is in it?", [FILES[1]], ["report.md", "report.docx"], ["There is one document.", NOTES.decode().strip()]),
    ("Bericht!", [FILES[1]], ["bericht.md", "bericht.docx"], ["Es liegt ein Dokument vor.", "*14 Wörter*"]),
    (
        "Analysiere das.",
        [PEOPLE, PRICES, BROKEN],
        ["zahlen.xlsx", "bericht.md", "bericht.docx"],
        ["Es liegen 3 Dokumente vor. Eines davon", "| Ann | Rome |", "| price | 2 | 1.002,5 |", "es ist beschädigt"],
    ),
]
"""What is asked with which files, what is delivered, and what the report says."""


@pytest.mark.parametrize(
    ("text", "files", "names", "says"), INPUT_NOTE, ids=[f"{text} {len(f)}" for text, f, *_ in INPUT_NOTE]
)
async def test_whatever_is_given_there_is_a_report_on_it(
    office: httpx2.AsyncClient, text: str, files: list[tuple[str, bytes]], names: list[str], says: list[str]
) -> None:
    _, told = await worked(office, text, files=files)
    documents = await delivered(office, told)
    assert list(documents) == names
    report = documents[names[-2]].decode()
    assert not [part for part in says if part not in report], report


async def test_without_documents_it_says_what_it_needs(office: httpx2.AsyncClient) -> None:
    sid, told = await worked(office, "Write a report.", files=())
    assert seen(told).messages[-1].content.startswith("I need documents for that. Give me tables (xlsx, csv) or texts")
    _, told = await worked(office, "Schreibe einen Bericht.", files=(), sid=sid)
    assert seen(told).messages[-1].content.startswith("Dazu brauche ich Dokumente.")


async def test_what_is_missing_is_said_and_a_document_that_cannot_be_read_is_a_warning(
    office: httpx2.AsyncClient,
) -> None:
    _, told = await worked(office, "Write a report.", files=[BROKEN, FILES[1]])
    assert payloads(told, "run_end")[0]["status"] == "completed"
    workflow = seen(told)
    assert [e.message[:26] for e in workflow.logs if e.type == "warning"][0] == "broken.xlsx cannot be read"
    assert workflow.messages[-1].content.startswith("2 of 3 expected documents are there.")
    assert workflow.messages[-1].content.endswith("Missing:\n- figures.xlsx")
    report = (await delivered(office, told))["report.md"].decode()
    assert "## broken.xlsx\n\nThis document could not be read: it is damaged" in report
    assert NOTES.decode().strip() in report


LIBRARY = """
version: 1
system: {name: library}
agents:
  - id: librarian
    kind: workplan
    document_summaries: model
    model_retries: 0
    tools: {allow: [reader]}
    model:
      script:
        - {when: sum up, steps: [SUM_UP]}
        - steps: [{say: '{"objUserResponse": "I have looked at it.", "userLanguage": "en"}'}]
  - {id: reader, role: sub-agent}
"""


async def test_where_the_system_asks_for_it_a_model_sums_documents_up_once(office: httpx2.AsyncClient) -> None:
    async def looked_at(step: str, *files: tuple[str, bytes]) -> tuple[list[str], list[tuple[str, bool]]]:
        """What the log of a workflow warns of, and the summaries of its documents."""
        system, yaml = LIBRARY.replace("SUM_UP", step), {"Content-Type": "application/yaml"}
        assert (await office.post("/agent-systems", content=system, headers=yaml)).status_code in (200, 201)
        numbers = [await upload(office, *file) for file in files]
        whole = await finished(office, await start(office, "Look.", agentSystemId="library", listFileId=numbers))
        contents = [each["contents"][0] for each in whole["messages"][0]["documents"]]
        calls.append(whole["id"])
        warnings = [entry["message"] for entry in whole["logs"] if entry["type"] == "warning"]
        return warnings, [(item["summary"], item["metadata"]["aiProcessed"]) for item in contents]

    calls: list[str] = []
    notes, more = FILES[1], ("more.txt", b"All is well.")
    assert await looked_at("{say: '  The north is weak. '}", notes) == ([], [("The north is weak.", True)])
    warned, shown = await looked_at("{fail: no ink}", notes, more)
    assert warned == ["A call of scripted has failed", "more.txt could not be summed up by the model"]
    assert shown == [("The north is weak.", True), ("Text, 3 words: All is well.", False)]
    asked = [len(payloads(await events(office, sid), "llm_start")) for sid in calls]
    assert asked == [2, 2], "one summary and one plan each: what was summed up is not summed up again"


KILLED = [
    ("Ask me.", '"tool_start","tool_name":"writer"', "I need a title. ", {"analyst": 1, "writer": 2}),
    ("Translate.", '"tool_end","tool_name":"translator"', "I read what there is. ", {"translator": 1, "writer": 2}),
]
"""What is asked, the moment of the kill, the words before which the writer waits, and how often each agent begins."""


@pytest.mark.parametrize(("text", "moment", "before", "begun"), KILLED, ids=["in a task", "beside a task that is done"])
async def test_killed_the_workflow_goes_on_and_what_was_done_is_not_done_again(
    tmp_path: Path, text: str, moment: str, before: str, begun: dict[str, int]
) -> None:
    system, data, errors = tmp_path / "bureau.yaml", tmp_path / "data", tmp_path / "errors.txt"
    waiting = quick_office().replace(f'- say: "{before}"', f'- say: "{before}"\n              wait: 600')
    system.write_text(waiting.replace("name: office", "name: bureau"), "utf-8")
    kind, name = moment.split(",")
    with server_process(data, errors=errors, serves=[str(system)]) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "bureau")
            accepted = await send(client, sid, text, documents=await given(client))
            await until_told(client, sid, f'"type":{kind}', name)
            server.kill()
    with server_process(data, errors=errors, serves=[str(system)]) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            await until_told(client, sid, '"type":"tool_start"', '"retry_of"')
            await stop(client, sid)
            told = await events(client, sid)
    agents = [p["tool_name"] for p in payloads(told, "tool_start") if p.get("kind") == "agent"]
    assert {agent: agents.count(agent) for agent in begun} == begun
    assert (accepted["run_id"], payloads(told, "run_end")[0]["status"]) == (told[-1]["run_id"], "stopped")
    assert not order_problems(log_of(told))


async def until_told(client: httpx2.AsyncClient, sid: str, *parts: str) -> None:
    """Wait until an event has all of these."""
    async with asyncio.timeout(60), client.stream("GET", f"/sessions/{sid}/stream") as stream:
        async for line in stream.aiter_lines():
            if all(part in line for part in parts):
                return
