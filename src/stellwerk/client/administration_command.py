"""The commands `tenants`, `keys` and `audit`: parse and call, decide nothing. Heavy imports wait for their use."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from stellwerk.client.command_line import WHERE, Another, Url, in_home, talk
from stellwerk.client.usage_command import limits

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Data = Annotated[
    Path | None,
    typer.Option(help="Instead of asking a server: the data folder of one that is not running.", callback=in_home),
]
Offline = Callable[[], ModuleType]
"""The part of the server that works on a data folder, which is not loaded before it is needed."""


def tenant_commands() -> typer.Typer:
    commands = _group("Tenants: teams that share a server and see nothing of each other.")

    @commands.command("list", epilog=WHERE)
    def list_(url: Url = None, as_json: Json = False) -> None:
        """List the tenants of a server."""
        from stellwerk.client.administration import tenants

        talk(url, lambda client: tenants(client, as_json=as_json))

    @commands.command(epilog=WHERE)
    def create(
        name: Annotated[str, typer.Argument(help="Lower-case letters, digits and dashes.")], url: Url = None
    ) -> None:
        """Make a tenant. For whoever runs the server: with a key of an admin of the tenant local."""
        from stellwerk.client.administration import make_tenant

        talk(url, lambda client: make_tenant(client, name))

    @commands.command(epilog=WHERE)
    def lock(name: Annotated[str, typer.Argument(help="Of the tenant.")], url: Url = None) -> None:
        """Lock a tenant out: its keys and tokens open nothing, its streams end, its runs are stopped."""
        from stellwerk.client.administration import lock_tenant

        talk(url, lambda client: lock_tenant(client, name, locked=True))

    @commands.command(epilog=WHERE)
    def unlock(name: Annotated[str, typer.Argument(help="Of the tenant.")], url: Url = None) -> None:
        """Let a locked tenant in again, with the keys that it had."""
        from stellwerk.client.administration import lock_tenant

        talk(url, lambda client: lock_tenant(client, name, locked=False))

    commands.command(epilog=WHERE)(limits)
    return commands


def key_commands(offline: Offline) -> typer.Typer:
    commands = _group("API keys: who may use a server, and for what.")

    @commands.command("list", epilog=WHERE)
    def list_(tenant: Another = None, url: Url = None, as_json: Json = False) -> None:
        """List the keys of your tenant, without their secrets."""
        from stellwerk.client.administration import keys

        talk(url, lambda client: keys(client, tenant=tenant, as_json=as_json))

    @commands.command(epilog=WHERE)
    def create(  # noqa: PLR0913  an option for each field of a key
        name: Annotated[str, typer.Argument(help="What it is for. Two keys of one name can be valid at a time.")],
        role: Annotated[str, typer.Option(help="reader, member or admin.")] = "member",
        user: Annotated[str | None, typer.Option(help="Whose it is.")] = None,
        scope: Annotated[
            list[str] | None,
            typer.Option(help="Less than the role may: read, run, register, administer, metrics; repeat it."),
        ] = None,
        days: Annotated[
            int | None, typer.Option(help="Days after which it expires. [default: never]", min=1, max=3660)
        ] = None,
        tenant: Another = None,
        url: Url = None,
        data: Data = None,
    ) -> None:
        """Make a key and print it: this once, and only it goes to standard output.

        The first key of a server must be an admin's. From then on nobody gets in without one.

        \b
          stellwerk keys create me --role admin              on a server without keys, on this machine
          stellwerk keys create me --role admin --data data  before it was ever started
          stellwerk keys create ci --scope run --days 90     one that can only run things

        To change a key: make another of the same name, use it, then `stellwerk keys revoke` the old one.
        """
        from stellwerk.client.administration import make_key

        lasts = None if days is None else days * 86_400
        wanted = {"name": name, "role": role, "user": user, "scopes": scope or None, "tenant": tenant}
        if data is not None:
            raise typer.Exit(offline().tell_key(data, {**wanted, "expires_in": lasts}))
        talk(url, lambda client: make_key(client, {**wanted, "expires_in": lasts}))

    @commands.command(epilog=WHERE)
    def revoke(
        key_id: Annotated[str, typer.Argument(metavar="ID", help="Its id; `stellwerk keys list` lists them.")],
        tenant: Another = None,
        last: Annotated[bool, typer.Option("--last", help="Even if no other key of an admin is valid.")] = False,
        url: Url = None,
    ) -> None:
        """Revoke a key: it opens nothing any more, and what it has opened is closed.

        The last key of an admin is refused without --last: its tenant could make no other. Of the tenant local,
        `stellwerk keys create NAME --role admin --data FOLDER` makes one while the server is stopped.
        """
        from stellwerk.client.administration import revoke_key

        talk(url, lambda client: revoke_key(client, key_id, tenant=tenant, last=last))

    return commands


def audit_commands(offline: Offline) -> typer.Typer:
    commands = _group("The audit: who did what, in a chain that nobody can change unseen.")

    @commands.command(epilog=WHERE)
    def show(
        url: Url = None,
        after: Annotated[int, typer.Option(help="Leave out entries up to this number.", min=0)] = 0,
        as_json: Json = False,
    ) -> None:
        """Print the audit of your tenant, the oldest first."""
        from stellwerk.client.administration import audit

        talk(url, lambda client: audit(client, after=after, as_json=as_json))

    @commands.command()
    def verify(
        data: Annotated[
            Path, typer.Option(help="The data folder of the server, which may be running.", callback=in_home)
        ] = Path("data"),
    ) -> None:
        """Check the chains of all tenants in a data folder, entry by entry.

        The exit code is 0 if all hold, and 1 if an entry was changed, removed or slipped in. What was cut off at the
        end cannot be seen: compare the last number and hash that are printed with those of last time.
        """
        raise typer.Exit(offline().tell_verdicts(data))

    return commands


def _group(help: str) -> typer.Typer:
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)
