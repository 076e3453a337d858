"""The commands `usage` and `tenants limits`: parse and call, decide nothing. Heavy imports wait for their use."""

from typing import Annotated

import typer

from stellwerk.client.command_line import Another, Url, talk


def usage(
    url: Url = None,
    days: Annotated[int, typer.Option(help="How many, today included.", min=1)] = 30,
    tenant: Another = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print what a tenant has used, by day (UTC), user, system and model, the newest day first.

    Below it stands what is limited, and how much of that is used.
    """
    from stellwerk.client.usage import usage as show

    talk(url, lambda client: show(client, tenant=tenant, days=days, as_json=as_json))


def limits(  # noqa: PLR0913  an option for each limit
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Of the tenant.")],
    requests: Annotated[int | None, typer.Option(help="Requests of the tenant in a minute.", min=1)] = None,
    runs: Annotated[int | None, typer.Option(help="Runs that are under way or wait.", min=0)] = None,
    streams: Annotated[int | None, typer.Option(help="Streams that are open.", min=0)] = None,
    bytes: Annotated[int | None, typer.Option(help="Bytes of its sessions and files.", min=0)] = None,
    steps: Annotated[int | None, typer.Option(help="Calls of models in a day.", min=0)] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens in a day, those that go in included.", min=0)] = None,
    seconds: Annotated[int | None, typer.Option(help="Seconds in a day in which runs are under way.", min=0)] = None,
    session_requests: Annotated[int | None, typer.Option(help="Requests to one session in a minute.", min=1)] = None,
    session_streams: Annotated[int | None, typer.Option(help="Streams of one session.", min=0)] = None,
    session_bytes: Annotated[int | None, typer.Option(help="Bytes of one session and its files.", min=0)] = None,
    session_steps: Annotated[int | None, typer.Option(help="Calls of models in one session.", min=0)] = None,
    session_tokens: Annotated[int | None, typer.Option(help="Tokens in one session.", min=0)] = None,
    session_seconds: Annotated[int | None, typer.Option(help="Seconds of the runs of one session.", min=0)] = None,
    none: Annotated[bool, typer.Option("--none", help="Nothing is limited any more.")] = False,
    url: Url = None,
) -> None:
    """Limit what a tenant may use, and each of its sessions; what is not named is not limited.

    For whoever runs the server: with a key of an admin of the tenant local.

    \b
      stellwerk tenants limits acme                      which there are
      stellwerk tenants limits acme --requests 600 --runs 5 --tokens 1000000
      stellwerk tenants limits acme --none               nothing is limited any more
    """
    from stellwerk.client.usage import limit, limits

    aside = ("name", "none", "url")
    given = {key: value for key, value in context.params.items() if key not in aside and value is not None}
    if none and given:
        raise typer.BadParameter("--none takes all limits away; leave it out to set some")
    talk(url, lambda client: limit(client, name, given) if given or none else limits(client, name))
