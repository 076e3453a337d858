"""A shell in a terminal, into which the commands of a page are typed."""

import re
import sys
import sysconfig
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.pseudo_terminal import Terminal

_BASH = ("bash", "--norc", "--noprofile", "--noediting", "-i")
_PROMPT = "§"


_NEW_ENVIRONMENT = f"""#!/bin/sh
[ "$1 $2 $#" = "-m venv 3" ] || exec {sys.executable} "$@"
{sys.executable} -m venv --without-pip "$3"
printf '#!/bin/sh\\nexec "%s/bin/python" -m pip "$@"\\n' "$(realpath "$3")" > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""


def surroundings(home: Path) -> dict[str, str]:
    """A newcomer's environment. What pip would fetch is there already; Stellwerk itself is built and installed.

    So is pip, which a new environment would unpack and compile for itself: that takes longer than any command.
    """
    programs = home / "programs"
    programs.mkdir()
    (programs / "python3").write_text(_NEW_ENVIRONMENT, "utf-8")
    (programs / "python3").chmod(0o755)
    return {
        "HOME": str(home),
        "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": sysconfig.get_path("purelib"),
        **{"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        "PIP_NO_BUILD_ISOLATION": "0",  # which turns it off: pip reads this one the other way round
        **{"PS1": _PROMPT, "VIRTUAL_ENV_DISABLE_PROMPT": "1"},
    }


class Shell:
    def __init__(self, folder: Path, scripts: Path, variables: dict[str, str]) -> None:
        scripts.mkdir()
        self._scripts, self._typed = scripts, 0
        self._terminal = Terminal(command=_BASH, cwd=folder, columns=100, **variables)

    def __enter__(self) -> Self:
        self._terminal.until(self._is_idle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.__exit__(kind, error, trace)

    def type(self, commands: str) -> None:
        """Type the commands; their end is not waited for."""
        self._typed += 1
        script = self._scripts / str(self._typed)
        script.write_text(commands, "utf-8")
        self._terminal.type(f". {script}")

    def answer(self, promised: str) -> None:
        """Type what the page shows behind ``> ``, and press its ``^C``, as soon as the screen is that far."""
        for before, line in pairwise(promised.splitlines()):
            if line == "^C":
                self.wait_for(re.escape(before.partition("…")[0]))
                self._terminal.press("C")
            elif line.startswith(">") and not before.startswith("…"):
                self.wait_for(re.escape(f"{before}\n>"))
                self._terminal.type(line[2:])

    def wait_for(self, pattern: str) -> "re.Match[str]":
        self._terminal.until(lambda: re.search(pattern, self.output()) is not None)
        found = re.search(pattern, self.output())
        assert found
        return found

    def seen(self) -> str:
        """Wait until the commands have ended, and tell what they printed."""
        self._terminal.until(self._is_idle)
        return self.output().removesuffix(_PROMPT)

    def output(self) -> str:
        """What is on the screen since the last commands were typed."""
        return self._terminal.screen().split(_PROMPT, self._typed)[-1].partition("\n")[2]

    def _is_idle(self) -> bool:
        screen = self._terminal.screen()
        return screen.count(_PROMPT) == self._typed + 1 and screen.endswith(_PROMPT)
