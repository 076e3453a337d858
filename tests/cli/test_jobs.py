"""`stellwerk crons`, `webhooks` and `delayed`, and the same in Python: against a real server."""

import json

import httpx2
import pytest

from stellwerk.client import Client, Problem
from tests.cli.processes import stellwerk

WHEN = "0 7 * * mon-fri"


async def test_crons_are_created_listed_and_deleted_from_the_shell(address: str) -> None:
    where = ("--url", address)
    code, out, err = await stellwerk("crons", "create", WHEN, "weather", "--system", "demo", *where)
    assert (code, err) == (0, "")
    cron_id = out.strip()
    code, out, _ = await stellwerk("crons", "list", "--json", *where)
    assert (code, json.loads(out)["message"]) == (0, {"text": "weather"})
    headings, row = (await stellwerk("crons", "list", *where))[1].splitlines()
    assert (headings.split()[0], row.split()[0], row.split()[-1]) == ("ID", cron_id, "-")
    assert (await stellwerk("crons", "delete", cron_id, *where))[0] == 0
    code, _, err = await stellwerk("crons", "delete", cron_id, *where)
    assert (code, err) == (2, f"stellwerk: there is no cron '{cron_id}'; GET /crons lists them\n")


async def test_deliveries_and_delayed_runs_are_listed_from_the_shell(
    address: str, client: httpx2.AsyncClient, sid: str
) -> None:
    await client.post(f"/sessions/{sid}/messages", json={"text": "weather", "after_seconds": 3600})
    code, out, err = await stellwerk("delayed", "--url", address)
    assert (code, out.splitlines()[1].split()[1:3], err) == (0, [sid, "demo"], "")
    assert (await stellwerk("webhooks", "list", "--json", "--url", address)) == (0, "", "")
    code, _, err = await stellwerk("webhooks", "retry", "x", "--url", address)
    assert (code, err) == (2, "stellwerk: there is no webhook delivery 'x'; GET /webhook-deliveries lists them\n")


async def test_the_client_has_methods_for_jobs(address: str) -> None:
    async with Client(address) as client:
        cron = await client.create_cron(WHEN, {"text": "weather"}, agent_system_id="demo")
        changed = await client.change_cron(cron["id"], WHEN, {"text": "hi"}, agent_system_id="demo", enabled=False)
        assert (changed["next_tick"], await client.crons()) == (None, [changed])
        await client.delete_cron(cron["id"])
        assert await client.crons() == []
        sid = (await client.begin("demo")).id
        accepted = await client.send(sid, "weather", after_seconds=3600)
        assert [run["run_id"] for run in await client.delayed_runs()] == [accepted.run_id]
        assert await client.webhook_deliveries(session_id=sid, state="failed") == []
        assert await client.default_webhook() is None
        with pytest.raises(Problem, match="no webhook delivery"):
            await client.retry_delivery("x")
