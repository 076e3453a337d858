"""The command `workflow run`: parses and calls, decides nothing. Heavy imports wait until it is needed."""

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OFFICE = "office"

Here = Callable[[str, Path | None], "tuple[str, Callable[[], AbstractAsyncContextManager[str]]]"]
"""For a system and an operator's file: the name of the system, and a server of our own that has it."""


def workflow_commands(here: Here) -> typer.Typer:
    commands = typer.Typer(
        help="Workflows: a plan, tasks for several agents, documents.", no_args_is_help=True, rich_markup_mode=None
    )

    @commands.callback()
    def main() -> None:
        pass

    @commands.command()
    def run(
        text: Annotated[
            list[str] | None, typer.Argument(metavar="TEXT", help="What to do. In a pipe, standard input is read.")
        ] = None,
        file: Annotated[list[Path] | None, typer.Option("--file", "-f", help="A file for it; may be repeated.")] = None,
        out: Annotated[Path, typer.Option("--out", "-o", help="Where its documents are saved.")] = Path("out"),
        system: Annotated[str, typer.Option(help="A system.yaml, or the name of a system.")] = OFFICE,
        config: Annotated[
            Path | None, typer.Option(help="The operator's file: MCP servers, providers, tools and graphs.")
        ] = None,
        url: Annotated[str | None, typer.Option(help="Run it on this server. [default: here, in this process]")] = None,
    ) -> None:
        """Give files to a workflow, and get its documents.

        \b
          stellwerk workflow run --file sales.xlsx --file notes.txt "Write a report"
          stellwerk workflow run -f sales.xlsx --system my_office.yaml "Write a report"
          stellwerk workflow run -f sales.xlsx --url http://127.0.0.1:8000 "Write a report"

        Without --url (or STELLWERK_URL) nothing is kept but the documents. On a server the workflow is a session like
        others: `stellwerk tail` follows it, and it goes on if the connection breaks. Ctrl-C stops it, there or here.

        Questions are asked at the prompt; in a pipe their defaults are taken. The last words of the workflow go to
        standard output, everything else to standard error. A file that is there already is not written over.

        The exit code is 0 if it completed, 1 if it failed, 2 if it could not be started, 3 if it waits for an
        answer that nobody gives, and 130 if it was stopped by Ctrl-C.
        """
        from stellwerk.errors import StellwerkError
        from stellwerk.terminal.starting import starting

        words, files = _text(text), file or ()
        for each in files:
            if not each.is_file():
                typer.echo(f"stellwerk: there is no file {each}", err=True)
                raise typer.Exit(2)
        with starting():
            from stellwerk.client.workflow import Wish
            from stellwerk.client.workflow import run as run_workflow
            from stellwerk.settings import Settings
        settings = Settings()
        server = url or (settings.url if "url" in settings.model_fields_set else None)
        try:
            name, opened = (system, _there(server)) if server else here(system, config)
        except StellwerkError as error:
            typer.echo(f"stellwerk: {error.message}", err=True)
            raise typer.Exit(2) from error
        key = None if settings.key is None or not server else settings.key.get_secret_value()
        raise typer.Exit(run_workflow(Wish(words, files, out, name), opened, key))

    return commands


def _there(url: str) -> Callable[[], AbstractAsyncContextManager[str]]:
    @asynccontextmanager
    async def opened() -> "AsyncIterator[str]":
        yield url

    return opened


def _text(words: list[str] | None) -> str:
    text = " ".join(words or ()).strip()
    if not text and not sys.stdin.isatty():
        text = sys.stdin.read().strip()
    if not text:
        raise typer.BadParameter('say what is to be done: stellwerk workflow run … "Write a report"')
    return text
