"""The session machine under whatever may happen in whatever order, compared with a model of it."""

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stellwerk.envelope.order import legal
from stellwerk.runs import dispatch
from stellwerk.settings import Settings
from tests.conftest import running_server
from tests.crash.waiting import eventually
from tests.runs.talking import begin, events, log_of

T = TypeVar("T")
BENCH = Path(__file__).parent / "bench"
ATTEMPTS = 2
MOST = 2
"""Sessions at a time."""
ENDS = {"work": "running", "ask": "awaiting", "fail": "failed", "quick": "completed"}
"""Where a session stands some time after a message."""


@dataclass
class Model:
    """What a session should do; every method answers with the status that the server must answer with."""

    place: str = "idle"
    round: int = 0
    attempt: int = 1
    calls: int = 1
    """How often the tool was called for the run."""
    waiting: list[str] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return self.place in ("running", "awaiting")

    def message(self, text: str) -> int:
        if self.place == "awaiting":
            return self.answer()
        if self.place == "running":
            return 409
        self._start(text)
        return 202

    def enqueue(self, text: str) -> int:
        if self.busy:
            self.waiting.append(text)
            return 202
        return self.message(text)

    def answer(self) -> int:
        if self.place != "awaiting":
            return 409
        self.round += 1
        self._end("completed")
        return 202

    def stop(self) -> int:
        self.waiting.clear()
        if self.busy:
            self.round += self.place == "awaiting"
            self.place = "stopped"
        return 200

    def finish(self) -> None:
        self._end("completed")

    def crash(self) -> None:
        if self.place == "running":
            self.attempt, self.calls = self.attempt + 1, self.calls + 1
            if self.attempt > ATTEMPTS:
                self._end("failed")

    def pause(self) -> None:
        """The tool does not end its work in time, and is called again; that is no attempt."""
        self.calls += self.place == "running"

    def _start(self, text: str) -> None:
        self.round, self.attempt, self.calls = self.round + 1, 1, 1
        self.place = ENDS[text]
        if not self.busy:
            self._end(self.place)

    def _end(self, place: str) -> None:
        self.place = place
        if self.waiting:
            self._start(self.waiting.pop(0))


class Machine(RuleBasedStateMachine):
    sessions: Bundle[str] = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="stellwerk-machine-"))
        shutil.copytree(BENCH, self.folder / "bench")
        (self.folder / "bench" / "operator.yaml").write_text("tools: [tools.py:tools]\n")
        self.models: dict[str, Model] = {}
        self.works: dict[str, str] = {}
        """What the run of each session works on."""
        self.number = 0
        self.runner = asyncio.Runner()
        self.data = self.folder / "data 0"
        self.run(self.up())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def up(self) -> None:
        self.leave, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
        self.server = asyncio.create_task(self._serve(ready, self.leave))
        await asyncio.wait([ready, self.server], return_when=asyncio.FIRST_COMPLETED)
        self.client = httpx2.AsyncClient(base_url=await ready, timeout=60)

    async def _serve(self, ready: "asyncio.Future[str]", leave: asyncio.Event) -> None:
        bench = self.folder / "bench"
        chosen = Settings(data=self.data, config=bench / "operator.yaml")
        async with running_server(chosen, own={"bench": str(bench / "system.yaml")}) as address:
            ready.set_result(address)
            await leave.wait()

    async def down(self) -> None:
        await self.client.aclose()
        self.leave.set()
        await self.server

    async def post(self, sid: str, path: str, **body: Any) -> int:
        return (await self.client.post(f"/sessions/{sid}/{path}", json=body)).status_code

    def text(self, kind: str) -> str:
        self.number += 1
        return f"{kind} {self.number}"

    async def agree(self, sid: str) -> None:
        """Wait until the session stands where the model says it must come to."""
        model = self.models[sid]
        status = "running" if model.busy else model.place
        expected = {"status": status, "round": model.round, "awaiting_user_input": model.place == "awaiting"}
        found: dict[str, Any] = {}

        async def agrees() -> bool:
            nonlocal found
            found = (await self.client.get(f"/sessions/{sid}")).json()
            return expected.items() <= found.items() and (model.place != "running" or await self.works_on(sid))

        await eventually(agrees, within=60, what=lambda: f"{expected} is expected, and {found} is there")

    async def works_on(self, sid: str) -> bool:
        """Whether the tool was called as often as the run was begun."""
        told = await events(self.client, sid)
        calls = [
            e["payload"]["args"]["what"]
            for e in told
            if e["payload"].get("tool_name") == "work" and "args" in e["payload"]
        ]
        if not calls:
            return False
        self.works[sid] = calls[-1]
        began = self.folder / "bench" / f"{calls[-1]} began"
        return began.exists() and len(began.read_text().split()) == self.models[sid].calls

    @initialize(target=sessions)
    def first(self) -> str:
        return self._begun()

    @precondition(lambda self: len(self.models) < MOST)
    @rule(target=sessions)
    def second(self) -> str:
        return self._begun()

    def _begun(self) -> str:
        sid = self.run(begin(self.client, "bench"))
        self.models[sid] = Model()
        return sid

    @rule(sid=sessions, kind=st.sampled_from(["work", *ENDS]), enqueue=st.booleans())
    def message(self, sid: str, kind: str, enqueue: bool) -> None:
        model = self.models[sid]
        expected = model.enqueue(kind) if enqueue else model.message(kind)
        wish = {"if_busy": "enqueue"} if enqueue else {}
        assert self.run(self.post(sid, "messages", text=self.text(kind), **wish)) == expected
        self.run(self.agree(sid))

    @rule(sid=sessions)
    def answer(self, sid: str) -> None:
        expected = self.models[sid].answer()
        assert self.run(self.post(sid, "answers", text="that way")) == expected
        self.run(self.agree(sid))

    @rule(sid=sessions)
    def stop(self, sid: str) -> None:
        expected = self.models[sid].stop()
        assert self.run(self.post(sid, "stop")) == expected
        self.run(self.agree(sid))

    @rule(sid=sessions)
    def finish(self, sid: str) -> None:
        if self.models[sid].place == "running":
            (self.folder / "bench" / f"{self.works[sid]} done").touch()
            self.models[sid].finish()
            self.run(self.agree(sid))

    @rule(sid=consumes(sessions))
    def delete(self, sid: str) -> None:
        del self.models[sid]
        self.run(self._delete(sid))

    async def _delete(self, sid: str) -> None:
        assert (await self.client.delete(f"/sessions/{sid}")).status_code == 204
        assert (await self.client.get(f"/sessions/{sid}")).status_code == 404
        for path, body in (("messages", {"text": "quick"}), ("answers", {"text": "that way"}), ("stop", {})):
            assert await self.post(sid, path, **body) == 404

    @precondition(lambda self: any(model.busy for model in self.models.values()))
    @rule(gracefully=st.booleans())
    def restart(self, gracefully: bool) -> None:
        """Told to end; or killed: the next server finds what was committed at this moment and nothing else."""
        left = self.data
        if not gracefully:
            left = self.folder / f"data {self.text('')}"
            left.mkdir()
            with (
                closing(sqlite3.connect(self.data / "stellwerk.db")) as now,
                closing(sqlite3.connect(left / "stellwerk.db")) as then,
            ):
                now.backup(then)
        self.run(self.down())
        self.data = left
        for model in self.models.values():
            model.pause() if gracefully else model.crash()
        self.run(self.up())
        for sid in self.models:
            self.run(self.agree(sid))

    def teardown(self) -> None:
        self.run(self._check_logs())
        self.run(self.down())
        self.runner.close()
        shutil.rmtree(self.folder)

    async def _check_logs(self) -> None:
        for sid, model in self.models.items():
            told = await events(self.client, sid)
            assert legal(log_of(told)) == []
            rounds = [e["payload"]["round"] for e in told if e["type"] == "run_start"]
            assert rounds == list(range(1, model.round + 1))


@pytest.mark.requirement("trust.I8", "trust.I9", "trust.I11")
def test_a_session_does_what_its_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_DRAIN", 0.05)
    run_state_machine_as_test(Machine, settings=settings(max_examples=10, stateful_step_count=20, deadline=None))
