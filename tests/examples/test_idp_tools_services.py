"""What the copilot puts into a repository: it works, and its parts agree with each other."""

import json
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from stellwerk.envelope.results import FileRef, Table
from stellwerk.envelope.to_json import to_result
from tests.examples.idp_tools import KINDS, NODE, TOOLS, call, clone, get, git, on_main, part, service

ALL_KINDS = ["python", "node", "go"]
REFUSED: type[Exception] = part("names").Refused
COMMANDS = {
    "python": [sys.executable, "-m", "unittest"],
    "node": [NODE or "node", "--test"],
    "go": ["go", "test", "./..."],
}
WRITING = ["setup_cicd_pipeline", "setup_observability", "generate_k8s_manifests", "generate_documentation"]


def text_of(file: dict[str, str]) -> str:
    return b64decode(file["bytes_b64"]).decode()


def documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def metrics_named(text: str) -> set[str]:
    return set(re.findall(r"\bhttp_[a-z_]+", text))


def test_there_are_thirteen_tools_and_each_describes_itself_and_its_parameters() -> None:
    assert len(TOOLS) == 13
    for spec in TOOLS.values():
        assert spec.description and spec.runs_in == "thread"
        for parameter in spec.input_schema.get("properties", {}).values():
            assert parameter.get("description") or "$ref" in parameter


def test_tools_say_truly_what_they_do_to_the_world() -> None:
    by_effect: dict[str, set[str]] = {}
    for spec in TOOLS.values():
        by_effect.setdefault(spec.effects, set()).add(spec.name)
    looking = {"validate_project_name_and_type", "list_templates", "search_knowledge_base_for_guidelines"}
    assert by_effect["read"] == looking
    assert by_effect["external"] == {"deploy_to_staging", "undo_deployment"}
    once = {name for name, spec in TOOLS.items() if not spec.idempotent}
    assert once == {"create_repository", "create_git_repository_with_branch_protection"}


def test_templates_are_a_table(workspace: Path) -> None:
    listed = call("list_templates")
    assert isinstance(listed, Table)
    assert [row[0] for row in listed.rows] == ["python-service", "node-service", "go-service"]
    assert [row[3] for row in listed.rows] == ["yes" if kind in KINDS else "no" for kind in ALL_KINDS]


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_service_passes_its_own_tests_in_a_clone(workspace: Path, tmp_path: Path, kind: str) -> None:
    here = clone(service("billing-service", kind), tmp_path / "here")
    done = subprocess.run(COMMANDS[kind], cwd=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_template_leaves_no_gap_and_is_what_its_files_say(workspace: Path, kind: str) -> None:
    address = service("billing-service", kind)
    for path in git(f"--git-dir={address}", "ls-tree", "-r", "--name-only", "main").stdout.split():
        assert "{{" not in on_main(address, path).replace("{{path=", "")
    assert json.loads(on_main(address, "service.json")) == {"name": "billing-service", "template": f"{kind}-service"}


def test_a_template_comes_once_and_what_people_wrote_stays(workspace: Path) -> None:
    address = service("ledger", "python")
    before = git(f"--git-dir={address}", "rev-parse", "main").stdout
    assert call("apply_template", repository="ledger", template="Python") == call(
        "apply_template", repository="ledger", template="python-service"
    )
    with pytest.raises(REFUSED, match="has the template python-service already; create another repository"):
        call("apply_template", repository="ledger", template="node")
    with pytest.raises(REFUSED, match="no project type 'rust'"):
        call("apply_template", repository="ledger", template="rust")
    assert git(f"--git-dir={address}", "rev-parse", "main").stdout == before


@pytest.mark.parametrize("tool", [*WRITING[:3], "deploy_to_staging"])
def test_what_needs_a_service_says_so_in_an_empty_repository(workspace: Path, tool: str) -> None:
    call("create_repository", name="ledger")
    with pytest.raises(REFUSED, match="apply"):
        call(tool, repository="ledger")


@pytest.mark.parametrize("tool", WRITING)
def test_doing_it_again_changes_nothing(workspace: Path, tool: str) -> None:
    address = service("ledger")
    first = call(tool, repository="ledger")
    before = git(f"--git-dir={address}", "rev-parse", "main").stdout
    assert call(tool, repository="ledger") == first
    assert git(f"--git-dir={address}", "rev-parse", "main").stdout == before


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_pipeline_runs_the_tests_of_the_template(workspace: Path, kind: str) -> None:
    address = service("ledger", kind)
    file = call("setup_cicd_pipeline", repository="ledger")
    assert isinstance(to_result(file)[0], FileRef)
    assert text_of(file) == on_main(address, ".github/workflows/ci.yml")
    (workflow,) = documents(text_of(file))
    steps = workflow["jobs"]["test"]["steps"]
    triggers = workflow[True]  # the key `on`, as YAML 1.1 reads it
    assert {"push", "pull_request"} <= triggers.keys()
    assert {"python": "python -m unittest", "node": "node --test", "go": "go test ./..."}[kind] == steps[-1]["run"]
    assert steps[1]["uses"].startswith(f"actions/setup-{kind}@") and f"{kind}-version" in steps[1]["with"]


@pytest.mark.parametrize("name", ["billing-service", "null", "true"])
def test_the_manifests_parse_and_agree_with_each_other(workspace: Path, name: str) -> None:
    address = service(name)
    file = call("generate_k8s_manifests", repository=name)
    assert text_of(file) == on_main(address, "k8s/manifests.yaml")
    deployment, front = documents(text_of(file))
    assert (deployment["kind"], front["kind"]) == ("Deployment", "Service")
    assert deployment["metadata"]["name"] == front["metadata"]["name"] == name
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == front["spec"]["selector"] == labels
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    assert front["spec"]["ports"][0]["targetPort"] == port["name"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": port["name"]}
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert deployment["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert f'"--port", "{port["containerPort"]}"' in on_main(address, "Dockerfile")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "go"])
def test_dashboard_and_alerts_name_metrics_that_the_service_serves(workspace: Path, kind: str) -> None:
    address = service("ledger", kind)
    assert isinstance(call("setup_observability", repository="ledger"), Table)
    board = json.loads(on_main(address, "observability/dashboard.json"))
    (rules,) = documents(on_main(address, "observability/alerts.yaml"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    watched = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    url = call("deploy_to_staging", repository="ledger")["url"]
    get(url)
    served = get(f"{url}/metrics")
    assert metrics_named(" ".join([*asked, *watched])) <= metrics_named(served)
    assert len(board["panels"]) == len(re.findall("# TYPE", served)) == 2
    for label in ('path="/"', 'status="200"'):
        assert label in served


def test_the_page_tells_what_is_there_and_nothing_else(workspace: Path) -> None:
    address = call("create_repository", name="ledger")["path"]
    empty = text_of(call("generate_documentation", repository="ledger"))
    assert "No service yet." in empty and "Endpoints" not in empty and "- `README.md`, 3 lines" in empty
    call("apply_template", repository="ledger", template="node")
    bare = text_of(call("generate_documentation", repository="ledger"))
    assert "node --test" in bare and "kubectl" not in bare and "Protected" not in bare
    for tool in (*WRITING, "setup_branch_protection"):
        call(tool, repository="ledger")
    whole = text_of(call("generate_documentation", repository="ledger"))
    assert whole == on_main(address, "docs/service.md")
    for said in ("Protected: `main`", "`GET /health`", "`http_requests_total`, a counter", "kubectl apply -f k8s/"):
        assert said in whole
    listed = set(re.findall(r"^- `([^`]+)`, \d+ lines?$", whole, re.MULTILINE))
    there = set(git(f"--git-dir={address}", "ls-tree", "-r", "--name-only", "main").stdout.split())
    assert listed == there - {"docs/service.md"}
