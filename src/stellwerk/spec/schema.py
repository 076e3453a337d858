"""The JSON Schema of an agent system, so that editors complete and check it while it is written."""

from typing import Any

from stellwerk.spec.model import AgentSystem

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    described = AgentSystem.model_json_schema()
    return {"$schema": DIALECT, **described, "title": "Stellwerk agent system, version 1"}
