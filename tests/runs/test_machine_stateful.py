"""The session machine under whatever may happen in whatever order, compared with a model of it."""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from stellwerk.envelope.model import Envelope, RunEnd, RunStart
from stellwerk.envelope.payloads import Answered
from stellwerk.runs.commands import IfBusy
from stellwerk.runs.sessions import Session
from stellwerk.tenants.principals import LOCAL_TENANT
from stellwerk.testing.order import order_problems
from stellwerk.timings import Timings
from stellwerk.views.values import Values
from stellwerk.workflows.service import StartRequest
from tests.runs.in_process import InProcessServer, gates, refusal
from tests.runs.model import Model

T = TypeVar("T")
STEPS = 20
KINDS = st.sampled_from(("work", "risk", "ask", "work", "ask", "fail", "quick"))
MOSTLY = st.sampled_from((True, True, False))
LATELY = st.sampled_from((0, 0, 0, 1, 2))
"""Which session, counted from the one that something was done to last."""


def _step(name: str, *given: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(name), LATELY, *given)


# One rule that draws one of these: of several rules, hypothesis leaves out some in each example, and messages too.
CHOICES = (
    *[_step("message", KINDS, MOSTLY)] * 6,
    *[_step("stop")] * 2,
    *[_step("regenerate")] * 2,
    *[_step("rewrite", st.integers(0, 9), st.sampled_from(("", "work", "ask", "quick", "fail")), MOSTLY)] * 3,
    *[_step("fork", st.integers(0, 5))] * 2,
    *[_step("answer", MOSTLY)] * 2,
    _step("finish", st.sampled_from(("work", "risk"))),
    _step("restart", MOSTLY),
    _step("begin"),
    _step("delete"),
)


class Machine(RuleBasedStateMachine):
    runner: ClassVar[asyncio.Runner]
    backend: ClassVar[InProcessServer]
    """One for all examples: each has sessions of its own, which it deletes."""
    numbers: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Model] = {}
        self.begin()

    @rule(step=st.sampled_from(CHOICES).flatmap(lambda step: step))
    def step(self, step: tuple[Any, ...]) -> None:
        name, which, *given = step
        sid = list(self.models)[-1 - which % len(self.models)]
        self.models[sid] = self.models.pop(sid)  # to the end, where the next step looks first
        getattr(self, name)(sid, *given)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def compare(self, sid: str, expected: str | None, work: Awaitable[Any]) -> None:
        assert self.run(refusal(work)) == expected
        self.run(self.agree(sid))

    async def agree(self, sid: str) -> None:
        """Wait until the session stands where the model says it must come to."""
        model = self.models[sid]
        status, waits = "running" if model.busy else model.place, model.place == "awaiting"
        expected = {"status": status, "round": model.round, "awaiting_user_input": waits}
        await self.backend.settled(sid, expected)
        if model.place == "running":
            await gates.reached(model.said, model.calls[model.said])

    async def agree_in_full(self, sid: str) -> None:
        await self.agree(sid)
        model, told = self.models[sid], await self.backend.log(sid)
        assert order_problems(told) == []
        assert [e.payload.round for e in told if isinstance(e, RunStart)] == list(range(1, model.round + 1))
        ends = [e.payload for e in told if isinstance(e, RunEnd) and e.payload.status != "awaiting_user"]
        assert [end.status for end in ends] == [end.place for end in model.ends]
        heard = [", ".join(end.heard) for end in model.ends if end.place == "completed"]
        assert [end.result for end in ends if end.status == "completed"] == heard
        assert {text: gates.passed[text] for text in model.calls} == model.calls
        assert await self.shown(sid, told) == [[*model.heard, *model.waiting], list(model.heard)]
        if model.round:
            workflow = await self.backend.workflows.cache.of(LOCAL_TENANT, sid)
            standing = (workflow.status, workflow.round, workflow.awaiting_user_input)
            users = [each for each in workflow.messages if each.role == "user"]
            spoken = [each.content for each in users if each.parent_message_id is None]  # answers have a question
            assert spoken == [*model.heard, *model.waiting]
            assert standing == ("running" if model.busy else model.place, model.round, model.place == "awaiting")

    async def shown(self, sid: str, told: Sequence[Envelope]) -> list[list[str]]:
        """The messages of the user, in the transcript and in the values of LangGraph's clients."""
        transcript = await self.backend.services.overviews.transcript(LOCAL_TENANT, sid, after=0, limit=500)
        values = Values()
        for envelope in told:
            values.feed(envelope)
        said = [entry.text for entry in transcript if entry.kind == "message" and entry.role == "user"]
        return [said, [each["content"] for each in values.snapshot()["messages"] if each["type"] == "human"]]

    def begin(self, _: str = "") -> None:
        self.models[self.run(self.backend.begin())] = Model()

    def message(self, sid: str, kind: str, enqueue: bool) -> None:
        Machine.numbers += 1
        text = f"{kind} {Machine.numbers}"
        is_workflow = not enqueue and Machine.numbers % 2 == 0
        if is_workflow and not self.models[sid].round:  # for those who poll, there is none before its first message
            wish = StartRequest(prompt=text, workflow_id=sid)
            assert self.run(refusal(self.backend.workflows.start(LOCAL_TENANT, wish))) == "unknown_workflow"
            is_workflow = False
        expected = self.models[sid].message(text, enqueue=enqueue)
        if not is_workflow:
            sending = self.backend.sessions.send(LOCAL_TENANT, sid, text, if_busy="enqueue" if enqueue else "reject")
            self.compare(sid, expected, sending)
        else:  # the same by the door for workflows
            wish = StartRequest(prompt=text, workflow_id=sid)
            self.compare(sid, expected, self.backend.workflows.start(LOCAL_TENANT, wish))

    def at(self, place: str, sid: str, kind: str) -> str:
        """The session, if it stands there, or another that does; if none does, a message may bring it there."""
        found = [each for each in (sid, *self.models) if self.models[each].place == place]
        if not found and not self.models[sid].busy:
            self.message(sid, kind, enqueue=False)
        return found[0] if found else sid

    def answer(self, sid: str, asked: bool) -> None:
        sid = self.at("awaiting", sid, "ask") if asked else sid
        expected = self.models[sid].answer()
        self.compare(
            sid, expected, self.backend.sessions.answer(LOCAL_TENANT, sid, Answered(ask_id="", text="that way"))
        )

    def finish(self, sid: str, kind: str) -> None:
        sid = self.at("running", sid, kind)
        if self.models[sid].place == "running":
            gates.open(self.models[sid].said)
            self.models[sid].finish()
            self.run(self.agree(sid))

    def regenerate(self, sid: str) -> None:
        expected = self.models[sid].regenerate()
        self.compare(sid, expected, self.backend.sessions.regenerate(LOCAL_TENANT, sid))

    def rewrite(self, sid: str, run: int, kind: str, interrupt: bool) -> None:
        """Regenerate an earlier answer; with a kind, edit the message before it."""
        model, runs = self.models[sid], self.run(self.runs(sid))
        number = run % len(runs) + 1 if runs else 0
        if number <= model.forked:  # the state before it is in the session that this one was forked from, most often
            return
        Machine.numbers += bool(kind)
        text = f"{kind} {Machine.numbers}" if kind else ""
        expected = model.rewrite(number, text, interrupt=interrupt)
        sessions = self.backend.sessions
        if_busy: IfBusy = "interrupt" if interrupt else "reject"
        if kind:
            work = sessions.send(LOCAL_TENANT, sid, text, replaces=runs[number - 1], if_busy=if_busy)
        else:
            work = sessions.regenerate(LOCAL_TENANT, sid, run_id=runs[number - 1], if_busy=if_busy)
        self.compare(sid, expected, work)

    async def runs(self, sid: str) -> list[str]:
        return [e.call_id for e in await self.backend.log(sid) if isinstance(e, RunStart)]

    def stop(self, sid: str) -> None:
        self.models[sid].stop()
        self.compare(sid, None, self.backend.sessions.stop(LOCAL_TENANT, sid))

    def fork(self, sid: str, end: int) -> None:
        made = self.models[sid].fork(end)
        if isinstance(made, str):
            self.compare(sid, made, self.backend.sessions.fork(LOCAL_TENANT, sid, None))
            return
        new = self.run(self.forked(sid, len(made.ends))).id
        self.models[new] = made
        self.message(new, "quick", enqueue=False)  # says what it has heard, there and here
        self.run(self.agree_in_full(new))

    async def forked(self, sid: str, end: int) -> Session:
        told = enumerate(await self.backend.log(sid), 1)
        ends = [at for at, e in told if isinstance(e, RunEnd) and e.payload.status != "awaiting_user"]
        return await self.backend.sessions.fork(LOCAL_TENANT, sid, ends[end - 1])

    def delete(self, sid: str) -> None:
        del self.models[sid]
        self.run(self.deleted(sid))
        if not self.models:
            self.begin()

    async def deleted(self, sid: str) -> None:
        sessions = self.backend.sessions
        await sessions.delete(LOCAL_TENANT, sid)
        for late in (
            sessions.find(LOCAL_TENANT, sid),
            sessions.send(LOCAL_TENANT, sid, "quick"),
            sessions.answer(LOCAL_TENANT, sid, Answered(ask_id="", text="that way")),
            sessions.regenerate(LOCAL_TENANT, sid),
            sessions.fork(LOCAL_TENANT, sid, None),
            sessions.stop(LOCAL_TENANT, sid),
        ):
            assert await refusal(late) == "unknown_session"

    def restart(self, sid: str, crashed: bool) -> None:
        """Killed; or told to end, and unable to wait for the tools."""
        self.at("running", sid, "work")
        self.run(self.backend.crash() if crashed else self.backend.down())
        for model in self.models.values():
            model.cut_off(crashed=crashed)
        self.run(self.backend.up())
        for each in self.models:
            self.run(self.agree(each))

    def teardown(self) -> None:
        for sid in self.models:
            self.run(self.agree_in_full(sid))
            self.run(self.deleted(sid))


@pytest.mark.timeout(3600)  # it takes 20 s of one core, more in `make crash`, and others may want it as well
@pytest.mark.requirement("trust.I8", "trust.I9", "trust.I11", "trust.I14")
def test_a_session_does_what_its_model_says(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        Machine.runner, Machine.backend = runner, InProcessServer(tmp_path, Timings(drain=0.01))
        runner.run(Machine.backend.up())
        # What fails is shown as it was drawn: to make it smaller would take longer than a test may.
        once = (Phase.explicit, Phase.reuse, Phase.generate)
        chosen = settings(stateful_step_count=STEPS, phases=once)
        run_state_machine_as_test(Machine, settings=chosen)
        runner.run(Machine.backend.down())
