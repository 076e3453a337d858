"""AG-UI streams of logs: translated, looked through, and checked against what the log says."""

from collections.abc import Sequence

from stellwerk.dialects.agui.dialect import DIALECT
from stellwerk.dialects.base import translate
from stellwerk.envelope.model import Envelope, LlmEnd, LlmToken, RunEnd
from tests.dialects.agui_rules import Chunk, Client, problems
from tests.dialects.sample_logs import Story, positions


def chunks(story: Story) -> list[Chunk]:
    """The stream of a session; every one of them is legal."""
    told = [chunk for _, chunk in translate(DIALECT.translator("s1"), positions(story.checked()))]
    assert problems(told) == []
    return told


def of(told: list[Chunk], *kinds: str) -> list[Chunk]:
    return [chunk for chunk in told if chunk["type"] in kinds]


def kinds(told: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in told]


def translated(log: Sequence[Envelope]) -> list[Chunk]:
    return [chunk for _, chunk in translate(DIALECT.translator("s1"), positions(log))]


def check(log: Sequence[Envelope]) -> None:
    """The stream is legal, ends with the end of a run, and shows each text once."""
    told = translated(log)
    assert problems(told) == []
    assert told[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    screen = Client().read(told)
    for message_id, text in spoken(log).items():
        assert screen.messages[message_id]["content"] == text
    assert not {id_ for id_ in in_vain(log) if id_ in screen.messages}, "nothing is left of what was said in vain"


def spoken(log: Sequence[Envelope]) -> dict[str, str]:
    """The text of every model call that ended well, by the id that it began with."""
    texts: dict[str, str] = {}
    for envelope in log:
        if isinstance(envelope, LlmToken) and envelope.payload.kind == "text":
            texts[envelope.call_id] = texts.get(envelope.call_id, "") + envelope.payload.text
    return {
        e.call_id: texts[e.call_id]
        for e in log
        if isinstance(e, LlmEnd) and e.payload.status == "ok" and e.call_id in texts
    }


def in_vain(log: Sequence[Envelope]) -> set[str]:
    """Model calls that failed or were given up in runs that ended well without them."""
    ended = {e.run_id: e.payload.status for e in log if isinstance(e, RunEnd)}
    well = {run_id for run_id, status in ended.items() if status in ("completed", "awaiting_user")}
    return {e.call_id for e in log if isinstance(e, LlmEnd) and e.payload.status != "ok" and e.run_id in well}
