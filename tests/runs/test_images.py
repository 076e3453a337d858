"""Images that come with a message: a model that takes images gets them; of any other the log says that it did not."""

import json
import sqlite3
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.api.reading import Event, sse
from tests.conftest import own_server
from tests.openai_server import OpenAiServer, Reply, openai_server
from tests.runs.talking import answer, begin, events, rest_of_run, seen, send, stop

__all__ = ["openai_server"]

SEES, BLIND, UNKNOWN = "gpt-4o", "gpt-3.5-turbo", "llava"
OPERATOR = """\
providers: {{house: {{kind: openai, base_url: "{address}", needs_key: false}}}}
graphs: {{painter: "painter.py:graph", reader: "painter.py:graph"}}
graph_images: [painter]

"""
SYSTEM = """\
version: 1
system: {{name: {name}, store_prompts: true}}
agents:
  - id: one
    model: {{provider: house, {model}}}
    tools: {{allow: [list_documents, ask_user]}}
"""
GRAPH = """\
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model="any", base_url="{address}", api_key="none", max_retries=0)

async def speak(state):
    return {{"messages": [await model.ainvoke(state["messages"])]}}

graph = StateGraph(MessagesState).add_node("speak", speak).add_edge(START, "speak").add_edge("speak", END).compile()
"""


def png(colour: bytes = b"\xff\0\0", *, padding: int = 0) -> bytes:
    """A picture of one point; ``padding`` are bytes of a comment in it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    header = (1).to_bytes(4) + (1).to_bytes(4) + bytes([8, 2, 0, 0, 0])
    text = chunk(b"tEXt", b"Comment\0" + b"x" * padding) if padding else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + text
        + chunk(b"IDAT", zlib.compress(b"\0" + colour))
        + (chunk(b"IEND", b""))
    )


RED, BLUE = png(padding=2000), png(b"\0\0\xff", padding=2000)


class House:
    """A server of ours, and the models behind it."""

    def __init__(self, client: httpx2.AsyncClient, models: OpenAiServer, data: Path) -> None:
        self.client, self.models, self.data = client, models, data

    async def begin(self, model: str = SEES, **more: Any) -> str:
        said = ", ".join(f"{key}: {json.dumps(value)}" for key, value in {"model": model, **more}.items())
        system = SYSTEM.format(name="looker", model=said)
        made = await self.client.post("/agent-systems", content=system, headers={"Content-Type": "application/yaml"})
        assert made.status_code in (200, 201), made.text
        return await begin(self.client, "looker")

    async def file(self, data: bytes = RED, name: str = "red.png") -> str:
        kept = await self.client.post("/files", files={"file": (name, data)})
        assert kept.status_code == 201, kept.text
        return str(kept.json()["id"])

    async def say(self, sid: str, text: str, *documents: str, reply: Reply | None = None) -> list[Event]:
        self.models.replies.append(reply or Reply(say="I see."))
        accepted = await send(self.client, sid, text, documents=documents)
        return await rest_of_run(self.client, sid, accepted["after"])

    def asked(self, number: int = -1) -> list[Any]:
        """What the model was sent, without the system's words."""
        messages = self.models.received[number].body["messages"]
        return [message["content"] for message in messages if message["role"] == "user"]

    def stored(self, data: bytes) -> int:
        """How often an image is in the database as base64."""
        with closing(sqlite3.connect(f"file:{self.data / 'stellwerk.db'}?mode=ro", uri=True)) as database:
            tables = [name for (name,) in database.execute("select name from sqlite_schema where type = 'table'")]
            rows = [row for table in tables for row in database.execute(f'select * from "{table}"')]
        values = [value.encode() if isinstance(value, str) else value for row in rows for value in row]
        return sum(value.count(b64encode(data)[:1000]) for value in values if isinstance(value, bytes))


@pytest.fixture
async def house(tmp_path: Path, openai_server: OpenAiServer) -> AsyncIterator[House]:
    async with served(tmp_path, openai_server) as found:
        yield found


@asynccontextmanager
async def served(folder: Path, models: OpenAiServer, *, slots: int = 8) -> AsyncIterator[House]:
    models.key = "none"
    (folder / "painter.py").write_text(GRAPH.format(address=models.address))
    (folder / "operator.yaml").write_text(OPERATOR.format(address=models.address))
    async with own_server(Settings(data=folder / "data", config=folder / "operator.yaml", slots=slots)) as client:
        yield House(client, models, folder / "data")


@asynccontextmanager
async def held(house: House) -> AsyncIterator[None]:
    """Hold the only slot of a server: a run that is accepted meanwhile begins later, or never if it is stopped."""
    busy = await house.begin()
    house.models.replies = [Reply(say="Well", hangs=True)]
    await send(house.client, busy, "Hold on.")
    await seen(house.client, busy, "llm_token")
    yield
    await stop(house.client, busy)


def image(data: bytes = RED) -> dict[str, Any]:
    url = f"data:image/png;base64,{b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def words(text: str, *files: tuple[str, str]) -> str:
    return "\n".join([text, *(f"[attached {name}, document_id {file}]" for name, file in files)])


def part(text: str, *files: tuple[str, str]) -> dict[str, Any]:
    return {"type": "text", "text": words(text, *files)}


def warnings(told: list[Event]) -> list[str]:
    found = [event["payload"] for event in told if event["type"] == "warning"]
    assert {problem["code"] for problem in found} <= {"images_not_shown"}
    return [problem["message"] for problem in found]


async def test_a_model_that_takes_images_is_sent_the_image_behind_the_words_of_its_message(house: House) -> None:
    sid, red, notes = await house.begin(), await house.file(), await house.file(b"some notes", "notes.txt")
    told = await house.say(sid, "What is this?", red, notes)
    question = part("What is this?", ("red.png", red), ("notes.txt", notes))
    assert house.asked() == [[question, image()]]
    assert warnings(told) == []
    await house.say(sid, "And the colour?")
    assert house.asked() == [[question, image()], "And the colour?"]
    await house.say(sid, "And this?", blue := await house.file(BLUE, "blue.png"))
    assert house.asked()[-1] == [part("And this?", ("blue.png", blue)), image(BLUE)]
    assert house.asked()[0] == [question, image()]


async def test_neither_the_log_nor_the_state_holds_a_second_copy_of_the_image(house: House) -> None:
    sid, red = await house.begin(), await house.file()
    await house.say(sid, "What is this?", red)
    log = await events(house.client, sid)
    (start,) = (event["payload"] for event in log if event["type"] == "llm_start")
    content = start["messages"][-1]["content"]
    assert content[1] == {"type": "image", "mime_type": "image/png", "document_id": red}
    assert b64encode(RED).decode()[:100] not in json.dumps(log)
    assert house.stored(RED) == 0


@pytest.mark.parametrize("model", [BLIND, UNKNOWN])
async def test_of_a_model_that_takes_no_images_the_log_says_once_that_it_did_not_get_it(
    house: House, model: str
) -> None:
    sid, red = await house.begin(model), await house.file()
    told = await house.say(sid, "What is this?", red)
    assert house.asked() == [words("What is this?", ("red.png", red))]
    (warning,) = warnings(told)
    assert "red.png" in warning and model in warning and "images: true" in warning
    position = next(n for n, event in enumerate(told) if event["type"] == "warning")
    assert "llm_start" in [event["type"] for event in told[position:]], "it is said before the model speaks"
    assert warnings(await house.say(sid, "And now?")) == []
    user = await sse(house.client, f"/sessions/{sid}/stream", until="run_end")
    assert len(warnings(user)) == 1, "the user's profile shows it"


async def test_the_system_says_whether_a_model_takes_images_where_langchain_does_not_know(house: House) -> None:
    red = await house.file()
    told = await house.say(await house.begin(UNKNOWN, images=True), "Look.", red)
    assert house.asked() == [[part("Look.", ("red.png", red)), image()]] and warnings(told) == []
    told = await house.say(await house.begin(SEES, images=False), "Look.", red)
    assert house.asked() == [words("Look.", ("red.png", red))] and len(warnings(told)) == 1
    told = await house.say(await house.begin(UNKNOWN, images=True, tool_calling="schema"), "Look.", red)
    assert house.asked() == [[part("Look.", ("red.png", red)), image()]] and warnings(told) == []


async def test_the_image_is_there_in_each_call_of_a_turn_and_after_a_question(house: House) -> None:
    sid, red = await house.begin(), await house.file()
    expected = [[part("What is this?", ("red.png", red)), image()]]
    house.models.replies = [
        Reply(calls=(("list_documents", {}),)),
        Reply(calls=(("ask_user", {"question": "Which corner?"}),)),
        Reply(say="The left one is red."),
    ]
    accepted = await send(house.client, sid, "What is this?", documents=[red])
    assert (await rest_of_run(house.client, sid, accepted["after"]))[-1]["payload"]["status"] == "awaiting_user"
    given = await answer(house.client, sid, text="the left")
    told = await rest_of_run(house.client, sid, given["after"])
    assert told[-1]["payload"]["status"] == "completed"
    assert [house.asked(number) for number in range(3)] == [expected] * 3


async def test_the_image_is_there_after_a_stop_in_another_answer_in_a_fork_and_in_another_process(
    tmp_path: Path, openai_server: OpenAiServer
) -> None:
    async with served(tmp_path, openai_server) as house:
        sid, red = await house.begin(), await house.file()
        expected = [part("What is this?", ("red.png", red)), image()]
        house.models.replies = [Reply(say="Well", hangs=True)]
        accepted = await send(house.client, sid, "What is this?", documents=[red])
        async with house.client.stream("GET", f"/sessions/{sid}/stream") as stream:
            async for line in stream.aiter_lines():
                if '"llm_token"' in line:
                    break
        await stop(house.client, sid)
        await house.say(sid, "Go on.")
        assert house.asked() == [expected, "Go on."]
        house.models.replies = [Reply(say="Once more.")]
        again = (await house.client.post(f"/sessions/{sid}/regenerate", json={})).json()
        await rest_of_run(house.client, sid, again["after"])
        assert house.asked() == [expected, "Go on."]
        forked = (await house.client.post(f"/sessions/{sid}/fork", json={})).json()["id"]
        assert (await house.client.delete(f"/sessions/{sid}")).status_code == 204
        assert accepted["round"] == 1
    async with served(tmp_path, openai_server) as house:
        await house.say(forked, "And here?")
        assert house.asked() == [expected, "Go on.", "And here?"]


async def test_the_image_of_a_message_that_was_stopped_before_its_first_step_comes_with_the_next(
    tmp_path: Path, openai_server: OpenAiServer
) -> None:
    async with served(tmp_path, openai_server, slots=1) as house:
        agent, graph, red = await house.begin(), await begin(house.client, "painter"), await house.file()
        expected = [part("What is this?", ("red.png", red)), image()]
        async with held(house):
            for sid in (agent, graph):
                await send(house.client, sid, "What is this?", documents=[red])
                await stop(house.client, sid)
        for sid in (agent, graph):
            assert warnings(await house.say(sid, "And now?")) == []
            assert house.asked() == [expected, "And now?"]
            await house.say(sid, "And later?")
            assert house.asked() == [expected, "And now?", "And later?"]


async def test_of_an_image_that_came_with_a_message_before_the_log_says_that_the_model_did_not_get_it(
    tmp_path: Path, openai_server: OpenAiServer
) -> None:
    async with served(tmp_path, openai_server, slots=1) as house:
        reader, red = await begin(house.client, "reader"), await house.file()
        async with held(house):
            await send(house.client, reader, "What is this?", documents=[red])
            await stop(house.client, reader)
        (warning,) = warnings(await house.say(reader, "And this?", await house.file(BLUE, "blue.png")))
        assert "red.png" in warning and "blue.png" in warning and "graph_images" in warning
        assert house.asked()[0] == words("What is this?", ("red.png", red))
        assert warnings(await house.say(reader, "And now?")) == []


async def test_an_image_that_no_model_takes_is_named_and_left_out(house: House) -> None:
    sid, large = await house.begin(), await house.file(png(padding=4_000_000), "large.png")
    fake, bitmap = await house.file(b"no image", "fake.png"), await house.file(b"BM" + bytes(200), "old.bmp")
    red = await house.file()
    told = await house.say(sid, "Look.", large, fake, bitmap, red)
    files = (("large.png", large), ("fake.png", fake), ("old.bmp", bitmap), ("red.png", red))
    assert house.asked() == [[part("Look.", *files), image()]]
    (warning,) = warnings(told)
    assert "large.png" in warning and "fake.png" in warning and "old.bmp" in warning and "red.png" not in warning


async def test_what_was_removed_is_shown_to_no_model_any_more(house: House) -> None:
    sid, red, blue = await house.begin(), await house.file(), await house.file(BLUE, "blue.png")
    await house.say(sid, "One.", red)
    await house.say(sid, "Two.", red, blue)
    path = f"/api/workflows/{sid}/messages"
    first, _, second, _ = [message["id"] for message in (await house.client.get(path)).json()]
    assert (await house.client.delete(f"{path}/{second}/files/{red}")).status_code == 200
    await house.say(sid, "Three.")
    assert house.asked()[1] == [part("Two.\n", ("blue.png", blue)), image(BLUE)]
    assert (await house.client.delete(f"{path}/{first}")).status_code == 200
    await house.say(sid, "Four.")
    assert house.asked() == [[part("Two.\n", ("blue.png", blue)), image(BLUE)], "Three.", "Four."]


async def test_a_graph_of_the_operators_is_given_the_image_in_its_message_if_he_says_so(house: House) -> None:
    sid, red = await begin(house.client, "painter"), await house.file()
    assert warnings(await house.say(sid, "What is this?", red)) == []
    await house.say(sid, "And now?")
    question = [part("What is this?", ("red.png", red)), image()]
    assert house.asked() == [question, "And now?"]
    assert house.stored(RED) == 1, "in all checkpoints together"
    assert b64encode(RED).decode()[:100] not in json.dumps(await events(house.client, sid))
    path = f"/api/workflows/{sid}/messages"
    first = (await house.client.get(path)).json()[0]["id"]
    assert (await house.client.delete(f"{path}/{first}")).status_code == 200
    assert house.stored(RED) == 0
    await house.say(sid, "Without?")
    assert house.asked() == ["And now?", "Without?"]


async def test_one_image_is_taken_out_of_a_message_of_a_graph(house: House) -> None:
    sid, red, blue = await begin(house.client, "painter"), await house.file(), await house.file(BLUE, "blue.png")
    await house.say(sid, "Which?", red, blue)
    path = f"/api/workflows/{sid}/messages"
    first = (await house.client.get(path)).json()[0]["id"]
    assert (await house.client.delete(f"{path}/{first}/files/{red}")).status_code == 200
    await house.say(sid, "And now?")
    assert house.asked() == [[part("Which?\n", ("blue.png", blue)), image(BLUE)], "And now?"]


async def test_of_any_other_graph_the_log_says_what_the_operator_can_do(house: House) -> None:
    sid, red = await begin(house.client, "reader"), await house.file()
    (warning,) = warnings(await house.say(sid, "What is this?", red))
    assert "red.png" in warning and "graph_images" in warning
    assert house.asked() == [words("What is this?", ("red.png", red))]
