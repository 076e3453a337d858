"""LangGraph's own server, installed and started for the exercise, whose results are written to ``reference.json``."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from stellwerk.api.http.server import listener
from tests.protocols.langgraph.exercise import Exercise

SERVER = "langgraph-cli[inmem]==0.4.40"
HERE = Path(__file__).parent
_SOON = 120


@contextmanager
def reference_server(folder: Path) -> Iterator[str]:
    """The address of LangGraph's server with the graph of these tests."""
    venv.create(folder / "venv", with_pip=True)
    subprocess.run([folder / "venv/bin/pip", "install", "--quiet", SERVER], check=True)
    with listener("127.0.0.1", 0) as socket:
        port = socket.getsockname()[1]
    command: list[str | Path] = [
        folder / "venv/bin/langgraph",
        "dev",
        "--port",
        str(port),
        "--no-browser",
        "--no-reload",
    ]
    server = subprocess.Popen(command, cwd=HERE / "project", stdout=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(address)
        yield address
    finally:
        server.terminate()
        server.wait(_SOON)


def _wait(address: str) -> None:
    for _ in range(_SOON):
        try:
            httpx2.get(f"{address}/ok").raise_for_status()
        except httpx2.HTTPError:
            time.sleep(1)
        else:
            return
    sys.exit("LangGraph's server does not answer")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, reference_server(Path(folder)) as address:
        seen = asyncio.run(Exercise(address).run())
    (HERE / "reference.json").write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
