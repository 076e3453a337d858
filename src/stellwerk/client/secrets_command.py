"""The command `secrets`: parses and calls, decides nothing. A value never stands on a command line."""

import sys
from typing import Annotated

import typer

from stellwerk.client.administration_command import Json
from stellwerk.client.command_line import WHERE, Url, talk

Name = Annotated[str, typer.Argument(help="What it is for, such as openai_api_key.")]
System = Annotated[str | None, typer.Option("--system", help="That of one agent system. [default: of the tenant]")]


def secret_commands() -> typer.Typer:
    commands = typer.Typer(
        help="Secrets: keys that agents use, and that nobody can read.", no_args_is_help=True, rich_markup_mode=None
    )

    @commands.command("list", epilog=WHERE)
    def list_(url: Url = None, as_json: Json = False) -> None:
        """List the secrets of your tenant, without their values."""
        from stellwerk.client.secrets import secrets

        talk(url, lambda client: secrets(client, as_json=as_json))

    @commands.command("set", epilog=WHERE)
    def set_(name: Name, system: System = None, url: Url = None) -> None:
        """Store a secret, or another value of it. The value is asked for, or read from a pipe.

        \b
          stellwerk secrets set openai_api_key                    asks for it
          stellwerk secrets set openai_api_key < key.txt          reads it
          stellwerk secrets set openai_api_key --system helpdesk  for one agent system alone
        """
        from stellwerk.client.secrets import store

        asked = sys.stdin is not None and sys.stdin.isatty()
        value = typer.prompt("Value", hide_input=True, err=True) if asked else sys.stdin.read()
        talk(url, lambda client: store(client, name, value, system=system))

    @commands.command(epilog=WHERE)
    def delete(name: Name, system: System = None, url: Url = None) -> None:
        """Delete a secret; the next run does without it."""
        from stellwerk.client.secrets import delete as take_away

        talk(url, lambda client: take_away(client, name, system=system))

    @commands.command(epilog=WHERE)
    def rotate(url: Url = None) -> None:
        """Seal all secrets of a server with another master key, while it runs.

        For whoever runs the server: with a key of an admin of the tenant local.
        """
        from stellwerk.client.secrets import rotate as seal_anew

        talk(url, seal_anew)

    return commands
