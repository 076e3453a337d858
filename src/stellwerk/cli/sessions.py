"""Commands for the sessions of a server: list, follow, export, replay."""

import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Exit, Option, Typer

from stellwerk.cli.render.text import visible
from stellwerk.cli.shared import (
    WHERE,
    AsJson,
    GraphInput,
    LogAsJson,
    RunConfig,
    RunContext,
    StandardOutput,
    Url,
    local_time,
    print_rows,
    refuse,
    run_parameters,
    talk,
)

if TYPE_CHECKING:
    from stellwerk.client import Client, Event, Session

_TO_THE_MINUTE = "%Y-%m-%d %H:%M"
_SESSION_ID = re.compile(r"[0-9A-Za-z]{22}")
_SESSIONS = ("ID", "SYSTEM", "STATUS", "ROUND", "EVENTS", "BEGUN", "ACTIVE", "TITLE")

commands = Typer()

SessionId = Annotated[str, Argument(metavar="SID", help="The id of a session; `stellwerk sessions` lists them.")]


@commands.command(epilog=WHERE)
def sessions(
    url: Url = None,
    limit: Annotated[int, Option(help="How many, at most.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a server by their last activity, with their agent system and status."""

    async def work(client: "Client") -> None:
        found = await client.sessions(limit=limit)
        if found or as_json:
            print_rows(found, _SESSIONS, _row, as_json=as_json)
        else:
            sys.stderr.write(f"there are no sessions at {client.url}\n")

    talk(url, work)


@commands.command(epilog=WHERE)
def tail(
    session_id: SessionId,
    url: Url = None,
    after: Annotated[int, Option(help="Skip events up to this position.", min=0)] = 0,
    as_json: LogAsJson = False,
) -> None:
    """Follow a session in the terminal: messages, and the work of agents as it happens.

    It begins with the stored log, reconnects after a restart of the server, and ends with Ctrl-C.
    Following a session does not affect its runs.
    """
    from stellwerk.cli import session_output

    if as_json:
        talk(url, lambda client: _print_events(client.follow(session_id, after=after)))
    else:
        talk(url, lambda client: session_output.tail(client, session_id, after=after))


@commands.command(epilog=WHERE)
def send(  # noqa: PLR0913 - each is an option of the command line
    text: Annotated[
        list[str] | None,
        Argument(metavar="TEXT", help="The message; before it, if you like, a session or an agent system."),
    ] = None,
    session: Annotated[str | None, Option(metavar="SID", help="The session. [default: a new one]")] = None,
    system: Annotated[
        str | None, Option(metavar="NAME", help="The agent system of a new session. [default: demo]")
    ] = None,
    user: Annotated[str | None, Option(help="The user of a new session.")] = None,
    url: Url = None,
    as_json: LogAsJson = False,
    given_input: GraphInput = None,
    run_config: RunConfig = None,
    context: RunContext = None,
) -> None:
    """Send a message to a session of a server, and print the answer.

    \b
      stellwerk send desk "hi"                            a new session; its id goes to standard error
      stellwerk send 034yEnpqoVHlJvW0id6mKI "and the lamp?"
      stellwerk send --system desk hi there               with --system or --session every word is text
      stellwerk send --system mail --input '{"email": {"from": "Ann"}}'
      stellwerk send --system desk "hi" --run-config '{"recursion_limit": 50}' --context @context.json

    If one question of the session is open, the message is its answer. The exit code is 0 if the run completed, 1 if it
    failed or was stopped, 2 if the message was rejected, and 3 if the session waits for an answer.
    """
    given = run_parameters(given_input, run_config, context)
    words = text or []
    sid = session
    if session is None and system is None and words and _SESSION_ID.fullmatch(words[0]):
        sid, *words = words
        if not words and not given:
            refuse(f'{sid} is a session; write the message after it: stellwerk send {sid} "…"')

    async def work(client: "Client") -> int:
        into, named, said = sid, system, words
        if into is None:
            if named is None and _may_name(said, given) and await _is_system(client, said[0]):
                named, *said = said
            into = (await client.begin(named or "demo", user=user)).id
            sys.stderr.write(f"session {into}\n")
        accepted = await client.send(into, " ".join(said), **given)
        return await _show_round(client, into, accepted.after, as_json=as_json)

    raise Exit(talk(url, work))


def _may_name(words: Sequence[str], given: Mapping[str, Any]) -> bool:
    """Whether the first word may be an agent system: a text or an input follows. More words are an unquoted text."""
    return len(words) == 2 or (len(words) == 1 and "input" in given)


async def _is_system(client: "Client", name: str) -> bool:
    from stellwerk.client.client import Problem
    from stellwerk.client.paths import part

    if name in ("", ".", ".."):  # which no path can name
        return False
    try:
        await client.request("GET", f"/agent-systems/{part(name)}")
    except Problem as problem:
        if problem.code == "unknown_agent_system":
            return False
        raise
    return True


async def _show_round(client: "Client", session_id: str, after: int, *, as_json: bool) -> int:
    out = StandardOutput()
    ended: dict[str, Any] = {}
    async with aclosing(client.follow(session_id, after=after, until="run_end")) as events:
        async for event in events:
            payload = event.data["payload"]
            if as_json:
                out.write(f"{event.line.decode()}\n")
            elif event.type == "ask_user":
                sys.stderr.write(f"{visible(payload['question'])}\n")
            if event.type == "run_end":
                ended = payload
    status = str(ended.get("status"))
    if ended.get("result") and not as_json:
        result = str(ended["result"]).removesuffix("\n")
        out.write(f"{visible(result) if out.is_terminal else result}\n")
    if status == "awaiting_user":
        sys.stderr.write(f'stellwerk: it waits for an answer: stellwerk send --session {session_id} "…"\n')
    elif status != "completed":
        sys.stderr.write(f"stellwerk: {visible(str(ended.get('reason') or f'the run is {status}'))}\n")
    return {"completed": 0, "awaiting_user": 3}.get(status, 1)


@commands.command(epilog=WHERE)
def export(session_id: SessionId, url: Url = None) -> None:
    """Write the whole log of a session, one envelope in JSON per line.

    \b
      stellwerk export 034yEnpqoVHlJvW0id6mKI > log.jsonl
    """
    talk(url, lambda client: _print_events(client.events(session_id, profile="debug")))


@commands.command()
def replay(
    file: Annotated[str, Argument(metavar="FILE", help="What `stellwerk export` wrote; - is standard input.")],
    speed: Annotated[
        float | None, Option(help="1 is as fast as it happened, 10 is ten times faster. [default: at once]")
    ] = None,
) -> None:
    """Show an exported log as `stellwerk tail` would have shown it. No server is needed.

    The exit code is 0, or 2 if the file is not a log.
    """
    import asyncio

    from stellwerk.cli import session_output

    if speed is not None and not speed > 0:
        raise BadParameter("must be more than 0", param_hint="--speed")
    try:
        opened = sys.stdin.buffer if file == "-" else Path(file).open("rb")
    except OSError as error:
        refuse(f"cannot read {file}: {error.strerror}")
    with opened:
        asyncio.run(session_output.replay(opened, name=file, speed=speed))


async def _print_events(events: "AsyncGenerator[Event, None]") -> None:
    out = StandardOutput()
    async with aclosing(events):
        async for event in events:
            out.write(f"{event.line.decode()}\n")


def _row(session: "Session") -> tuple[str, ...]:
    status = "asks" if session.awaiting_user_input else session.status
    begun = local_time(session.created_at, _TO_THE_MINUTE)
    active = local_time(session.last_activity_at or session.created_at, _TO_THE_MINUTE)
    counts = (str(session.round), str(session.position))
    return session.id, session.agent_system_id, status, *counts, begun, active, session.title or ""
