"""Calls the functions of a script for a test, as host.mjs does, in an environment with older packages.

``python host.py script.py`` reads {"id", "call", "with"} from standard input and answers {"id", "result"} or
{"id", "error"}. A function gets what is under "with", and ``emit(name, value)``, which answers {"id", "event", "value"}
while the call goes on. Calls run side by side. The process ends with its standard input.
"""

import asyncio
import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

_answers = sys.stdout


def write(line: dict[str, Any]) -> None:
    _answers.write(json.dumps(line) + "\n")
    _answers.flush()


async def run(script: Any, line: str) -> None:
    asked = json.loads(line)

    def emit(event: str, value: Any) -> None:
        write({"id": asked["id"], "event": event, "value": value})

    call = asyncio.ensure_future(getattr(script, asked["call"])(emit, **asked["with"]))
    await asyncio.wait([call])
    if (error := call.exception()) is None:
        write({"id": asked["id"], "result": call.result()})
    else:
        write({"id": asked["id"], "error": "".join(traceback.format_exception(error))})


async def main(path: Path) -> None:
    sys.path.insert(0, str(path.parent))
    script = importlib.import_module(path.stem)
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    reading = loop.run_in_executor(None, read, loop, lines)
    running = set()
    while line := await lines.get():
        running.add(asyncio.create_task(run(script, line)))
    await reading
    for task in running:
        task.cancel()


def read(loop: asyncio.AbstractEventLoop, lines: "asyncio.Queue[str]") -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    loop.call_soon_threadsafe(lines.put_nowait, "")


if __name__ == "__main__":
    sys.stdout = sys.stderr  # standard output belongs to the answers
    asyncio.run(main(Path(sys.argv[1]).resolve()))
