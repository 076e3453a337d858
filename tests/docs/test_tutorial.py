"""The tutorial, followed word for word: every file is written, every command typed, every output looked for."""

import asyncio
import filecmp
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.commands import Command
from tests.docs.pages import EXAMPLES, PAGES, ROOT, Block, blocks, is_shown
from tests.docs.shell import Shell, surroundings
from tests.docs.standby import take_the_place_of
from tests.openai_server import Reply, serving_openai


class Reader:
    """Somebody who works through the pages in two shells; what he must fill in himself, he fills in."""

    def __init__(self, home: Path, stack: ExitStack, own: dict[str, str], **variables: str) -> None:
        (home / "stellwerk").symlink_to(ROOT)
        self.folder = home / "release-desk"
        self._home, self._stack, self._own = home, stack, own
        self._variables = {**surroundings(home), "STELLWERK_PORT": "0", **variables}
        self._server = self._shell = self._shell_in(home)

    def follow(self, block: Block) -> None:
        match block.kind:
            case "sh" if block.text.startswith("stellwerk serve"):
                self._serve(block.text)
            case "sh":
                self._type(block.text)
            case "text":
                self._look_for(block.text)
            case _ if block.file:
                self._write(block)

    def hurry(self) -> None:
        """The command has been used as it was installed. From now on one that is quicker stands in its place."""
        self._shell.seen()
        command, socket = self.folder / ".venv/bin/stellwerk", self._home / "standby"
        waiting = take_the_place_of(command, socket_at=socket, environment=self._variables)
        self._stack.callback(waiting.wait)
        self._stack.callback(waiting.kill)

    def _shell_in(self, folder: Path) -> Shell:
        return self._stack.enter_context(Shell(folder, self._home / f".typed-in-{folder.name}", self._variables))

    def _write(self, block: Block) -> None:
        path, below = self.folder / block.file, "\n\n" if block.kind == "python" else ""
        path.write_text(path.read_text("utf-8") + below + block.text if block.added else block.text, "utf-8")

    def _type(self, commands: str) -> None:
        self._asked = self._shell
        self._shell.seen()
        for blank, filled in self._own.items():
            commands = commands.replace(blank, filled)
        self._shell.type(commands)
        if commands.startswith("kill"):
            self._server.seen()

    def _serve(self, command: str) -> None:
        self._asked = self._server
        self._server.seen()
        self._server.type(command)
        pid, address = self._server.wait_for(r"\(process (\d+)\): open http://(\S+)/\nTry: .*}'").groups()
        self._own |= {"4711": pid, "localhost:8000": address}
        self._stack.callback(self._end, int(pid))
        if self._shell is self._server:
            self._shell = self._shell_in(self.folder)
            self._shell.type(". .venv/bin/activate")
        self._shell.seen()
        self._shell.type(f"export STELLWERK_URL=http://{address}")

    def _end(self, pid: int) -> None:
        """A shell that is killed may leave its server behind. The page has ended most of them itself."""
        with suppress(FileNotFoundError, ProcessLookupError):
            if str(self.folder) in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)

    def _look_for(self, promised: str) -> None:
        self._asked.answer(promised)
        running = self._asked is self._server is not self._shell
        seen = self._asked.output() if running else self._asked.seen()
        promised = promised.replace("127.0.0.1:8000", self._own.get("localhost:8000", ""))
        # Whether a terminal shows that Ctrl was pressed depends on what is drawn after it.
        shown = is_shown(promised.replace("\n^C", ""), seen.replace("\n^C", ""))
        assert shown, f"the page shows:\n{promised}\nit is:\n{seen}"


@pytest.mark.timeout(1800)
async def test_the_tutorial_can_be_followed_word_for_word(tmp_path: Path) -> None:
    async with serving_openai() as openai:
        openai.replies.append(Reply(say="Hello. What do we release?"))
        await asyncio.to_thread(_follow_all, tmp_path, openai.address, openai.key)
        assert len(openai.received) == 1


def _follow_all(home: Path, openai: str, key: str) -> None:
    with ExitStack() as stack:
        reader = Reader(home, stack, {"sk-…": key}, OPENAI_BASE_URL=openai)
        for page in PAGES:
            for block in blocks(page):
                reader.follow(block)
            if page is PAGES[0]:
                reader.hurry()
            if (step := EXAMPLES / f"{page.stem}.yaml").exists():
                assert filecmp.cmp(reader.folder / "system.yaml", step, shallow=False), page.name
        names = [
            "VERSION",
            "operator.yaml",
            "tools.py",
            *(f"changes/{path.name}" for path in EXAMPLES.glob("changes/*")),
        ]
        assert filecmp.cmpfiles(reader.folder, EXAMPLES, names, shallow=False) == (names, [], [])


def test_each_piece_of_code_of_the_tutorial_stands_in_its_example() -> None:
    code = [block for page in PAGES for block in blocks(page) if block.kind not in ("sh", "text")]
    files = [path.read_text("utf-8") for path in EXAMPLES.iterdir() if path.is_file()]
    assert len(code) > 10
    assert not [block.text for block in code if not any(block.text in text for text in files)]


def test_each_step_of_the_tutorial_is_a_sound_system(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(path.name for path in EXAMPLES.glob("*.yaml") if path.name != "operator.yaml")
    monkeypatch.chdir(EXAMPLES)
    done = command("check", *names, "--config", "operator.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("ready to register") == len(names) == 6
