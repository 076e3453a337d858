"""/metrics, read by Prometheus' own parser: what happened is what is counted."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import yaml
from prometheus_client.parser import text_string_to_metric_families as parsed

from stellwerk.ids import SystemClock
from stellwerk.settings import Settings
from tests import stores
from tests.api.reading import whole_round
from tests.api.tenants import shared_server, using
from tests.conftest import own_server, running_server

ROOT = Path(__file__).parents[2]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(client: httpx2.AsyncClient) -> Samples:
    answer = await client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(parsed(answer.text))
    assert all(family.documentation and family.type != "unknown" for family in families)
    samples = [sample for family in families for sample in family.samples]
    found = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


async def until_it_speaks(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if '"type":"llm_token"' in line:
            yield line
            return


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[f"stellwerk_{name}", frozenset(labels.items())]


async def test_runs_tokens_events_commits_and_requests_are_counted(client: httpx2.AsyncClient, sid: str) -> None:
    events = await whole_round(client, sid, "weather")
    assert (await client.get("/nothing/here")).status_code == 404
    assert (await client.get("/metrics", headers={"Host": "elsewhere.example"})).status_code == 403
    await client.request("PROPFIND", "/healthz")
    found = await scraped(client)
    spent = [event["payload"]["usage"] for event in events if event["type"] == "llm_end"]
    assert value(found, "runs_started_total") == value(found, "runs_ended_total", status="completed") == 1
    assert value(found, "tokens_total", kind="output") == sum(used.get("output_tokens", 0) for used in spent)
    assert value(found, "events_appended_total") == events[-1]["position"]
    assert 0 < value(found, "commit_seconds_count") == value(found, "commit_seconds_bucket", le="+Inf")
    begun = {"method": "POST", "route": "/sessions"}
    assert value(found, "requests_total", **begun, status="201") == value(found, "request_seconds_count", **begun) == 1
    assert value(found, "requests_total", method="GET", route="none", status="404") == 1
    assert value(found, "requests_total", method="GET", route="none", status="403") == 1
    assert not any(dict(labels).get("method") == "PROPFIND" for _, labels in found)
    assert value(found, "runs", state="running") == value(found, "oldest_open_run_seconds") == 0


async def test_what_is_open_is_seen_while_it_is_and_not_afterwards(client: httpx2.AsyncClient, sid: str) -> None:
    before = SystemClock().now()
    await client.post(f"/sessions/{sid}/messages", json={"text": "slow"})
    async with client.stream("GET", f"/sessions/{sid}/stream") as answer:
        lines = answer.aiter_lines()  # kept: its end closes the connection
        assert [line async for line in until_it_speaks(lines)]
        found = await scraped(client)
        assert value(found, "readers", form="sse") == value(found, "runs", state="running") == 1
        for what in ("run", "call"):
            assert 0 < value(found, f"oldest_open_{what}_seconds") <= SystemClock().now() - before
    await client.post(f"/sessions/{sid}/stop")
    found = await scraped(client)
    assert value(found, "runs_ended_total", status="stopped") == 1
    assert sum(count for (name, _), count in found.items() if name == "stellwerk_synthesized_ends_total") >= 1
    assert value(found, "oldest_open_call_seconds") == value(found, "runs", state="running") == 0


async def test_a_deleted_session_leaves_no_call_open(client: httpx2.AsyncClient, sid: str) -> None:
    await client.post(f"/sessions/{sid}/messages", json={"text": "slow"})
    async with client.stream("GET", f"/sessions/{sid}/stream") as answer:
        lines = answer.aiter_lines()  # kept: its end closes the connection
        assert [line async for line in until_it_speaks(lines)]
        await client.delete(f"/sessions/{sid}")
    assert value(await scraped(client), "oldest_open_call_seconds") == 0


async def test_metrics_are_for_the_operator(tmp_path: Path) -> None:
    async with shared_server(tmp_path / "data") as shared:
        assert (await shared.acme.get("/metrics")).status_code == 403
        found = await scraped(shared.operator)
        assert value(found, "requests_total", method="GET", route="/metrics", status="403") == 1
        assert "acme" not in (await shared.operator.get("/metrics")).text
        narrow = {"name": "prometheus", "role": "admin", "scopes": ["metrics"]}
        for useless in (
            shared.acme.post("/keys", json=narrow),
            shared.operator.post("/keys", json={**narrow, "tenant": "acme"}),
        ):
            assert (await useless).json()["field"] == "scopes"
        async with shared.client("local", **narrow) as prometheus:
            assert await scraped(prometheus)
            for path in ("/sessions", "/keys", "/audit", "/tenants", "/usage"):
                assert (await prometheus.get(path)).status_code == 403, path
        old = await shared.key("acme", role="admin")
    # Earlier servers made such keys for every tenant.
    with stores.beside(tmp_path / "data") as stored:
        stored.change("UPDATE api_key SET scopes = 'metrics' WHERE id = ?", old["id"])
    async with running_server(Settings(data=tmp_path / "data")) as address, using(address, old["token"]) as stranger:
        refused = await stranger.get("/metrics")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "with a key of 'local'" in refused.json()["detail"]


async def test_every_metric_is_documented_and_every_alert_names_metrics_that_there_are(tmp_path: Path) -> None:
    async with own_server(Settings(data=tmp_path)) as client:
        await client.get("/healthz")
        text = (await client.get("/metrics")).text
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    page = (ROOT / "docs/howto/operate.md").read_text("utf-8")
    of_nodes = set(re.findall(r"^\| `(\w+)[^|]*\| on PostgreSQL only", page, re.MULTILINE))
    assert set(re.findall(r"^\| `(\w+)", page, re.MULTILINE)) - of_nodes == set(kinds)
    rules = yaml.safe_load((ROOT / "examples/deploy/alerts.yaml").read_text("utf-8"))["groups"][0]["rules"]
    for rule in rules:
        named = set(re.findall(r"stellwerk_\w+", rule["expr"]))
        assert named and {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= set(kinds), rule
        assert rule["annotations"]["summary"] and rule["alert"].startswith("Stellwerk")
    assert rules[0]["alert"] == "StellwerkRunWithoutCompletion"
