"""The command `workflow run`: parses and calls, decides nothing. Heavy imports wait until it is needed."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

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
            list[str] | None,
            typer.Argument(metavar="TEXT", help="What is to be done. In a pipe, standard input is read."),
        ] = None,
        file: Annotated[
            list[Path] | None,
            typer.Option("--file", "-f", metavar="FILE", help="A file to work on; once for each of them."),
        ] = None,
        out: Annotated[
            Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the documents are saved.")
        ] = Path("out"),
        system: Annotated[
            str, typer.Option(metavar="SYSTEM", help="Who does it: a system.yaml, or the name of a system.")
        ] = OFFICE,
        config: Annotated[
            Path | None, typer.Option(metavar="FILE", help="The operator's file; else the operator.yaml beside SYSTEM.")
        ] = None,
        url: Annotated[
            str | None, typer.Option(metavar="URL", help="Run it on this server. [default: here, in this process]")
        ] = None,
    ) -> None:
        """Give files to a workflow, and get its documents.

        \b
          stellwerk workflow run --file sales.xlsx --file notes.txt "Write a report"
          stellwerk workflow run -f sales.xlsx -o reports "Schreibe einen Bericht"
          stellwerk workflow run -f sales.xlsx --system my_office.yaml "Write a report"
          stellwerk workflow run -f sales.xlsx --url http://127.0.0.1:8000 "Write a report"

        It plans who does what, lets agents do it, and saves what they made. Without --system this is the office, which
        needs no key: it plays a script, with the figures and texts of your own files. It knows the words report and
        Bericht, and translate, ask, slow and fail to show what may happen.

        Files: text, Markdown, csv, json, html, eml, docx, xlsx, pptx, pdf, images, and zip archives of them.

        Without --url (or STELLWERK_URL) nothing is kept but the documents. On a server the workflow is a session like
        others: `stellwerk tail` follows it, and it goes on if the connection breaks. Ctrl-C stops it, there or here.

        Questions are asked at the prompt; in a pipe their defaults are taken. The last words of the workflow go to
        standard output, everything else to standard error. A file that is there already is not written over.

        The exit code is 0 if it completed, 1 if it failed, 2 if it could not be started, 3 if it waits for an
        answer that nobody gives, and 130 if it was stopped by Ctrl-C.
        """
        from stellwerk.terminal.starting import starting

        words, files = _text(text), file or ()
        for each in files:
            _check_readable(each)
        _check_writable(out)
        try:
            with starting():
                from stellwerk.client.workflow import Wish
                from stellwerk.client.workflow import run as run_workflow
                from stellwerk.errors import StellwerkError
                from stellwerk.settings import Settings

                settings = Settings()
                server = url or (settings.url if "url" in settings.model_fields_set else None)
                if not server:
                    _check_sizes(files, settings.file_limit)
                try:
                    name, opened = (system, _there(server)) if server else here(system, config)
                except StellwerkError as error:
                    _refuse(error.message)
            key = None if settings.key is None or not server else settings.key.get_secret_value()
            code = run_workflow(Wish(words, files, out, name), opened, key)
        except KeyboardInterrupt:  # before there was anything to stop
            code = 130
        raise typer.Exit(code)

    return commands


def _there(url: str) -> Callable[[], AbstractAsyncContextManager[str]]:
    @asynccontextmanager
    async def opened() -> "AsyncIterator[str]":
        yield url

    return opened


def _check_readable(file: Path) -> None:
    try:
        file.open("rb").close()
    except FileNotFoundError:
        _refuse(f"there is no file {file}")
    except IsADirectoryError:
        _refuse(f"{file} is a folder; name the files in it, each with a --file of its own")
    except OSError as error:
        _refuse(f"cannot read {file}: {error.strerror}")


def _check_sizes(files: Sequence[Path], limit: int) -> None:
    from stellwerk.documents.reading.summaries import bytes_said

    for file in files:
        size = file.stat().st_size
        if size > limit:
            _refuse(
                f"{file} is too large: it has {bytes_said(size)}, and a file may have {bytes_said(limit)}; "
                "give a part of it, or set STELLWERK_FILE_LIMIT to more bytes"
            )


def _check_writable(folder: Path) -> None:
    """Before anything is worked on: what cannot be saved would be lost."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir() or not os.access(there, os.W_OK):
        _refuse(f"cannot write to {folder}: {there} is no folder to write into; choose one with --out")


def _refuse(why: str) -> NoReturn:
    typer.echo(f"stellwerk: {why}", err=True)
    raise typer.Exit(2)


def _text(words: list[str] | None) -> str:
    text = " ".join(words or ()).strip()
    if not text and not sys.stdin.isatty():
        text = sys.stdin.read().strip()
    if not text:
        raise typer.BadParameter('say what is to be done: stellwerk workflow run … "Write a report"')
    return text
