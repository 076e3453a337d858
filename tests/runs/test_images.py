"""Images that come with a message: a model that takes images gets them; of any other the log says that it did not."""

import json
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stellwerk.settings import Settings
from tests import stores
from tests.api.reading import Event, sse
from tests.conftest import own_server
from tests.openai_server import OpenAiServer, Reply, openai_server
from tests.runs.talking import answer, begin, events, rest_of_run, seen, send, stop

__all__ = ["openai_server"]

SEES, BLIND, UNKNOWN = "gpt-4o", "gpt-3.5-turbo", "llava"
OPERATOR = """\
providers: {{local: {{kind: openai, base_url: "{address}", needs_key: false}}}}
graphs: {{painter: "painter.py:graph", reader: "painter.py:graph"}}
graph_images: [painter]

"""
SYSTEM = """\
version: 1
system: {{name: {name}, store_prompts: true}}
agents:
  - id: one
    model: {{provider: local, {model}}}
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


class ImageServer:
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
        with stores.beside(self.data) as stored:
            rows = [row for table in stored.names() for row in stored.rows(f"SELECT * FROM {table}")]
        values = [value.encode() if isinstance(value, str) else value for row in rows for value in row]
        return sum(value.count(b64encode(data)[:1000]) for value in values if isinstance(value, bytes))


@pytest.fixture
async def server(tmp_path: Path, openai_server: OpenAiServer) -> AsyncIterator[ImageServer]:
    async with served(tmp_path, openai_server) as found:
        yield found


@asynccontextmanager
async def served(folder: Path, models: OpenAiServer, *, slots: int = 8) -> AsyncIterator[ImageServer]:
    models.key = "none"
    (folder / "painter.py").write_text(GRAPH.format(address=models.address))
    (folder / "operator.yaml").write_text(OPERATOR.format(address=models.address))
    async with own_server(Settings(data=folder / "data", config=folder / "operator.yaml", slots=slots)) as client:
        yield ImageServer(client, models, folder / "data")


@asynccontextmanager
async def held(server: ImageServer) -> AsyncIterator[None]:
    """Hold the only slot of a server: a run that is accepted meanwhile begins later, or never if it is stopped."""
    busy = await server.begin()
    server.models.replies = [Reply(say="Well", hangs=True)]
    await send(server.client, busy, "Hold on.")
    await seen(server.client, busy, "llm_token")
    yield
    await stop(server.client, busy)


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


async def test_a_model_that_takes_images_is_sent_the_image_behind_the_words_of_its_message(server: ImageServer) -> None:
    sid, red, notes = await server.begin(), await server.file(), await server.file(b"some notes", "notes.txt")
    told = await server.say(sid, "What is this?", red, notes)
    question = part("What is this?", ("red.png", red), ("notes.txt", notes))
    assert server.asked() == [[question, image()]]
    assert warnings(told) == []
    await server.say(sid, "And the colour?")
    assert server.asked() == [[question, image()], "And the colour?"]
    await server.say(sid, "And this?", blue := await server.file(BLUE, "blue.png"))
    assert server.asked()[-1] == [part("And this?", ("blue.png", blue)), image(BLUE)]
    assert server.asked()[0] == [question, image()]


async def test_neither_the_log_nor_the_state_holds_a_second_copy_of_the_image(server: ImageServer) -> None:
    sid, red = await server.begin(), await server.file()
    await server.say(sid, "What is this?", red)
    log = await events(server.client, sid)
    (start,) = (event["payload"] for event in log if event["type"] == "llm_start")
    content = start["messages"][-1]["content"]
    assert content[1] == {"type": "image", "mime_type": "image/png", "document_id": red}
    assert b64encode(RED).decode()[:100] not in json.dumps(log)
    assert server.stored(RED) == 0


@pytest.mark.parametrize("model", [BLIND, UNKNOWN])
async def test_of_a_model_that_takes_no_images_the_log_says_once_that_it_did_not_get_it(
    server: ImageServer, model: str
) -> None:
    sid, red = await server.begin(model), await server.file()
    told = await server.say(sid, "What is this?", red)
    assert server.asked() == [words("What is this?", ("red.png", red))]
    (warning,) = warnings(told)
    assert "red.png" in warning and model in warning and "images: true" in warning
    position = next(n for n, event in enumerate(told) if event["type"] == "warning")
    assert "llm_start" in [event["type"] for event in told[position:]], "it is said before the model speaks"
    assert warnings(await server.say(sid, "And now?")) == []
    user = await sse(server.client, f"/sessions/{sid}/stream", until="run_end")
    assert len(warnings(user)) == 1, "the user's profile shows it"


async def test_the_system_says_whether_a_model_takes_images_where_langchain_does_not_know(server: ImageServer) -> None:
    red = await server.file()
    told = await server.say(await server.begin(UNKNOWN, images=True), "Look.", red)
    assert server.asked() == [[part("Look.", ("red.png", red)), image()]] and warnings(told) == []
    told = await server.say(await server.begin(SEES, images=False), "Look.", red)
    assert server.asked() == [words("Look.", ("red.png", red))] and len(warnings(told)) == 1
    told = await server.say(await server.begin(UNKNOWN, images=True, tool_calling="schema"), "Look.", red)
    assert server.asked() == [[part("Look.", ("red.png", red)), image()]] and warnings(told) == []


async def test_the_image_is_there_in_each_call_of_a_turn_and_after_a_question(server: ImageServer) -> None:
    sid, red = await server.begin(), await server.file()
    expected = [[part("What is this?", ("red.png", red)), image()]]
    server.models.replies = [
        Reply(calls=(("list_documents", {}),)),
        Reply(calls=(("ask_user", {"question": "Which corner?"}),)),
        Reply(say="The left one is red."),
    ]
    accepted = await send(server.client, sid, "What is this?", documents=[red])
    assert (await rest_of_run(server.client, sid, accepted["after"]))[-1]["payload"]["status"] == "awaiting_user"
    given = await answer(server.client, sid, text="the left")
    told = await rest_of_run(server.client, sid, given["after"])
    assert told[-1]["payload"]["status"] == "completed"
    assert [server.asked(number) for number in range(3)] == [expected] * 3


async def test_the_image_is_there_after_a_stop_in_another_answer_in_a_fork_and_in_another_process(
    tmp_path: Path, openai_server: OpenAiServer
) -> None:
    async with served(tmp_path, openai_server) as server:
        sid, red = await server.begin(), await server.file()
        expected = [part("What is this?", ("red.png", red)), image()]
        server.models.replies = [Reply(say="Well", hangs=True)]
        accepted = await send(server.client, sid, "What is this?", documents=[red])
        async with server.client.stream("GET", f"/sessions/{sid}/stream") as stream:
            async for line in stream.aiter_lines():
                if '"llm_token"' in line:
                    break
        await stop(server.client, sid)
        await server.say(sid, "Go on.")
        assert server.asked() == [expected, "Go on."]
        server.models.replies = [Reply(say="Once more.")]
        again = (await server.client.post(f"/sessions/{sid}/regenerate", json={})).json()
        await rest_of_run(server.client, sid, again["after"])
        assert server.asked() == [expected, "Go on."]
        forked = (await server.client.post(f"/sessions/{sid}/fork", json={})).json()["id"]
        assert (await server.client.delete(f"/sessions/{sid}")).status_code == 204
        assert accepted["round"] == 1
    async with served(tmp_path, openai_server) as server:
        await server.say(forked, "And here?")
        assert server.asked() == [expected, "Go on.", "And here?"]


async def test_the_image_of_a_message_that_was_stopped_before_its_first_step_comes_with_the_next(
    tmp_path: Path, openai_server: OpenAiServer
) -> None:
    async with served(tmp_path, openai_server, slots=1) as server:
        agent, graph, red = await server.begin(), await begin(server.client, "painter"), await server.file()
        expected = [part("What is this?", ("red.png", red)), image()]
        async with held(server):
            for sid in (agent, graph):
                await send(server.client, sid, "What is this?", documents=[red])
                await stop(server.client, sid)
        for sid in (agent, graph):
            assert warnings(await server.say(sid, "And now?")) == []
            assert server.asked() == [expected, "And now?"]
            await server.say(sid, "And later?")
            assert server.asked() == [expected, "And now?", "And later?"]


async def test_of_an_image_that_came_with_a_message_before_the_log_says_that_the_model_did_not_get_it(
    tmp_path: Path, openai_server: OpenAiServer
) -> None:
    async with served(tmp_path, openai_server, slots=1) as server:
        reader, red = await begin(server.client, "reader"), await server.file()
        async with held(server):
            await send(server.client, reader, "What is this?", documents=[red])
            await stop(server.client, reader)
        (warning,) = warnings(await server.say(reader, "And this?", await server.file(BLUE, "blue.png")))
        assert "red.png" in warning and "blue.png" in warning and "graph_images" in warning
        assert server.asked()[0] == words("What is this?", ("red.png", red))
        assert warnings(await server.say(reader, "And now?")) == []


async def test_an_image_that_no_model_takes_is_named_and_left_out(server: ImageServer) -> None:
    sid, large = await server.begin(), await server.file(png(padding=4_000_000), "large.png")
    fake, bitmap = await server.file(b"no image", "fake.png"), await server.file(b"BM" + bytes(200), "old.bmp")
    red = await server.file()
    told = await server.say(sid, "Look.", large, fake, bitmap, red)
    files = (("large.png", large), ("fake.png", fake), ("old.bmp", bitmap), ("red.png", red))
    assert server.asked() == [[part("Look.", *files), image()]]
    (warning,) = warnings(told)
    assert "large.png" in warning and "fake.png" in warning and "old.bmp" in warning and "red.png" not in warning


async def test_what_was_removed_is_shown_to_no_model_any_more(server: ImageServer) -> None:
    sid, red, blue = await server.begin(), await server.file(), await server.file(BLUE, "blue.png")
    await server.say(sid, "One.", red)
    await server.say(sid, "Two.", red, blue)
    path = f"/api/workflows/{sid}/messages"
    first, _, second, _ = [message["id"] for message in (await server.client.get(path)).json()]
    assert (await server.client.delete(f"{path}/{second}/files/{red}")).status_code == 200
    await server.say(sid, "Three.")
    assert server.asked()[1] == [part("Two.\n", ("blue.png", blue)), image(BLUE)]
    assert (await server.client.delete(f"{path}/{first}")).status_code == 200
    await server.say(sid, "Four.")
    assert server.asked() == [[part("Two.\n", ("blue.png", blue)), image(BLUE)], "Three.", "Four."]


async def test_a_graph_of_the_operators_is_given_the_image_in_its_message_if_he_says_so(server: ImageServer) -> None:
    sid, red = await begin(server.client, "painter"), await server.file()
    assert warnings(await server.say(sid, "What is this?", red)) == []
    await server.say(sid, "And now?")
    question = [part("What is this?", ("red.png", red)), image()]
    assert server.asked() == [question, "And now?"]
    assert server.stored(RED) == 1, "in all checkpoints together"
    assert b64encode(RED).decode()[:100] not in json.dumps(await events(server.client, sid))
    path = f"/api/workflows/{sid}/messages"
    first = (await server.client.get(path)).json()[0]["id"]
    assert (await server.client.delete(f"{path}/{first}")).status_code == 200
    assert server.stored(RED) == 0
    await server.say(sid, "Without?")
    assert server.asked() == ["And now?", "Without?"]


async def test_one_image_is_taken_out_of_a_message_of_a_graph(server: ImageServer) -> None:
    sid, red, blue = await begin(server.client, "painter"), await server.file(), await server.file(BLUE, "blue.png")
    await server.say(sid, "Which?", red, blue)
    path = f"/api/workflows/{sid}/messages"
    first = (await server.client.get(path)).json()[0]["id"]
    assert (await server.client.delete(f"{path}/{first}/files/{red}")).status_code == 200
    await server.say(sid, "And now?")
    assert server.asked() == [[part("Which?\n", ("blue.png", blue)), image(BLUE)], "And now?"]


async def test_of_any_other_graph_the_log_says_what_the_operator_can_do(server: ImageServer) -> None:
    sid, red = await begin(server.client, "reader"), await server.file()
    (warning,) = warnings(await server.say(sid, "What is this?", red))
    assert "red.png" in warning and "graph_images" in warning
    assert server.asked() == [words("What is this?", ("red.png", red))]
