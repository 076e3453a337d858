"""Updates package-lock.json for ``make lock`` and removes every URL from it.

``.npmrc`` makes npm omit the URLs of packages, but not those of funding pages and deprecation notes. An install needs
neither, and a mirror may write its own host name there.
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
