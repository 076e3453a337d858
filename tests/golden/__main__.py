"""`make golden`: write the golden files and the published schemas anew."""

import asyncio
import json
from pathlib import Path
from typing import Any

import stellwerk.langgraph_env as _before_langgraph  # noqa: F401
from stellwerk.envelope.model import json_schema as envelope_schema
from stellwerk.spec.load import json_schema as agent_system_schema
from tests.golden.files import write_all
from tests.public import surface
from tests.spec import test_report

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def main() -> None:
    write_schema("envelope.schema.json", envelope_schema())
    write_schema("agent-system.schema.json", agent_system_schema())
    for name in test_report.GOLDEN:
        (test_report.HERE / f"{name}.txt").write_text(test_report.golden(name), "utf-8")
    asyncio.run(write_all())
    surface.write_all()


def write_schema(name: str, schema: dict[str, Any]) -> None:
    (REFERENCE / name).write_text(json.dumps(schema, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
