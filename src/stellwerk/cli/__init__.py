"""The command line: parses and calls, decides nothing. Heavy imports wait until a command needs them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

import stellwerk
from stellwerk.cli import keeping, looking
from stellwerk.cli.operator_file import chosen_config, operator_of, refuse
from stellwerk.client.administration_command import audit_commands, key_commands, tenant_commands
from stellwerk.client.command_line import WHERE, commands
from stellwerk.client.secrets_command import secret_commands
from stellwerk.client.usage_command import usage
from stellwerk.client.workflow_command import workflow_commands

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
    demo: Annotated[
        bool | None, typer.Option("--demo/--no-demo", help="Offer the systems demo and office. [default: demo]")
    ] = None,
) -> None:
    """Start the server with the demo system, and with agent systems and graphs of your own.

    Each option is also an environment variable: STELLWERK_HOST, STELLWERK_PORT, STELLWERK_DATA, STELLWERK_CONFIG,
    STELLWERK_DEMO.
    Without --config an operator.yaml beside a system.yaml is used.
    """
    from pydantic import ValidationError

    from stellwerk.errors import StellwerkError
    from stellwerk.settings import Settings

    given = {"host": host, "port": port, "data": data, "config": config, "demo": demo}
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        from stellwerk.serving import serve as run_server

        chosen = settings.model_copy(update={"config": chosen_config(settings.config, targets or ())})
        run_server(chosen, typer.echo, targets=targets or ())
    except StellwerkError as error:
        refuse(str(error))
    except ValidationError as error:
        refuse("; ".join(f"{e['loc'][0]} cannot be {e['input']!r}: {e['msg']}" for e in error.errors()))


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
            operator = operator_of(chosen_config(config, [target], say=not quiet))
        except StellwerkError as error:
            refuse(str(error))
        code = run_here(Wish(target, text or (), operator, as_json=as_json, quiet=quiet, debug=debug))
    except KeyboardInterrupt:  # before there was anything to stop
        code = 130
    raise typer.Exit(code)


usage_command = typer.Typer()  # a group without a name: one on the app itself would stand before all of them
usage_command.command(epilog=WHERE)(usage)
app.add_typer(looking.commands)
app.add_typer(keeping.commands)
app.add_typer(commands)
app.add_typer(tenant_commands(), name="tenants")
app.add_typer(key_commands(lambda: _offline()), name="keys")
app.add_typer(secret_commands(), name="secrets")
app.add_typer(audit_commands(lambda: _offline()), name="audit")
app.add_typer(usage_command)
app.add_typer(workflow_commands(lambda system, config: _server_here(system, config)), name="workflow")


def _offline() -> ModuleType:
    from stellwerk import offline

    return offline


def _server_here(system: str, config: Path | None) -> "tuple[str, Callable[[], AbstractAsyncContextManager[str]]]":
    from stellwerk.agents.targets import names_system, systems_of
    from stellwerk.serving import served_here

    own = systems_of([system]) if names_system(system) or system.endswith((".yaml", ".yml")) else {}
    return next(iter(own), system), partial(served_here, own, chosen_config(config, [system]))
