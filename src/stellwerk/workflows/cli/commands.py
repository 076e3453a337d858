"""The command `workflow run`: options and checks. Heavy imports are deferred until it runs."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from stellwerk.cli.shared import chosen_config, group, refuse

OFFICE = "office"
_FILE = "A file to work on; once for each of them."
_CONFIG = "The operator's file; else the operator.yaml beside SYSTEM."
_URL = "Run it on this server. [default: here, in this process]"

commands = group("Workflows: a plan, tasks for several agents, documents.")


@commands.callback()
def main() -> None:
    pass


@commands.command()
def run(
    text: Annotated[
        list[str] | None,
        Argument(metavar="TEXT", help="What is to be done. In a pipe, standard input is read."),
    ] = None,
    file: Annotated[
        list[Path] | None,
        Option("--file", "-f", metavar="FILE", exists=True, dir_okay=False, help=_FILE),
    ] = None,
    out: Annotated[Path, Option("--out", "-o", metavar="FOLDER", help="Where the documents are saved.")] = Path("out"),
    system: Annotated[
        str, Option(metavar="SYSTEM", help="Who does it: a system.yaml, or the name of a system.")
    ] = OFFICE,
    config: Annotated[Path | None, Option(metavar="FILE", help=_CONFIG)] = None,
    url: Annotated[str | None, Option(metavar="URL", help=_URL)] = None,
) -> None:
    """Give files to a workflow, and get its documents.

    \b
      stellwerk workflow run --file sales.xlsx --file notes.txt "Write a report"
      stellwerk workflow run -f sales.xlsx -o reports "Schreibe einen Bericht"
      stellwerk workflow run -f sales.xlsx --system my_office.yaml "Write a report"
      stellwerk workflow run -f sales.xlsx --url http://127.0.0.1:8000 "Write a report"

    It plans who does what, lets agents do it, and saves what they made. Without --system this is
    the office, which needs no key: it plays a script, with the figures and texts of your own files.
    It knows the words report and Bericht, and translate, ask, slow and fail to show what may happen.

    Files: text, Markdown, csv, json, html, eml, docx, xlsx, pptx, pdf, images, and zip archives of
    them.

    Without --url (or STELLWERK_URL) nothing is kept but the documents. On a server the workflow is
    a session like others: `stellwerk tail` follows it, and it goes on if the connection breaks.
    Ctrl-C stops it, there or here.

    Questions are asked at the prompt; in a pipe their defaults are taken. The last words of the
    workflow go to standard output, everything else to standard error. A file that is there already
    is not written over.

    The exit code is 0 if it completed, 1 if it failed, 2 if it could not be started, 3 if it waits
    for an answer and has none, and 130 if it was stopped by Ctrl-C.
    """
    import asyncio

    from stellwerk.settings import Settings
    from stellwerk.workflows.cli.run import WorkflowRun

    words = _text(text)
    _check_writable(out)
    settings = Settings()
    server = url or (settings.url if "url" in settings.model_fields_set else None)
    name, opened = (system, lambda: nullcontext(server)) if server else _server_here(system, config)
    key = None if settings.key is None or not server else settings.key.get_secret_value()
    raise typer.Exit(asyncio.run(WorkflowRun(opened, key, name, out).main(words, file or ())))


_Server = Callable[[], AbstractAsyncContextManager[str]]


def _server_here(system: str, config: Path | None) -> tuple[str, _Server]:
    """The name of the system, and a server in this process that has it."""
    from stellwerk.agents.graphs.serve_targets import names_system, systems_of
    from stellwerk.ops.serve import served_here

    own = systems_of([system]) if names_system(system) or system.endswith((".yaml", ".yml")) else {}
    return next(iter(own), system), partial(served_here, own, chosen_config(config, [system]))


def _check_writable(folder: Path) -> None:
    """Checked before the run: documents that cannot be saved would be lost."""
    path = folder.absolute()
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not there.is_dir() or not os.access(there, os.W_OK):
        problem = f"{there} is no folder to write into; choose one with --out"
        refuse(f"cannot write to {folder}: {problem}")


def _text(words: list[str] | None) -> str:
    text = " ".join(words or ()).strip()
    if not text and not sys.stdin.isatty():
        text = sys.stdin.read().strip()
    if not text:
        raise typer.BadParameter('say what is to be done: stellwerk workflow run … "Write a report"')
    return text
