"""The keys webhooks, checkpointer.ttl and store.ttl of a langgraph.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from stellwerk.agents.graphs.langgraph_json import read_langgraph_json
from stellwerk.agents.graphs.serve_targets import store_ttl_of, systems_of, ttls_of, webhooks_of
from stellwerk.errors import SettingsError
from stellwerk.retention import RetentionJob
from stellwerk.spec.operator import Operator, Store, StoreTtl, WebhookPolicy
from stellwerk.tenants.principals import LOCAL_TENANT
from tests.runs.in_process import InProcessServer

POLICY = {"url": {"require_https": False, "allowed_domains": ["*.example.com"], "allowed_ports": [8443]}}


def project(folder: Path, **keys: Any) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"graphs": {folder.name: "./agent.py:graph"}, "dependencies": ["."], **keys}))
    return file


def test_the_policy_for_webhooks_applies_unless_the_operators_file_has_one(tmp_path: Path) -> None:
    own = systems_of([str(project(tmp_path / "one", webhooks=POLICY))])
    found = webhooks_of(Operator(), own)
    assert (found.allow_http, found.allowed_hosts, found.allowed_ports) == (True, ["*.example.com"], [8443])
    assert webhooks_of(Operator(webhooks=WebhookPolicy(enabled=False)), own).enabled is False


def test_two_projects_with_different_policies_are_refused(tmp_path: Path) -> None:
    files = [project(tmp_path / "one", webhooks=POLICY), project(tmp_path / "two", webhooks={})]
    with pytest.raises(SettingsError, match="different webhooks"):
        systems_of([str(file) for file in files])


def test_what_is_ignored_is_named_and_nothing_else(tmp_path: Path) -> None:
    keys = {"webhooks": {**POLICY, "headers": {"X": "y"}}, "checkpointer": {"ttl": {"default_ttl": 5}, "serde": {}}}
    (note,) = read_langgraph_json(project(tmp_path / "one", **keys)).notes
    assert note.endswith("ignored: checkpointer.serde, webhooks.headers")
    with pytest.raises(SettingsError, match=r"checkpointer\.ttl\.strategy"):
        read_langgraph_json(project(tmp_path / "one", checkpointer={"ttl": {"strategy": "archive"}}))


def test_the_ttl_is_that_of_the_graphs_of_the_project(tmp_path: Path) -> None:
    ttl = {"ttl": {"strategy": "delete", "sweep_interval_minutes": 10, "default_ttl": 60}}
    own = systems_of([str(project(tmp_path / "one", checkpointer=ttl)), str(project(tmp_path / "two"))])
    assert ttls_of(own) == {"one": 3600.0}


def test_the_times_of_store_items_apply_unless_the_operators_file_has_some(tmp_path: Path) -> None:
    ttl = {"ttl": {"default_ttl": 60, "refresh_on_read": False, "sweep_interval_minutes": 10}}
    own = systems_of([str(project(tmp_path / "one", store=ttl)), str(project(tmp_path / "two"))])
    assert store_ttl_of(Operator(), own) == StoreTtl(default_ttl=60, refresh_on_read=False)
    assert store_ttl_of(Operator(store=Store(ttl=StoreTtl(default_ttl=5))), own) == StoreTtl(default_ttl=5)
    assert read_langgraph_json(project(tmp_path / "one", store=ttl)).notes == ()
    with pytest.raises(SettingsError, match="different times under store.ttl"):
        systems_of([str(project(tmp_path / "one", store=ttl)), str(project(tmp_path / "two", store={"ttl": {}}))])


async def test_sessions_of_a_system_with_a_ttl_are_deleted_when_it_is_over(backend: InProcessServer) -> None:
    services = backend.services
    old = await backend.begin()
    other = (await services.sessions.begin(LOCAL_TENANT, "backend", None)).id
    parts = (services.database, services.log, services.documents, services.sessions, services.audit)
    ttl = RetentionJob(*parts, Operator().retention, backend.clock, {"backend": 3600.0, "unused": 1.0})
    await ttl.run_once()
    assert len(await services.sessions.list(LOCAL_TENANT, before=None, limit=10)) == 2
    backend.clock.set_by = 1800
    await services.sessions.send(LOCAL_TENANT, other, "quick")
    await backend.settled(other, {"status": "completed"})
    backend.clock.set_by = 3700
    await ttl.run_once()
    (left,) = await services.sessions.list(LOCAL_TENANT, before=None, limit=10)
    assert (left.id, old != other) == (other, True)
