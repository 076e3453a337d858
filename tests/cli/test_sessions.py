"""`stellwerk sessions`, `tail`, `export` and `replay`: real processes, and a real server."""

import asyncio
import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest

from stellwerk.settings import Settings
from tests.api.reading import whole_round
from tests.cli.processes import PATIENCE, complaint, line_with, started, stellwerk, until
from tests.commands import Command
from tests.conftest import running_server
from tests.runs.talking import begin, events, send


async def test_sessions_are_listed_as_a_table_and_as_json(address: str, client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "ask")
    code, out, err = await stellwerk("sessions", "--url", address)
    assert (code, err) == (0, "")
    headings, row = (line.split() for line in out.splitlines())
    assert headings == ["ID", "SYSTEM", "STATUS", "ROUND", "EVENTS", "BEGUN", "ACTIVE", "TITLE"]
    assert (row[:4], row[-1]) == ([sid, "demo", "asks", "1"], "ask")
    code, out, err = await stellwerk("sessions", "--json", STELLWERK_URL=address)
    assert (code, err) == (0, "")
    assert json.loads(out)["awaiting_user_input"] is True


WANTING = Path(__file__).parents[1] / "runs/wanting/graphs.py"


async def test_a_message_is_sent_and_its_answer_printed(tmp_path: Path) -> None:
    own = {name: f"{WANTING}:{name}" for name in ("mail", "settings")}
    async with running_server(Settings(data=tmp_path / "data"), own=own) as address:
        mail = ["--input", '{"email_input": {"author": "Ann"}}']
        code, out, err = await stellwerk("send", "--system", "mail", *mail, "--url", address)
        assert (code, out) == (0, "Ann wrote (0)\n")
        sid = err.removeprefix("session ").strip()
        code, out, err = await stellwerk("send", "--session", sid, "--input", '{"mail": 1}', "--url", address)
        assert (code, out) == (2, "")
        assert err.startswith("stellwerk: input.mail: mail has no such key; it has: email_input, priority")
        options = ["--run-config", '{"metadata": {"team": 7}}', "--context", '{"language": "German"}']
        code, out, _ = await stellwerk("send", "--system", "settings", "hi", *options, "--url", address)
        assert (code, out) == (0, "German 7\n")


async def test_a_question_ends_send_and_the_next_one_answers_it(address: str) -> None:
    code, out, err = await stellwerk("send", "ask", "--url", address)
    assert (code, out) == (3, "")
    sid = err.splitlines()[0].removeprefix("session ")
    assert err.splitlines()[-1] == f'stellwerk: it waits for an answer: stellwerk send --session {sid} "…"'
    code, out, err = await stellwerk("send", "--session", sid, "blue", "--json", "--url", address)
    assert (code, err) == (0, "")
    assert [json.loads(line)["type"] for line in out.splitlines()][-1] == "run_end"


async def test_the_first_argument_of_send_may_be_a_session_or_an_agent_system(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    where = ("--url", address)
    code, out, err = await stellwerk("send", sid, "How is", "the weather?", *where)
    assert (code, out.startswith("It is sunny."), err) == (0, True, "")
    code, out, err = await stellwerk("send", sid, *where)
    assert (code, out) == (2, "")
    assert err == f'stellwerk: {sid} is a session; write the message after it: stellwerk send {sid} "…"\n'
    assert await said_in(client, sid) == ["How is the weather?"]

    for arguments, system, text in [
        (["office", "hello"], "office", "hello"),
        (["office", "hours", "today?"], "demo", "office hours today?"),  # words of a text without quotes
        (["good", "morning"], "demo", "good morning"),
        (["--system", "demo", "office", "hours"], "demo", "office hours"),
    ]:
        code, _, err = await stellwerk("send", *arguments, *where)
        begun = err.splitlines()[0].removeprefix("session ")
        assert (await client.get(f"/sessions/{begun}")).json()["agent_system_id"] == system
        assert await said_in(client, begun) == [text]


async def said_in(client: httpx2.AsyncClient, sid: str) -> list[str]:
    messages = (await client.get(f"/sessions/{sid}/messages")).json()["messages"]
    return [message["text"] for message in messages if message["role"] == "user"]


async def test_no_sessions_are_no_error(address: str) -> None:
    assert await stellwerk("sessions", "--url", address) == (0, "", f"there are no sessions at {address}\n")


@pytest.mark.parametrize("command", [["sessions"], ["tail", "x"], ["export", "x"]])
async def test_a_server_that_is_not_there_is_one_clear_line(command: list[str]) -> None:
    code, out, err = await stellwerk(*command, "--url", "http://127.0.0.1:9")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("stellwerk: no server answers at http://127.0.0.1:9: ")


@pytest.mark.parametrize(
    "arguments",
    ["keys revoke", "tenants lock", "tenants unlock", "tenants limits --runs 1", "secrets delete", "tail", "export"],
)
@pytest.mark.parametrize("nothing", ["", ".."])
def test_an_id_that_names_nothing_asks_the_server_for_nothing(arguments: str, nothing: str, command: Command) -> None:
    done = command(*arguments.split(), nothing, "--url", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"stellwerk: {nothing!r} names nothing; say the id or the name of what you mean\n"


@pytest.mark.parametrize("command", ["tail", "export"])
async def test_an_unknown_session_is_reported_with_a_command_as_the_remedy(address: str, command: str) -> None:
    code, out, err = await stellwerk(command, "nonsense", "--url", address)
    assert (code, out) == (2, "")
    assert err == f"stellwerk: there is no session 'nonsense'; `stellwerk sessions` lists those of {address}\n"


async def test_tail_shows_what_was_said_and_done(address: str, client: httpx2.AsyncClient, sid: str) -> None:
    await whole_round(client, sid, "How is the weather?")
    async with started("tail", sid, "--url", address) as process:
        assert await line_with(process, "weather") == "> How is the weather?"
        await line_with(process, "get_weather")
        await line_with(process, "completed in")
        await whole_round(client, sid, "ask")
        await line_with(process, "? ")
        await send(client, sid, "blue")
        assert await line_with(process, "blue") == "> blue"
        await line_with(process, "completed in")
        await whole_round(client, sid, "fail")
        await line_with(process, "failed in")
        await line_with(process, "✗")


async def test_tail_after_a_position_inside_a_run_measures_only_what_it_saw_from_its_beginning(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    await whole_round(client, sid, "How is the weather?")
    log = await events(client, sid)
    called = next(event["position"] for event in log if event["type"] == "tool_start")
    async with started("tail", sid, "--after", str(called), "--url", address) as process:
        assert (await line_with(process, "get_weather")).startswith("✓ get_weather  0.")
        assert await line_with(process, "completed") == "completed · scripted 41 → 34 tokens"
        await whole_round(client, sid, "How is the weather?")
        assert (await line_with(process, "completed")).startswith("completed in ")


@pytest.mark.parametrize("how", ["--json", "human"])
async def test_tail_goes_on_after_a_restart_and_says_nothing_twice(tmp_path: Path, how: str) -> None:
    settings, options = Settings(data=tmp_path), ["--json"] if how == "--json" else []
    async with AsyncExitStack() as stack:
        async with running_server(settings) as address, httpx2.AsyncClient(base_url=address, timeout=20) as client:
            sid = await begin(client)
            await whole_round(client, sid, "number one")
            process = await stack.enter_async_context(started("tail", sid, "--url", address, *options))
            await line_with(process, "run_end" if options else "completed in")
        async with running_server(settings, port=int(address.rpartition(":")[2])):
            async with httpx2.AsyncClient(base_url=address, timeout=20) as client:
                await send(client, sid, "number two")
            assert "number one" not in await until(process, "number two")
            await line_with(process, "run_end" if options else "completed in")
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(PATIENCE):
                rest = await process.stdout.read() if process.stdout else b""
                assert (await process.wait(), rest, await complaint(process)) == (130, b"", "")


async def test_tail_ends_quietly_when_its_reader_has_gone(address: str, client: httpx2.AsyncClient, sid: str) -> None:
    for options in ([], ["--json"]):
        async with started("tail", sid, "--url", address, *options) as process:
            await whole_round(client, sid, "hello")
            await line_with(process, "hello")
            process.stdout._transport.close()  # type: ignore[union-attr]
            await whole_round(client, sid, "once more")
            async with asyncio.timeout(PATIENCE):
                assert (await process.wait(), await complaint(process)) == (141, "")


async def test_what_was_exported_is_the_log_and_is_replayed_without_a_server(
    address: str, client: httpx2.AsyncClient, sid: str, tmp_path: Path
) -> None:
    await whole_round(client, sid, "delegate this")
    code, out, err = await stellwerk("export", sid, "--url", address)
    assert (code, err) == (0, "")
    assert [json.loads(line) for line in out.splitlines()] == await events(client, sid)
    file = tmp_path / "log.jsonl"
    file.write_text(out, "utf-8")
    code, shown, err = await stellwerk("replay", str(file))
    assert (code, err) == (0, "")
    assert shown.startswith("> delegate this\n")
    assert "researcher │" in shown
    assert await stellwerk("replay", "-", "--speed", "1000", stdin=out.encode()) == (0, shown, "")


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("{}\n", "is no envelope: Object missing required field `position`"),
        ("hello\n", "is no envelope: JSON is malformed"),
        ('{"position": 1, "type": "dance"}\n', "is no envelope: Invalid value 'dance'"),
        ("[" * 100_000, "is no envelope"),
        ("\xff", "is no envelope"),
    ],
)
async def test_a_file_that_is_no_log_is_reported_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"\n" + text.encode("latin-1"))
    code, out, err = await stellwerk("replay", str(file))
    assert (code, out) == (2, "")
    assert err.startswith(f"stellwerk: {file}:2 {complaint}")
    assert "Traceback" not in err


async def test_a_file_that_is_not_there_and_a_speed_that_is_none_are_refused(tmp_path: Path) -> None:
    assert (await stellwerk("replay", "nowhere"))[::2] == (
        2,
        "stellwerk: cannot read nowhere: No such file or directory\n",
    )
    for speed in ("0", "-1", "nan", "fast"):
        code, _, err = await stellwerk("replay", "nowhere", "--speed", speed)
        assert code == 2
        assert "--speed" in err


async def test_the_key_is_sent_to_a_server_that_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STELLWERK_KEY", raising=False)  # that of a server of another test
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        status = b"502 Bad" if "secret" in asked[-1] else b"401 Who"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 2\r\n\r\nno")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/agents/"
        code, _, err = await stellwerk("sessions", STELLWERK_URL=url, STELLWERK_KEY="secret")
        without_key = await stellwerk("sessions", STELLWERK_URL=url)
    assert (code, err) == (2, f"stellwerk: GET {url}sessions?limit=20 was answered with 502\n")
    assert without_key[2].endswith("asks who you are; put your key into the variable STELLWERK_KEY\n")
    assert "authorization: Bearer secret\r\n" in asked[0].replace("Authorization", "authorization")
