"""AG-UI for a client that names threads and runs itself, knows less than the log, or is of an older version."""

from dataclasses import replace

import pytest

from stellwerk.dialects.agui.dialect import DIALECT, AguiOptions
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope
from stellwerk.envelope.results import FileRef
from tests.dialects.agui_rules import Chunk, Client, problems
from tests.dialects.agui_streams import kinds, of
from tests.dialects.sample_logs import Story, positions

REPORT = FileRef(document_id="d1", filename="a.pdf", mime="application/pdf", size=9)


def conversation() -> Story:
    """Three rounds: one answer each."""
    story = Story()
    for round_ in (1, 2, 3):
        story.begin(f"question {round_}").speak(f"a{round_}", f"answer {round_}").end()
    return story


def chunks(log: list[Envelope], options: AguiOptions, *, of_last_trace: bool = False) -> list[Chunk]:
    translator = replace(DIALECT, options=options).translator("s1")
    begun = max(number for number, each in enumerate(log) if each.call_id == each.run_id and each.seq == 1)
    start = begun if of_last_trace else 0
    for envelope in log[:start]:
        translator.recall(envelope)  # type: ignore[attr-defined]
    told = [chunk for _, chunk in translate(translator, positions(log)[start:])]
    assert problems(told) == []
    return told


def ids_of(log: list[Envelope]) -> list[str]:
    return [message["id"] for message in of_snapshot(log)]


def of_snapshot(log: list[Envelope]) -> list[Chunk]:
    told = chunks(log, AguiOptions(run=("r3", "r3"), known=frozenset()))
    return list(of(told, "MESSAGES_SNAPSHOT")[-1]["messages"])


def test_ids_of_the_client_are_echoed_for_its_thread_and_its_run() -> None:
    told = chunks(conversation().checked(), AguiOptions(thread_id="chat 7", run=("r2", "run of the client")))
    runs = [(each["threadId"], each["runId"]) for each in of(told, "RUN_STARTED", "RUN_FINISHED")]
    assert {thread for thread, _ in runs} == {"chat 7"}
    assert [run for _, run in runs] == ["r1", "r1", "run of the client", "run of the client", "r3", "r3"]
    assert of(told, "RUN_STARTED")[1]["input"]["runId"] == "run of the client"


@pytest.mark.parametrize("has", [(), (0,), (1,), (2, 3), (0, 3), (0, 1, 2), (1, 3)])
@pytest.mark.parametrize("of_last_trace", [False, True])
def test_a_client_that_lacks_messages_gets_them_in_their_order(has: tuple[int, ...], of_last_trace: bool) -> None:
    log = conversation().checked()
    whole = of_snapshot(log)
    client = Client()
    has_already = [whole[number] for number in has] + [whole[-1]]
    client.read([{"type": "MESSAGES_SNAPSHOT", "messages": has_already}])
    options = AguiOptions(run=("r3", "mine"), known=frozenset(each["id"] for each in has_already))
    screen = client.read([c for c in chunks(log, options, of_last_trace=of_last_trace) if c.get("runId") != "r1"])
    assert list(screen.messages) == [each["id"] for each in whole] + ["a3"]


def test_a_client_that_has_all_messages_gets_no_snapshot() -> None:
    log = conversation().checked()
    told = chunks(log, AguiOptions(run=("r3", "mine"), known=frozenset(ids_of(log))), of_last_trace=True)
    assert kinds(told)[:2] == ["RUN_STARTED", "TEXT_MESSAGE_START"]


def test_results_and_stops_are_what_clients_before_1_read() -> None:
    story = Story().begin().speak("x", "", ("make", "c1", {})).use("make", "c1", {})
    log = story.used("make", "c1", REPORT).end("stopped").checked()
    result, stopped = (chunks(log, AguiOptions(is_before_1=True))[number] for number in (-2, -1))
    assert result["content"] == "[file a.pdf, application/pdf, 9 bytes, document d1]"
    assert (stopped["type"], stopped["code"]) == ("RUN_ERROR", "cancelled")
    result, stopped = (chunks(log, AguiOptions())[number] for number in (-2, -1))
    assert result["content"][0]["source"]["value"] == "/files/d1"
    assert stopped["outcome"] == {"type": "cancelled"}


def test_a_round_that_is_replaced_goes_with_all_rounds_after_it() -> None:
    log = conversation().begin("other question 2", replaces="r2").speak("a4", "other answer").end().checked()
    screen = Client().read(chunks(log, AguiOptions()))
    assert screen.texts() == ["answer 1 ", "other answer "]
    assert screen.texts("user") == ["question 1", "other question 2"]


def test_a_renamed_message_keeps_the_id_under_which_it_was_streamed() -> None:
    story = Story().begin("one").think("a").token("a", "hi").thought("a", message_id="renamed")
    story.says("assistant", "hi", "renamed").end().begin("two")
    log = story.speak("b", "ho").end().checked()
    told = chunks(log, AguiOptions(run=("r2", "r2"), known=frozenset()), of_last_trace=True)
    assert "a" in [message["id"] for message in of(told, "MESSAGES_SNAPSHOT")[-1]["messages"]]
