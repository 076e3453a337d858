"""Commands that only look: at agent systems, at tools, at the schema. Nothing is run, and no server is needed."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stellwerk.cli.operator_file import chosen_config, operator_of, refuse

if TYPE_CHECKING:
    from stellwerk.agents.tool_spec import DescribedTool
    from stellwerk.spec.catalogue import Catalogue
    from stellwerk.spec.operator import Operator
    from stellwerk.spec.tree import Line

commands = typer.Typer()


@commands.command()
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
        texts = {name: _text(name) for name in files}
        catalogue = _catalogue(operator_of(chosen_config(config, files)))
    except OSError as error:
        refuse(f"cannot read {error.filename}: {error.strerror}")
    except StellwerkError as error:
        refuse(str(error))
    reports = [report(text, source=name, catalogue=catalogue) for name, text in texts.items()]
    for made in reports:
        _show(made.lines)
    raise typer.Exit(0 if all(made.sound for made in reports) else 1)


@commands.command()
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
        found = asyncio.run(_inventory(chosen_config(config, systems)))
        wanted = chosen(found, [name for name in names or () if name not in systems])
    except StellwerkError as error:
        refuse(str(error))
    typer.echo(json.dumps(wanted, indent=2, ensure_ascii=False) if as_json else listing(wanted))


async def _inventory(config: Path | None) -> "list[DescribedTool]":
    from stellwerk.agents.inventory import inventory
    from stellwerk.agents.mcp import McpServers
    from stellwerk.agents.pool import Pool
    from stellwerk.agents.tools import discover

    operator = operator_of(config)
    mcp = McpServers(operator.mcp_servers)
    try:
        return await inventory(Pool(tools=discover(operator.tools), mcp=mcp))
    finally:
        await mcp.close()


@commands.command()
def schema() -> None:
    """Print the JSON Schema of agent systems, for editors."""
    import json

    from stellwerk.spec.schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def _text(name: str) -> bytes:
    """No more than is needed to see that it is too much."""
    from stellwerk.spec.load import SIZE_LIMIT

    if name == "-":
        return sys.stdin.buffer.read(SIZE_LIMIT + 1)
    with Path(name).open("rb") as file:
        return file.read(SIZE_LIMIT + 1)


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
