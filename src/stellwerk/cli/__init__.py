"""Command line interface: the app and its commands. Heavy imports wait for their use.

The exit code of every command is 0 if all went well, 2 for an error that was foreseen, 130 after
Ctrl-C, and 141 if the reader of the output has gone.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

import stellwerk
from stellwerk.cli import administration, inspect, jobs, sessions, shared
from stellwerk.cli.shared import (
    Config,
    GraphInput,
    LogAsJson,
    RunConfig,
    RunContext,
    chosen_config,
    refuse,
    run_parameters,
)
from stellwerk.errors import StellwerkError


class _Commands(TyperGroup):
    """All commands. Those of plug-ins are loaded for the help, and for a name that is none of ours."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *self._plugins()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if (own := super().get_command(ctx, cmd_name)) or cmd_name not in self._plugins():
            return own
        parent = typer.Typer(add_completion=False, rich_markup_mode=None)
        parent.add_typer(self._plugins()[cmd_name], name=cmd_name)
        return typer.main.get_group(parent).commands[cmd_name]

    def _plugins(self) -> Mapping[str, typer.Typer]:
        from stellwerk import plugins

        return plugins.loaded(plugins.COMMANDS)

    def invoke(self, ctx: Any) -> Any:
        shared.prepare_streams()
        try:
            return super().invoke(ctx)
        except StellwerkError as error:
            from stellwerk.cli.render.text import visible

            refuse(visible(error.message))
        except KeyboardInterrupt:
            raise typer.Exit(shared.INTERRUPTED) from None
        except BrokenPipeError:
            raise typer.Exit(shared.PIPE_CLOSED) from None


app = typer.Typer(
    cls=_Commands,
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
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


@app.command()
def serve(  # noqa: PLR0913 - each is an option of the command line
    targets: Annotated[
        list[str] | None,
        Argument(
            metavar="[TARGET]...",
            help="[name=]path/to/file.py:graph, system.yaml, or a [prefix=]langgraph.json of yours.",
        ),
    ] = None,
    host: Annotated[str | None, Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, Option(help="Port to listen on; 0 takes a free one. [default: 8000]")] = None,
    data: Annotated[Path | None, Option(help="Folder for everything the server keeps. [default: ./data]")] = None,
    database: Annotated[
        str | None, Option(help="URL of a PostgreSQL database. [default: a SQLite file in the data folder]")
    ] = None,
    documents: Annotated[
        str | None, Option(help="s3://bucket/prefix, or a shared folder, for documents. [default: in the data folder]")
    ] = None,
    role: Annotated[
        str | None, Option(help="Of several nodes on one database: api, worker, or all. [default: all]")
    ] = None,
    workers: Annotated[
        int | None, Option(help="Server processes that share the port and a PostgreSQL database. [default: 1]")
    ] = None,
    config: Config = None,
    demo: Annotated[
        bool | None, Option("--demo/--no-demo", help="Offer the systems demo and office. [default: demo]")
    ] = None,
    ignore_auth: Annotated[
        bool | None, Option("--ignore-auth", help="Serve a langgraph.json without the auth that it names.")
    ] = None,
    isolate: Annotated[bool | None, Option("--isolate", help="Run graphs of yours in processes of their own.")] = None,
    langgraph_root: Annotated[
        bool | None, Option("--langgraph-root", help="Serve LangGraph's API at the root, too, not only at /langgraph.")
    ] = None,
) -> None:
    """Start the server with the demo system, and with agent systems and graphs of your own.

    Each option is also an environment variable: STELLWERK_HOST, STELLWERK_PORT, STELLWERK_DATA,
    STELLWERK_DATABASE, STELLWERK_DOCUMENTS, STELLWERK_ROLE, STELLWERK_WORKERS, STELLWERK_CONFIG,
    STELLWERK_DEMO, STELLWERK_IGNORE_AUTH, STELLWERK_ISOLATE, STELLWERK_LANGGRAPH_ROOT. Without
    --config an operator.yaml beside a system.yaml is used.
    """
    from pydantic import ValidationError

    from stellwerk.settings import Settings

    options = {"host": host, "port": port, "data": data, "config": config, "demo": demo}
    options |= {"database": database, "documents": documents, "ignore_auth": ignore_auth, "isolate": isolate}
    options |= {"langgraph_root": langgraph_root, "role": role, "workers": workers}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        wrong = [f"{one['loc'][0]} cannot be {one['input']!r}: {one['msg']}" for one in error.errors()]
        refuse("; ".join(wrong))
    chosen = settings.model_copy(update={"config": chosen_config(settings.config, targets or ())})
    if settings.workers > 1:
        from stellwerk.ops.workers import serve_in_processes as run_server
    else:
        from stellwerk.ops.serve import serve as run_server
    run_server(chosen, typer.echo, targets=targets or ())


@app.command()
def run(  # noqa: PLR0913 - each is an option of the command line
    target: Annotated[
        str, Argument(metavar="TARGET", help="system.yaml, file.py:graph, langgraph.json[:name], or demo.")
    ],
    text: Annotated[
        list[str] | None, Argument(metavar="TEXT", help="The message. In a pipe, standard input is read.")
    ] = None,
    config: Config = None,
    as_json: LogAsJson = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print the answer only.")] = False,
    debug: Annotated[bool, Option("--debug", help="Show the stack of an error.")] = False,
    given_input: GraphInput = None,
    run_config: RunConfig = None,
    context: RunContext = None,
) -> None:
    """Run an agent system, or a graph of your own, here in the terminal.

    Nothing is stored, and no server is needed. Without a text it is a conversation; Ctrl-D ends it.

    \b
      stellwerk run demo "weather"                 the built-in demo, without a key
      stellwerk run system.yaml "Plan my week"     an agent system
      stellwerk run my_graph.py:graph "hi"         your own graph
      stellwerk run system.yaml < letter.txt       the text from a file
      stellwerk run system.yaml "…" > answer.txt   only the answer goes into the file
      stellwerk run my_graph.py:graph --input '{"email": {"from": "Ann"}}' --context @context.json

    Without --config an operator.yaml beside the system.yaml is used. Questions are asked at the
    prompt; in a pipe their defaults are taken. Ctrl-C stops the run, twice ends at once.

    The exit code is 0 if the run completed, 1 if it failed, 2 if it could not be started, 3 if a
    question stays unanswered, and 130 if it was stopped.
    """
    from stellwerk.agents.graphs.operator_file import read_operator
    from stellwerk.cli.run import RunCommand, run_agent

    operator = read_operator(chosen_config(config, [target], say=not quiet))
    given = run_parameters(given_input, run_config, context)
    command = RunCommand(target, text or (), operator, as_json=as_json, quiet=quiet, debug=debug, given=given)
    raise typer.Exit(run_agent(command))


app.add_typer(inspect.commands)
app.add_typer(administration.data_commands)
app.add_typer(sessions.commands)
app.add_typer(jobs.commands)
app.add_typer(jobs.cron_commands, name="crons")
app.add_typer(jobs.webhook_commands, name="webhooks")
app.add_typer(administration.tenant_commands, name="tenants")
app.add_typer(administration.key_commands, name="keys")
app.add_typer(administration.secret_commands, name="secrets")
app.add_typer(administration.audit_commands, name="audit")
app.add_typer(administration.usage_commands)  # a group without a name, so that it is listed here and not first
