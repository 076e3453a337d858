"""Commands that inspect agent systems, tools and the schema, without a server."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer, echo

from stellwerk.cli.shared import chosen_config, refuse

if TYPE_CHECKING:
    from stellwerk.agents.tools.spec import DescribedTool
    from stellwerk.spec.catalogue import Catalogue

commands = Typer()


@commands.command()
def check(
    files: Annotated[list[str], Argument(metavar="FILE", help="Agent systems in YAML or JSON; - is standard input.")],
    config: Annotated[
        Path | None, Option(help="The operator's file: more tools, graphs, providers and MCP servers by name.")
    ] = None,
) -> None:
    """Validate agent systems: print each as a tree, with all of its problems.

    Nothing is started, and no model is called. Tools that are not registered here are warnings.
    Without --config an operator.yaml beside the files is used.
    The exit code is 0 if all are valid, 1 if there are problems, 2 if a file cannot be read.
    """
    import asyncio

    from rich.console import Console
    from rich.text import Text

    from stellwerk.cli.render.screen import THEME
    from stellwerk.spec.report import report

    try:
        texts = {name: _text(name) for name in files}
    except OSError as error:
        refuse(f"cannot read {error.filename}: {error.strerror}")
    catalogue = asyncio.run(_catalogue(chosen_config(config, files)))
    reports = [report(text, source=name, catalogue=catalogue) for name, text in texts.items()]
    console = Console(highlight=False, soft_wrap=True, theme=THEME)
    for line in (line for made in reports for line in made.lines):
        console.print(Text.assemble(*line))
    raise Exit(0 if all(made.sound for made in reports) else 1)


@commands.command()
def tools(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]...", help="Only these; or a system.yaml, with whose operator.yaml to look."),
    ] = None,
    config: Annotated[Path | None, Option(help="The operator's file: more tools, and MCP servers.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON, with the whole schemas.")] = False,
) -> None:
    """List the tools that agent systems may name here.

    MCP servers of the operator's file are started to ask them for theirs.
    """
    import asyncio

    from stellwerk.agents.graphs.serve_targets import names_system
    from stellwerk.agents.tools.registry import as_text, select

    systems = [name for name in names or () if names_system(name)]
    found = asyncio.run(_inventory(chosen_config(config, systems)))
    wanted = select(found, [name for name in names or () if name not in systems])
    echo(json.dumps(wanted, indent=2, ensure_ascii=False) if as_json else as_text(wanted))


async def _inventory(config: Path | None) -> "list[DescribedTool]":
    from stellwerk.agents.build.resources import Resources
    from stellwerk.agents.graphs.operator_file import read_operator
    from stellwerk.agents.mcp.servers import McpServers
    from stellwerk.agents.tools.registry import discover

    operator = read_operator(config)
    mcp = McpServers(operator.mcp_servers)
    try:
        return await Resources(tools=discover(operator.tools), mcp=mcp).inventory()
    finally:
        await mcp.close()


@commands.command()
def schema() -> None:
    """Print the JSON Schema of agent systems, for editors."""
    from stellwerk.spec.load import json_schema

    echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


def _text(name: str) -> bytes:
    """Read at most one byte more than the limit."""
    from stellwerk.spec.yaml import SIZE_LIMIT

    if name == "-":
        return sys.stdin.buffer.read(SIZE_LIMIT + 1)
    with Path(name).open("rb") as file:
        return file.read(SIZE_LIMIT + 1)


async def _catalogue(config: Path | None) -> "Catalogue":
    """What systems may name here. Nothing is started: MCP servers and graphs have only names."""
    from importlib.metadata import entry_points

    from stellwerk.agents.build.resources import Resources
    from stellwerk.agents.graphs.operator_file import read_operator
    from stellwerk.agents.graphs.registry import ENTRY_POINTS
    from stellwerk.agents.tools.registry import discover

    operator = read_operator(config)
    found = await Resources(tools=discover(operator.tools), providers=operator.providers).catalogue()
    graphs = {*operator.graphs, *(point.name for point in entry_points(group=ENTRY_POINTS))}
    return replace(found, graphs=graphs, graph_schemas=lambda name: {}, mcp_servers=tuple(operator.mcp_servers))
