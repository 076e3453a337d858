"""The command line: parses and calls, decides nothing. Heavy imports wait until a command needs them."""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

import stellwerk
from stellwerk.client.command_line import commands
from stellwerk.client.workflow_command import workflow_commands

if TYPE_CHECKING:
    from stellwerk.agents.tool_spec import DescribedTool
    from stellwerk.spec.catalogue import Catalogue
    from stellwerk.spec.operator import Operator
    from stellwerk.spec.tree import Line

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
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...", help="[name=]path/to/file.py:graph, system.yaml, or a langgraph.json of yours."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one. [default: 8000]")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for everything the server keeps. [default: ./data]")] = None,
    config: Annotated[
        Path | None, typer.Option(help="The operator's file: MCP servers, providers, tools and graphs.")
    ] = None,
) -> None:
    """Start the server with the demo system, and with agent systems and graphs of your own.

    Each option is also an environment variable: STELLWERK_HOST, STELLWERK_PORT, STELLWERK_DATA, STELLWERK_CONFIG.
    Without --config an operator.yaml beside a system.yaml is used.
    """
    from pydantic import ValidationError

    from stellwerk.errors import StellwerkError
    from stellwerk.settings import Settings

    given = {"host": host, "port": port, "data": data, "config": config}
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        from stellwerk.serving import serve as run_server

        chosen = settings.model_copy(update={"config": _config(settings.config, targets or ())})
        run_server(chosen, typer.echo, targets=targets or ())
    except StellwerkError as error:
        _refuse(str(error))
    except ValidationError as error:
        _refuse("; ".join(f"{e['loc'][0]} cannot be {e['input']!r}: {e['msg']}" for e in error.errors()))


@app.command()
def run(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="system.yaml, file.py:graph, langgraph.json[:name], or demo.")
    ],
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="What to say. In a pipe, standard input is read.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The operator's file: MCP servers, providers, tools and graphs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the envelopes, one JSON object per line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack of an error.")] = False,
) -> None:
    """Run an agent system, or a graph of your own, here in the terminal.

    Nothing is stored, and no server is needed. Without a text it becomes a conversation; Ctrl-D ends it.

    \b
      stellwerk run demo "weather"                 the built-in demo, without a key
      stellwerk run system.yaml "Plan my week"     an agent system
      stellwerk run my_graph.py:graph "hi"         your own graph
      stellwerk run system.yaml < letter.txt       the text from a file
      stellwerk run system.yaml "…" > answer.txt   only the answer goes into the file

    Without --config an operator.yaml beside the system.yaml is used.
    Questions are asked at the prompt; in a pipe their defaults are taken. Ctrl-C stops the run, twice ends at once.

    The exit code is 0 if the run completed, 1 if it failed, 2 if it could not be started, 3 if it waits for an
    answer that nobody gives, and 130 if it was stopped.
    """
    from stellwerk.terminal.starting import starting

    try:
        with starting():
            from stellwerk.errors import StellwerkError
            from stellwerk.terminal.run import Wish
            from stellwerk.terminal.run import run as run_here

        try:
            operator = _operator(_config(config, [target], say=not quiet))
        except StellwerkError as error:
            _refuse(str(error))
        code = run_here(Wish(target, text or (), operator, as_json=as_json, quiet=quiet, debug=debug))
    except KeyboardInterrupt:  # before there was anything to stop
        code = 130
    raise typer.Exit(code)


@app.command()
def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Agent systems in YAML or JSON; - is standard input.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="The operator's file: more tools, graphs, providers and MCP servers by name.")
    ] = None,
) -> None:
    """Check agent systems: print each as a tree, and all that is wrong with it.

    Nothing is started, and no model is called. Tools that are not registered here are warnings.
    Without --config an operator.yaml beside the files is used.
    The exit code is 0 if all is sound, 1 if there are problems, 2 if a file cannot be read.
    """
    from stellwerk.errors import StellwerkError
    from stellwerk.spec.report import report

    try:
        texts = {name: _read(name) for name in files}
        catalogue = _catalogue(_operator(_config(config, files)))
    except OSError as error:
        _refuse(f"cannot read {error.filename}: {error.strerror}")
    except StellwerkError as error:
        _refuse(str(error))
    reports = [report(text, source=name, catalogue=catalogue) for name, text in texts.items()]
    for made in reports:
        _show(made.lines)
    raise typer.Exit(0 if all(made.sound for made in reports) else 1)


@app.command()
def tools(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Only these; or a system.yaml, with whose operator.yaml to look."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The operator's file: more tools, and MCP servers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with the whole schemas.")] = False,
) -> None:
    """List the tools that agent systems may name here.

    MCP servers of the operator's file are started to ask them for theirs.
    """
    import asyncio
    import json

    from stellwerk.errors import StellwerkError

    try:
        from stellwerk.agents.inventory import chosen, listing
        from stellwerk.agents.targets import names_system

        systems = [name for name in names or () if names_system(name)]
        found = asyncio.run(_inventory(_config(config, systems)))
        wanted = chosen(found, [name for name in names or () if name not in systems])
    except StellwerkError as error:
        _refuse(str(error))
    typer.echo(json.dumps(wanted, indent=2, ensure_ascii=False) if as_json else listing(wanted))


async def _inventory(config: Path | None) -> "list[DescribedTool]":
    from stellwerk.agents.inventory import inventory
    from stellwerk.agents.mcp import McpServers
    from stellwerk.agents.pool import Pool
    from stellwerk.agents.tools import discover

    operator = _operator(config)
    mcp = McpServers(operator.mcp_servers)
    try:
        return await inventory(Pool(tools=discover(operator.tools), mcp=mcp))
    finally:
        await mcp.close()


@app.command()
def schema() -> None:
    """Print the JSON Schema of agent systems, for editors."""
    import json

    from stellwerk.spec.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


app.add_typer(commands)
app.add_typer(workflow_commands(lambda system, config: _server_here(system, config)), name="workflow")


def _server_here(system: str, config: Path | None) -> "tuple[str, Callable[[], AbstractAsyncContextManager[str]]]":
    from stellwerk.agents.targets import names_system, systems_of
    from stellwerk.serving import served_here

    own = systems_of([system]) if names_system(system) else {}
    return next(iter(own), system), partial(served_here, own, _config(config, [system]))


def _read(name: str) -> bytes:
    """No more than is needed to see that it is too much."""
    from stellwerk.spec.load import SIZE_LIMIT

    if name == "-":
        return sys.stdin.buffer.read(SIZE_LIMIT + 1)
    with Path(name).open("rb") as file:
        return file.read(SIZE_LIMIT + 1)


def _config(config: Path | None, targets: Iterable[str], *, say: bool = True) -> Path | None:
    """The operator's file that was named, or the one beside the systems that were."""
    from stellwerk.agents.operator_file import operator_beside

    if config is not None:
        return config
    found = operator_beside(targets)
    if found is not None and say:
        typer.echo(f"stellwerk: using {found}, which lies beside it", err=True)
    return found


def _operator(config: Path | None) -> "Operator":
    from stellwerk.agents.operator_file import read_operator

    return read_operator(config)


def _catalogue(operator: "Operator") -> "Catalogue":
    from importlib.metadata import entry_points

    from stellwerk.agents.checklist import CHECKLIST_TOOLS
    from stellwerk.agents.graphs import ENTRY_POINTS
    from stellwerk.agents.models import known_providers, missing_packages
    from stellwerk.agents.tools import discover
    from stellwerk.settings import provider_keys
    from stellwerk.spec.catalogue import Catalogue

    providers, keys, tools = known_providers(operator.providers), provider_keys(), discover(operator.tools)
    return Catalogue(
        tools={**tools.names(), **{name: name for name in CHECKLIST_TOOLS}},
        mcp_servers=tuple(operator.mcp_servers),
        graphs={*operator.graphs, *(point.name for point in entry_points(group=ENTRY_POINTS))},
        providers=providers,
        keys=[name for name, secret in providers.items() if secret is None or secret in keys],
        effects=tools.effects(),
        packages=missing_packages(operator.providers),
    )


def _show(lines: Sequence["Line"]) -> None:
    if not sys.stdout.isatty():
        for line in lines:
            typer.echo("".join(text for text, _ in line))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((text, _STYLES[style]) for text, style in line)))


_STYLES = {"plain": "", "name": "bold", "dim": "dim", "good": "green", "warn": "yellow", "bad": "red"}


def _refuse(reason: str) -> NoReturn:
    typer.echo(f"stellwerk: {reason}", err=True)
    raise typer.Exit(2)
