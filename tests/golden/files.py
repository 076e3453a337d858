"""The golden files: recordings, the runs that follow from them, and what follows from the runs.

``raw/<scenario>.<form>.jsonl`` → ``runs/<scenario>.jsonl`` → ``<dialect>/<scenario>`` and ``views/<scenario>.json``
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from stellwerk.dialects import registry
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope
from stellwerk.views import checklist, overview, transcript
from stellwerk.workflows.views.workflow import Workflow
from tests.golden.chain import envelopes_of, from_bytes, to_bytes
from tests.golden.record import record
from tests.golden.scenarios import SCENARIOS
from tests.golden.turns import Form, Scenario

HERE = Path(__file__).parent
DIALECTS = registry.DIALECTS
BY_NAME: Mapping[str, Scenario] = {scenario.name: scenario for scenario in SCENARIOS}


def raw_file(name: str, form: Form) -> Path:
    return HERE / "raw" / f"{name}.{form}.jsonl"


def run_file(name: str) -> Path:
    return HERE / "runs" / f"{name}.jsonl"


def view_file(name: str) -> Path:
    return HERE / "views" / f"{name}.json"


def dialect_file(folder: str, name: str) -> Path:
    return HERE / folder / (name + (".sse" if "event-stream" in DIALECTS[folder].media_type else ".jsonl"))


def recorded(name: str, form: Form) -> list[Envelope]:
    """What the adapter makes of a stored recording."""
    return envelopes_of(raw_file(name, form).read_bytes().decode(), form, BY_NAME[name].agents)


def stored(name: str) -> list[Envelope]:
    return from_bytes(run_file(name).read_bytes())


def translated(folder: str, log: Iterable[Envelope]) -> bytes:
    dialect = DIALECTS[folder]
    chunks = translate(dialect.translator("session"), enumerate(log, start=1))
    return b"".join(dialect.frame(cursor, chunk) for cursor, chunk in chunks)


def _workflow(log: Sequence[Envelope]) -> dict[str, object]:
    workflow = Workflow("session")
    for envelope in log:
        workflow.feed(envelope)
    about = {"name": workflow.name, "status": workflow.status, "round": workflow.round, "dataStats": workflow.figures}
    return {**about, "messages": workflow.messages, "logs": workflow.logs}


def viewed(log: Sequence[Envelope]) -> bytes:
    whole = overview.folded(overview.Overview(), log)
    told = (transcript.entry(whole.hidden, n, envelope) for n, envelope in enumerate(log, start=1))
    views = {
        "status": whole.status,
        "checklist": whole.checklist,
        "markdown": checklist.markdown(whole.checklist),
        "state": overview.as_json(whole),
        "documents": whole.documents,
        "transcript": [entry for entry in told if entry is not None],
        "workflow": _workflow(log),
    }
    return msgspec.json.format(msgspec.json.encode(views), indent=1) + b"\n"


async def write_all() -> None:
    """Record every scenario anew, and write everything that follows."""
    written = [await _written(scenario) for scenario in SCENARIOS]
    wanted = {path for paths in written for path in paths}
    for folder in ("raw", "runs", "views", *DIALECTS):
        for path in (HERE / folder).iterdir():
            if path not in wanted:
                path.unlink()


async def _written(scenario: Scenario) -> list[Path]:
    name = scenario.name
    made = {raw_file(name, form): (await record(scenario, form)).encode() for form in scenario.forms}
    log = envelopes_of(made[raw_file(name, "live")].decode(), "live", scenario.agents)
    made |= {run_file(name): to_bytes(log), view_file(name): viewed(log)}
    made |= {dialect_file(folder, name): translated(folder, log) for folder in DIALECTS}
    for path, data in made.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return list(made)
