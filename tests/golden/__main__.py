"""`make golden`: write the golden files and the published schema anew."""

import json
from pathlib import Path

from stellwerk.envelope.model import json_schema

SCHEMA = Path(__file__).parents[2] / "docs/reference/envelope.schema.json"


def main() -> None:
    SCHEMA.write_text(json.dumps(json_schema(), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
