"""Functions that run in processes of their own, well behaved or not. The child imports this module anew."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from stellwerk.agents.tools.spec import tool

NAP = "sleep 1000"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(1000)"


def note(path: str, *pids: int) -> None:
    """Write down who runs, all at once: whoever sees the file sees all of it."""
    part = Path(path).with_suffix(".part")
    part.write_text(" ".join(str(pid) for pid in (os.getpid(), *pids)))
    part.rename(path)


@tool(runs_in="process")
def hang(path: str) -> str:
    """Wait for a child that waits for a child."""
    child = subprocess.Popen(["sh", "-c", f"{NAP} & echo $!; wait"], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    note(path, child.pid, int(child.stdout.readline()))
    child.wait()
    return "never"


@tool(runs_in="process")
def hang_stubbornly(path: str) -> str:
    """Ignore every request to end, like one child; another one has left the session and lost its parent."""
    deaf = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)
    daemon = subprocess.Popen(
        ["sh", "-c", f"setsid {NAP} & echo $!"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert daemon.stdout and deaf.stdout
    deaf.stdout.readline()
    lost = int(daemon.stdout.readline())
    daemon.wait()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path, deaf.pid, lost)
    deaf.wait()
    return "never"


@tool(runs_in="process")
def attack_the_keeper(path: str, how: int) -> str:
    """Kill or stop the process that watches, while a child has left the session."""
    note(path, subprocess.Popen(NAP.split(), start_new_session=True).pid)
    os.kill(os.getppid(), how)
    signal.pause()
    return "never"


@tool(runs_in="process")
def leave_a_thread_behind(raising: bool) -> str:
    """Answer while a thread still works."""
    threading.Thread(target=threading.Event().wait).start()
    if raising:
        raise LookupError("no")
    return "answered"


@tool(runs_in="process")
def wait_for_the_end(path: str) -> str:
    """Keep a place."""
    note(path)
    signal.pause()
    return "never"


@tool(runs_in="process")
def leave_somebody_behind(path: str) -> str:
    """Return while a child still runs."""
    note(path, subprocess.Popen(NAP.split(), start_new_session=True).pid)
    return "done"


@tool(runs_in="process")
def crash() -> str:
    """Die like a library that reads where it must not."""
    ctypes.string_at(0)
    return "never"


@tool(runs_in="process")
def leave(code: int) -> str:
    """End the process from within."""
    os.write(1, b"I am off\n")
    os._exit(code)


@tool(runs_in="process")
def babble() -> str:
    """Write nonsense to whatever is open."""
    for number in range(3, 20):
        try:
            os.write(number, b"\xc1nonsense\n")
        except OSError:
            continue
    return "said"


@tool(runs_in="process")
def overflow(mebibytes: int) -> bytes:
    """Return many bytes."""
    return bytes(mebibytes << 20)


@tool(runs_in="process")
def flood() -> str:
    """Write more than anybody takes, without asking."""
    piece = bytes(1 << 20)
    while True:
        for number in range(3, 20):
            try:
                os.write(number, piece)
            except OSError:
                continue


@tool(runs_in="process")
def refuse(reason: str) -> str:
    """Raise an error, with whatever is escaped in its text."""
    raise LookupError(reason.replace("\\udce9", "\udce9"))


@tool(runs_in="process")
def look_around() -> dict[str, object]:
    """Tell what the function can see of the server: its environment, what it has open and has imported."""
    sys.stdout.write("this must not get in between\n")
    loaded = sorted(module for module in sys.modules if module.partition(".")[0] in ("langchain", "langgraph"))
    opened = [number for number in range(100) if Path(f"/proc/self/fd/{number}").is_symlink()]
    seen = {"input": sys.stdin.read(), "loaded": loaded, "open": opened}
    return seen | {"environment": dict(os.environ)}  # noqa: TID251


class Secretive:
    token = "canary"


@tool(runs_in="process")
def return_an_object() -> object:
    """Return what is not data."""
    return Secretive()
