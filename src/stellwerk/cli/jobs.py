"""Commands for jobs: crons, delayed runs, deliveries of webhooks."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from stellwerk.cli.shared import (
    WHERE,
    AsJson,
    GraphInput,
    RunConfig,
    RunContext,
    Url,
    group,
    local_time,
    print_rows,
    run_parameters,
    talk,
)

if TYPE_CHECKING:
    from stellwerk.client.client import Client

_CRONS = ("ID", "SCHEDULE", "ZONE", "GOES TO", "NEXT", "LAST")
_DELAYED = ("RUN", "SESSION", "SYSTEM", "STARTS")
_DELIVERIES = ("ID", "STATE", "ATTEMPTS", "SESSION", "URL", "OUTCOME")

Fields = dict[str, Any]
cron_commands = group("Crons: messages that are sent by a schedule.")
webhook_commands = group("Webhooks: deliveries of the ends of runs.")
commands = Typer()


@cron_commands.command("list", epilog=WHERE)
def list_crons(url: Url = None, as_json: AsJson = False) -> None:
    """List the crons of your tenant, with their next and last tick."""
    print_rows(talk(url, lambda client: client.crons()), _CRONS, _cron_row, as_json=as_json)


@cron_commands.command("create", epilog=WHERE)
def create_cron(  # noqa: PLR0913 - each is an option of the command line
    schedule: Annotated[str, Argument(help="Five fields: minute, hour, day, month, weekday.")],
    text: Annotated[str, Argument(help="The message.")] = "",
    system: Annotated[str | None, Option(metavar="NAME", help="Each tick begins a session of this system.")] = None,
    session: Annotated[str | None, Option(metavar="SID", help="Each tick sends to this session.")] = None,
    timezone: Annotated[str, Option(help="Such as Europe/Berlin.")] = "UTC",
    webhook: Annotated[str | None, Option(help="The address that is informed of each end.")] = None,
    url: Url = None,
    given_input: GraphInput = None,
    run_config: RunConfig = None,
    context: RunContext = None,
) -> None:
    """Create a cron and print its id.

    \b
      stellwerk crons create "0 7 * * mon-fri" "weather" --system demo --timezone Europe/Berlin
    """
    message = {"text": text, "webhook": webhook, **run_parameters(given_input, run_config, context)}
    message = {name: value for name, value in message.items() if value not in (None, "")}
    target = {"agent_system_id": system, "session_id": session}

    async def work(client: "Client") -> Fields:
        return await client.create_cron(schedule, message, timezone=timezone, **target)

    sys.stdout.write(f"{talk(url, work)['id']}\n")


@cron_commands.command("delete", epilog=WHERE)
def delete_cron(
    cron_id: Annotated[str, Argument(metavar="ID", help="Its id; `stellwerk crons list` lists them.")],
    url: Url = None,
) -> None:
    """Delete a cron; runs that it has started go on."""
    talk(url, lambda client: client.delete_cron(cron_id))
    sys.stderr.write(f"deleted the cron {cron_id}\n")


@webhook_commands.command("list", epilog=WHERE)
def list_deliveries(
    url: Url = None,
    session: Annotated[str | None, Option(metavar="SID", help="Only those of this session.")] = None,
    state: Annotated[str | None, Option(help="Only those in this state: pending, delivered or failed.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the deliveries of webhooks, the newest first."""
    found = talk(url, lambda client: client.webhook_deliveries(session_id=session, state=state))
    print_rows(found, _DELIVERIES, _delivery_row, as_json=as_json)


@webhook_commands.command("retry", epilog=WHERE)
def retry_delivery(
    delivery_id: Annotated[str, Argument(metavar="ID", help="Its id; `stellwerk webhooks list` lists them.")],
    url: Url = None,
) -> None:
    """Attempt a failed delivery again."""
    talk(url, lambda client: client.retry_delivery(delivery_id))
    sys.stderr.write(f"the delivery {delivery_id} is attempted again\n")


@commands.command(epilog=WHERE)
def delayed(url: Url = None, as_json: AsJson = False) -> None:
    """List runs that were accepted and start later, the next one first."""
    print_rows(talk(url, lambda client: client.delayed_runs()), _DELAYED, _delayed_row, as_json=as_json)


def _cron_row(cron: Fields) -> tuple[str, ...]:
    last = cron["last"] or {}
    outcome = last.get("error") or last.get("session_id") or "-"
    target = cron["agent_system_id"] or cron["session_id"]
    next_tick = local_time(cron["next_tick"]) if cron["enabled"] else "paused"
    return cron["id"], cron["schedule"], cron["timezone"], target, next_tick, outcome


def _delayed_row(run: Fields) -> tuple[str, ...]:
    return run["run_id"], run["session_id"], run["agent_system_id"], local_time(run["start_at"])


def _delivery_row(delivery: Fields) -> tuple[str, ...]:
    outcome = delivery["outcome"] or "-"
    counts = (delivery["state"], str(delivery["attempts"]))
    return delivery["id"], *counts, delivery["session_id"], delivery["url"], outcome
