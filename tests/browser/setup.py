"""``python -m tests.browser.setup``: sees to it that there is a browser for the tests.

Any Chrome or Chromium will do. Else Debian's is installed, if we may; else Playwright fetches its own. If nothing
works, it says so, and the tests that need a browser are skipped: which CI does not let pass.
"""

import os
import shutil
import subprocess
import sys

from tests.browser.browsers import find

_DEBIAN = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "-qq", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", "chromium"),
)
_PLAYWRIGHT = ((sys.executable, "-m", "playwright", "install", "chromium"),)


def tried(commands: tuple[tuple[str, ...], ...]) -> bool:
    return all(subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0 for command in commands)


def main() -> None:
    if find() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        sys.stderr.write("installing Debian's chromium …\n")
        tried(_DEBIAN)
    if find() is None:
        sys.stderr.write("letting Playwright fetch a chromium …\n")
        tried(_PLAYWRIGHT)
    if find() is None:
        sys.stderr.write("there is no browser, and none could be had: its tests are skipped\n")


if __name__ == "__main__":
    main()
