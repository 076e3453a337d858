"""`stellwerk usage` and `stellwerk tenants limits`."""

import asyncio
import json

import httpx2

from tests.commands import Command
from tests.runs.talking import begin, rest_of_run, send


def test_limits_are_set_and_use_is_shown_below_its_headings(shared_address: str, command: Command) -> None:
    async def talk() -> None:
        async with httpx2.AsyncClient(base_url=shared_address) as client:
            sid = await begin(client)
            await send(client, sid, "hello")
            await rest_of_run(client, sid)

    asyncio.run(talk())
    set_ = command("tenants", "limits", "local", "--runs", "5", "--session-steps", "9", "--url", shared_address)
    assert (set_.returncode, set_.stderr) == (0, "from now on, of local: runs 5, session_steps 9\n")
    shown = command("usage", "--days", "1", "--url", shared_address)
    assert shown.returncode == 0, shown.stderr
    headings, total, model, _, runs, steps = (line.split() for line in shown.stdout.splitlines())
    assert headings[:5] == ["DAY", "USER", "SYSTEM", "MODEL", "RUNS"]
    assert (total[1:5], model[1:5]) == (["-", "demo", "-", "1"], ["-", "demo", "scripted", "0"])
    assert (runs, steps) == (["runs:", "0", "of", "5"], ["session_steps:", "at", "most", "9"])
    rows = [json.loads(line) for line in command("usage", "--json", "--url", shared_address).stdout.splitlines()]
    assert [row["model"] for row in rows] == [None, "scripted"]
    looked_at = command("tenants", "limits", "local", "--url", shared_address)
    assert looked_at.stdout == "runs: 0 of 5\nsession_steps: at most 9\n"
    lifted = command("tenants", "limits", "local", "--none", "--url", shared_address)
    assert (lifted.returncode, lifted.stderr) == (0, "from now on, of local: nothing is limited\n")
    assert command("tenants", "limits", "local", "--url", shared_address).stdout == "nothing is limited\n"
    assert command("tenants", "limits", "local", "--none", "--runs", "1", "--url", shared_address).returncode == 2
    unknown = command("tenants", "limits", "unknown", "--url", shared_address)
    assert (unknown.returncode, "there is no tenant 'unknown'" in unknown.stderr) == (2, True)
