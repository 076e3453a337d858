"""Write down what the version at hand makes of a few conversations: ``python -m tests.upgrades.record schema-7``.

To be done with a version before it is followed by one that stores things in
another way. The tests then read the folder with the newest code.
"""

import asyncio
import os
import re
import signal
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

import httpx2

HERE = Path(__file__).parent
CONVERSATIONS = (
    ("How is the weather?", "And a table of towns, please."),
    ("Write it to a file.",),
    ("Make a plan.", "Delegate the rest.", "This may fail."),
    ("Ask me something.",),  # stays open
)


async def record(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, said = Path(folder) / "data", Path(folder) / "said"
        said.mkdir()
        server = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "stellwerk",
            "serve",
            "--port",
            "0",
            "--data",
            str(data),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            await _converse(await _address(server), said)
        finally:
            server.send_signal(signal.SIGTERM)
            await server.wait()
        with closing(sqlite3.connect(data / "stellwerk.db")) as database:
            database.execute("VACUUM")
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
            archive.add(data, "data", filter=_nobodys)
            archive.add(said, "said", filter=_nobodys)


async def _address(server: asyncio.subprocess.Process) -> str:
    assert server.stdout is not None
    async for line in server.stdout:
        if (found := re.search(rb"http://127\.0\.0\.1:\d+", line)) is not None:
            return found[0].decode()
    raise SystemExit("the server did not start")


async def _converse(address: str, said: Path) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        for messages in CONVERSATIONS:
            session = (await client.post("/sessions", json={"agent_system_id": "demo"})).json()["id"]
            for text in messages:
                sent = (await client.post(f"/sessions/{session}/messages", json={"text": text})).json()
                whole = {"until": "run_end", "after": sent["position"]}
                await client.get(f"/sessions/{session}/stream", params=whole)
            (said / f"{session}.ndjson").write_text(await lines(client, session))


async def lines(client: httpx2.AsyncClient, session: str) -> str:
    """All that is in the log of a session, as it is told."""
    return (await client.get(f"/sessions/{session}/events", params={"profile": "debug", "limit": 1000})).text


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without whose it was and when, and without what a server makes anew."""
    if os.path.basename(entry.name) in {"master.key", "lock", "stellwerk.ballast"}:
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
