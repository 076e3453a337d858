"""Which browser the tests use: any Chrome or Chromium of this machine, else what Playwright has fetched."""

import os
import shutil
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_ELSEWHERE = (
    "/usr/lib/chromium/chromium",
    "/opt/google/chrome/chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_FETCHED = ("chromium-*/chrome-linux*/chrome", "chromium_headless_shell-*/chrome-*/*headless*shell")


def of_this_machine() -> str | None:
    found = [path for name in _NAMES if (path := shutil.which(name))]
    return next((path for path in (*found, *_ELSEWHERE) if Path(path).is_file() and os.access(path, os.X_OK)), None)


def fetched() -> str | None:
    """Where Playwright puts those that it fetches."""
    for folder in (Path.home() / ".cache/ms-playwright", Path.home() / "Library/Caches/ms-playwright"):
        for pattern in _FETCHED:
            for path in sorted(folder.glob(pattern)):
                return str(path)
    return None


def find() -> str | None:
    return of_this_machine() or fetched()
