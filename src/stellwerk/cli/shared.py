"""Shared by the commands: options, output, the operator's file, the server. Imports are lazy."""

import io
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from typer import Option

from stellwerk.errors import StellwerkError

if TYPE_CHECKING:
    from stellwerk.client.client import Client
    from stellwerk.settings import Settings

REFUSED, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
"""Exit codes: an error that was foreseen, Ctrl-C, and a reader of the output that has gone."""
WHERE = "The server is found by --url or STELLWERK_URL; STELLWERK_KEY is sent to one that asks for a bearer token."
_UNAUTHORIZED = 401
T = TypeVar("T")

Url = Annotated[str | None, Option(help="The server. [default: http://127.0.0.1:8000]")]
Tenant = Annotated[str | None, Option(help="Another tenant than yours, if you run the server.")]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object per line.")]
LogAsJson = Annotated[bool, Option("--json", help="Print the envelopes, one JSON object per line.")]
Config = Annotated[Path | None, Option(help="The operator's file: MCP servers, providers, tools and graphs.")]
_AS_JSON = "JSON, or @file.json"
GraphInput = Annotated[str | None, Option("--input", metavar="JSON", help=f"Keys of a graph's input: {_AS_JSON}.")]
RunConfig = Annotated[
    str | None,
    Option("--run-config", metavar="JSON", help='A graph\'s config, such as {"configurable": {…}}; or @file.json.'),
]
RunContext = Annotated[str | None, Option("--context", metavar="JSON", help=f"A graph's context: {_AS_JSON}.")]


def run_parameters(given_input: str | None, config: str | None, context: str | None) -> dict[str, Any]:
    """What the options for graphs say, by the names of the parameters."""
    found = {"input": _json("--input", given_input)}
    for name, option, text in (("config", "--run-config", config), ("context", "--context", context)):
        found[name] = _json(option, text)
        if found[name] is not None and not isinstance(found[name], dict):
            raise typer.BadParameter('this must be an object, such as {"key": "value"}', param_hint=option)
    return {name: value for name, value in found.items() if value is not None}


def _json(option: str, text: str | None) -> Any:
    import json

    if text is None:
        return None
    try:
        return json.loads(Path(text[1:]).read_text("utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise typer.BadParameter(f"cannot read {text[1:]}: {error.strerror}", param_hint=option) from error
    except (ValueError, RecursionError) as error:
        remedy = f"write {_AS_JSON}, in single quotes"
        raise typer.BadParameter(f"this is not JSON: {error}; {remedy}", param_hint=option) from error


def prepare_streams() -> None:
    """Make the standard streams take any text, also if they are closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class StandardOutput:
    """Standard output as a pipe that its reader may close at any time."""

    def __init__(self) -> None:
        self._file = sys.stdout
        self.is_terminal = sys.stdout.isatty()
        self.closed = False

    def write(self, text: str) -> None:
        """Write at once. Raises BrokenPipeError if the reader has gone."""
        try:
            self._file.write(text)
            self._file.flush()
        except BrokenPipeError:
            self.closed = True
            self.abandon()
            raise
        except OSError as error:
            self.abandon()
            raise StellwerkError(f"cannot write to standard output: {error.strerror}") from error

    def abandon(self) -> None:
        """Discard what is left in the buffer, which would fail once more when Python exits."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())


def in_home(path: Path | None) -> Path | None:
    """For options that name a folder: a shell leaves a quoted ``~`` as it is."""
    return None if path is None else Path(os.path.expanduser(path))


def group(help: str) -> typer.Typer:
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


def refuse(reason: str) -> NoReturn:
    typer.echo(f"stellwerk: {reason}", err=True)
    raise typer.Exit(REFUSED)


def chosen_config(config: Path | None, targets: Iterable[str], *, say: bool = True) -> Path | None:
    """The operator's file that was named, or the one beside the agent systems."""
    from stellwerk.agents.graphs.operator_file import operator_beside

    if config is not None:
        return config
    found = operator_beside(targets)
    if found is not None and say:
        typer.echo(f"stellwerk: using {found}, which lies beside it", err=True)
    return found


def settings_with(data: Path | None = None, database: str | None = None) -> "Settings":
    """The settings of the environment, with what the command line says."""
    from stellwerk.settings import Settings

    given: dict[str, Any] = {"data": data, "database": database}
    return Settings(**{name: value for name, value in given.items() if value is not None})


def talk(url: str | None, work: Callable[["Client"], Coroutine[Any, Any, T]]) -> T:
    import asyncio

    from stellwerk.client.client import Client, Problem
    from stellwerk.settings import Settings

    settings = Settings()
    key = None if settings.key is None else settings.key.get_secret_value()

    async def connected() -> T:
        async with Client(url or settings.url, key) as client:
            try:
                return await work(client)
            except Problem as problem:
                if problem.code == "unknown_session":
                    unknown = problem.detail.partition(";")[0]
                    detail = f"{unknown}; `stellwerk sessions` lists those of {client.url}"
                elif problem.status == _UNAUTHORIZED and key is None:
                    detail = f"{client.url} asks who you are; put your key into the variable STELLWERK_KEY"
                else:
                    raise
                raise Problem(problem.status, problem.code, detail) from problem

    return asyncio.run(connected())


def print_rows(
    found: Sequence[Any], headings: Sequence[str], row: Callable[[Any], Sequence[str]], *, as_json: bool
) -> None:
    """Print a table with headings, or each object as a line of JSON."""
    import msgspec

    from stellwerk.cli.render.text import one_line

    if as_json:
        print_lines(msgspec.json.encode(each).decode() for each in found)
        return
    rows = [headings, *(tuple(map(one_line, row(each))) for each in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print_lines("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows)


def print_lines(lines: Iterable[str]) -> None:
    StandardOutput().write("".join(f"{line}\n" for line in lines))


def local_time(at: float | None, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return "-" if at is None else datetime.fromtimestamp(at).strftime(form)
