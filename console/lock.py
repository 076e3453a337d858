"""Resolves package-lock.json anew, for ``make lock``, and takes out of it whatever is an address.

npm leaves the addresses of packages out by itself (``.npmrc``), but not where their authors ask for money or explain
why they gave a package up. Nobody needs those to install, and a mirror may write its own name there.
"""

import json
from typing import Any

from build import ROOT, npm

LOCKED = ROOT / "package-lock.json"
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
    npm("install", "--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    found = without_addresses(json.loads(LOCKED.read_text("utf-8")))
    LOCKED.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", "utf-8")
