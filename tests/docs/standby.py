"""``stellwerk …`` without the seconds in which it imports: forked from a process that has imported the same package.

The Python into which that was installed runs this file, which then waits at a socket. As the ``stellwerk`` of the
same environment it hands its arguments, folder, environment and files to the one who waits, passes on Ctrl-C, and ends
as the forked one ends; so it imports nothing before that but a little of Python's own library.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_FIRST_LINE = "#!{python} -IS\nWAITING = {socket!r}\n"


def take_the_place_of(command: Path, *, socket_at: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    """From now on the command is quick. Who calls this ends the process that it gets."""
    python, source = command.parent / "python", Path(__file__)
    listening = subprocess.Popen([python, "-P", source, socket_at], stdout=subprocess.PIPE, env=environment)
    assert listening.stdout is not None
    with listening.stdout as said:
        said.read()  # it closes it when it listens
    command.write_text(_FIRST_LINE.format(python=python, socket=str(socket_at)) + source.read_text("utf-8"), "utf-8")
    return listening


def wait_for_commands(path: str) -> None:
    for name in ("cli", "ops.serve", "cli.run"):
        import_module(f"stellwerk.{name}")
    with socket.socket(socket.AF_UNIX) as door, open(os.devnull) as nothing:
        door.bind(path)
        door.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        os.dup2(nothing.fileno(), 1)
        while True:
            client, _ = door.accept()
            with client:
                if os.fork() == 0:
                    door.close()
                    os._exit(_attend(client))


def _attend(client: socket.socket) -> int:
    """Fork the command, tell who it is, and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    wish, files, _, _ = socket.recv_fds(client, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        client.close()
        _become(json.loads(wish), files)
    for file in files:
        os.close(file)
    client.sendall(f"{pid}\n".encode())
    client.sendall(f"{os.waitpid(pid, 0)[1]}\n".encode())
    return 0


def _become(wish: dict[str, Any], files: list[int]) -> None:
    from stellwerk.cli import app

    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wish["folder"])
    os.environ.clear()  # noqa: TID251
    os.environ.update(wish["environment"])  # noqa: TID251
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    sys.argv = ["stellwerk", *wish["arguments"]]
    app(wish["arguments"], prog_name="stellwerk")


def ask(path: str) -> None:
    """Let it be done, and end likewise."""
    wish = {"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: TID251
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        socket.send_fds(door, [json.dumps(wish).encode()], [0, 1, 2])
        told = door.makefile()
        pid = int(told.readline())
        signal.signal(signal.SIGINT, lambda *_: os.kill(pid, signal.SIGINT))
        ended = int(told.readline())
    if os.WIFSIGNALED(ended):
        os.kill(os.getpid(), os.WTERMSIG(ended))
    sys.exit(os.waitstatus_to_exitcode(ended))


if __name__ == "__main__":
    if "WAITING" in globals():
        ask(globals()["WAITING"])
    else:
        wait_for_commands(sys.argv[1])
