"""Commands that talk to a server: parse and call, decide nothing. Heavy imports wait until a command needs them."""

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from stellwerk.client.client import Client

commands = typer.Typer()

Url = Annotated[str | None, typer.Option(help="The server. [default: http://127.0.0.1:8000]")]
Another = Annotated[str | None, typer.Option(help="Another tenant than yours, if you run the server.")]
SessionId = Annotated[str, typer.Argument(metavar="SID", help="The id of a session; `stellwerk sessions` lists them.")]


def in_home(path: Path | None) -> Path | None:
    """For options that name a folder: a shell leaves a ``~`` as it is if it is quoted."""
    from stellwerk.settings import in_home as expanded

    return None if path is None else expanded(path)


_WHO = 401
WHERE = "The server is found by --url or STELLWERK_URL; STELLWERK_KEY is sent to one that asks for a bearer token."


@commands.command(epilog=WHERE)
def sessions(
    url: Url = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """List the sessions of a server, by their last activity: what they run, and where they stand."""
    from stellwerk.client.showing import listing

    talk(url, lambda client: listing(client, limit=limit, as_json=as_json))


@commands.command(epilog=WHERE)
def tail(
    session_id: SessionId,
    url: Url = None,
    after: Annotated[int, typer.Option(help="Leave out what is up to this position.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the envelopes, one JSON object per line.")] = False,
) -> None:
    """Follow a session in the terminal: what was said, what agents do, as it happens.

    It begins with what is stored, goes on after the server was restarted, and ends with Ctrl-C. Watching changes
    nothing: the run does not notice.
    """
    from stellwerk.client.showing import tail as follow

    talk(url, lambda client: follow(client, session_id, after=after, as_json=as_json))


@commands.command(epilog=WHERE)
def export(session_id: SessionId, url: Url = None) -> None:
    """Write the whole log of a session, one envelope in JSON per line.

    \b
      stellwerk export 034yEnpqoVHlJvW0id6mKI > log.jsonl
    """
    from stellwerk.client.showing import export as write

    talk(url, lambda client: write(client, session_id))


@commands.command()
def replay(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `stellwerk export` wrote; - is standard input.")],
    speed: Annotated[
        float | None, typer.Option(help="1 is as fast as it happened, 10 is ten times faster. [default: at once]")
    ] = None,
) -> None:
    """Show an exported log as the terminal would have shown it. No server is needed, and nothing is run.

    The exit code is 0, or 2 if the file is no log.
    """
    from stellwerk.client.showing import ended
    from stellwerk.client.showing import replay as show

    if speed is not None and not speed > 0:
        raise typer.BadParameter("must be more than 0", param_hint="--speed")
    try:
        opened = sys.stdin.buffer if file == "-" else Path(file).open("rb")
    except OSError as error:
        typer.echo(f"stellwerk: cannot read {file}: {error.strerror}", err=True)
        raise typer.Exit(2) from error
    with opened:
        raise typer.Exit(ended(lambda: show(opened, name=file, speed=speed)))


def talk(url: str | None, work: "Callable[[Client], Coroutine[Any, Any, None]]") -> None:
    from stellwerk.client.client import Client
    from stellwerk.client.problems import Problem
    from stellwerk.client.showing import ended
    from stellwerk.settings import Settings

    settings = Settings()
    key = None if settings.key is None else settings.key.get_secret_value()

    async def talk() -> None:
        async with Client(url or settings.url, key) as client:
            try:
                await work(client)
            except Problem as problem:
                if problem.status != _WHO or key is not None:
                    raise
                told = f"{client.url} asks who you are; put your key into the variable STELLWERK_KEY"
                raise Problem(_WHO, problem.code, told) from problem

    raise typer.Exit(ended(talk))
