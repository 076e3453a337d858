"""Adds the console to the wheel and the sdist; without Node it prints a warning and leaves the console out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NO_NODE = 3


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        ended = subprocess.run([sys.executable, root / "console/build.py"], check=False).returncode
        if ended not in (0, NO_NODE):
            raise RuntimeError("the console cannot be built; see above")
        if not (root / "src/stellwerk/console/index.html").is_file():
            self.app.display_warning("Node is not installed: the package has no console")
