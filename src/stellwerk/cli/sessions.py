"""Commands for the sessions of a server: list, follow, export, replay."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from stellwerk.cli.shared import WHERE, AsJson, Url, refuse, talk

commands = typer.Typer()

SessionId = Annotated[str, typer.Argument(metavar="SID", help="The id of a session; `stellwerk sessions` lists them.")]


@commands.command(epilog=WHERE)
def sessions(
    url: Url = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a server by their last activity, with their agent system and status."""
    from stellwerk.cli.session_output import list_sessions

    talk(url, lambda client: list_sessions(client, limit=limit, as_json=as_json))


@commands.command(epilog=WHERE)
def tail(
    session_id: SessionId,
    url: Url = None,
    after: Annotated[int, typer.Option(help="Skip events up to this position.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the envelopes, one JSON object per line.")] = False,
) -> None:
    """Follow a session in the terminal: messages, and the work of agents as it happens.

    It begins with the stored log, reconnects after a restart of the server, and ends with Ctrl-C.
    Following a session does not affect its runs.
    """
    from stellwerk.cli import session_output

    talk(url, lambda client: session_output.tail(client, session_id, after=after, as_json=as_json))


@commands.command(epilog=WHERE)
def export(session_id: SessionId, url: Url = None) -> None:
    """Write the whole log of a session, one envelope in JSON per line.

    \b
      stellwerk export 034yEnpqoVHlJvW0id6mKI > log.jsonl
    """
    from stellwerk.cli import session_output

    talk(url, lambda client: session_output.export(client, session_id))


@commands.command()
def replay(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `stellwerk export` wrote; - is standard input.")],
    speed: Annotated[
        float | None, typer.Option(help="1 is as fast as it happened, 10 is ten times faster. [default: at once]")
    ] = None,
) -> None:
    """Show an exported log as `stellwerk tail` would have shown it. No server is needed.

    The exit code is 0, or 2 if the file is not a log.
    """
    import asyncio

    from stellwerk.cli import session_output

    if speed is not None and not speed > 0:
        raise typer.BadParameter("must be more than 0", param_hint="--speed")
    try:
        opened = sys.stdin.buffer if file == "-" else Path(file).open("rb")
    except OSError as error:
        refuse(f"cannot read {file}: {error.strerror}")
    with opened:
        asyncio.run(session_output.replay(opened, name=file, speed=speed))
