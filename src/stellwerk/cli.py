"""The command line: parses and calls, decides nothing. Heavy imports wait until a command needs them."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer

import stellwerk

app = typer.Typer(
    help="Stellwerk: a self-hosted agent server. Keep your LangGraph graph, delete your streaming code.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it starts four times faster and reads the same in a pipe
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stellwerk {stellwerk.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one. [default: 8000]")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for everything the server keeps. [default: ./data]")] = None,
) -> None:
    """Start the server with the demo system.

    Each option is also an environment variable: STELLWERK_HOST, STELLWERK_PORT, STELLWERK_DATA.
    """
    from pydantic import ValidationError

    from stellwerk.errors import StellwerkError
    from stellwerk.settings import Settings

    given = {"host": host, "port": port, "data": data}
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        from stellwerk.app import serve as run_server

        run_server(settings, typer.echo)
    except StellwerkError as error:
        _refuse(str(error))
    except ValidationError as error:
        _refuse("; ".join(f"{e['loc'][0]} cannot be {e['input']!r}: {e['msg']}" for e in error.errors()))


def _refuse(reason: str) -> NoReturn:
    typer.echo(f"stellwerk: {reason}", err=True)
    raise typer.Exit(2)
