"""Updates the files package-lock.json for ``make lock`` and removes every URL from them.

``.npmrc`` makes npm omit the URLs of packages, but not those of funding pages and deprecation notes. An install needs
neither, and a mirror may write its own host name there.
"""

import json
from typing import Any

from build import CLIENTS, ROOT, npm

_NOT_NEEDED = {"resolved", "funding", "deprecated"}


def without_addresses(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: without_addresses(each)
        for key, each in value.items()
        if key not in _NOT_NEEDED or "://" not in json.dumps(each)
    }


if __name__ == "__main__":
    for folder in (ROOT, CLIENTS):
        locked = folder / "package-lock.json"
        npm(
            *("install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"),
            folder=folder,
        )
        found = without_addresses(json.loads(locked.read_text("utf-8")))
        locked.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", "utf-8")
