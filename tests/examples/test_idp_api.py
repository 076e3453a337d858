"""The copilot over HTTP: the German sentences, questions and answers, approvals, names that cannot be."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import httpx2
import pytest

from tests import keyed
from tests.crash.waiting import eventually
from tests.examples.idp_system import (
    ENGLISH,
    FOLDER,
    GERMAN,
    answers_at,
    assert_clone_works_and_main_is_protected,
    repositories,
    result_of,
    said,
    served,
    talk,
    used,
    variant,
    with_approvals,
)
from tests.runs.talking import begin

FLOW = [
    *("validate_project_name_and_type", "agent_git"),
    *("plan_tasks", "update_tasks", "ask_user", "update_tasks"),
    *("create_git_repository_with_branch_protection", "update_tasks"),
    *("list_templates", "apply_template", "update_tasks"),
]
AROUND = {"setup_cicd_pipeline", "setup_observability", "generate_k8s_manifests", "generate_documentation"}
TASKS = ("Fragen", "Anlegen", "Füllen", "Ausrüsten", "Bereitstellen")


@pytest.mark.requirement("004.yaml.sample-system", "004.lifecycle.whole-flow")
async def test_a_question_and_its_answer_in_german_bring_a_service_to_staging(tmp_path: Path) -> None:
    async with served(tmp_path / "data") as client:
        sid = await begin(client, "idp-copilot")
        told = await talk(client, sid, GERMAN, "Das Repo soll public sein; bitte Python.")
        assert used(told)[: len(FLOW)] == FLOW
        assert AROUND | {"search_knowledge_base_for_guidelines", "deploy_to_staging"} <= set(used(told))
        url = result_of(told, "deploy_to_staging")["url"]
        assert f"- Adresse: {url}" in said(told)
        listed = (await client.get(f"/sessions/{sid}/artifacts/todolist.md")).text
        assert "5 of 5 tasks completed" in listed
        assert all(f"- [x] **t{n}** {word}" in listed for n, word in enumerate(TASKS, 1))
        assert httpx2.get(f"{url}/health", timeout=60).status_code == 200
        assert "http_requests_total" in httpx2.get(f"{url}/metrics", timeout=60).text
        made = result_of(told, "create_git_repository_with_branch_protection")
        assert (made["visibility"], made["clone"] in said(told)) == ("public", True)
        assert Path(made["path"]).is_relative_to((tmp_path / "data/files/workspace").resolve())
        assert_clone_works_and_main_is_protected(made["path"], tmp_path)
    await eventually(lambda: not answers_at(url), within=30, what=f"the server was killed, and {url} still answers")


async def test_the_commands_of_the_readme_work_as_they_stand(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (FOLDER / "README.md").read_text("utf-8"), re.DOTALL)
    tour = next(block for block in blocks if "SID=$(" in block)
    async with served(tmp_path / "data") as client:
        address = str(client.base_url).rstrip("/")
        shown = "".join(f" -H '{name}: {value}'" for name, value in keyed.shown_to(address).items())
        script = f'curl() {{ command curl{shown} "$@"; }}\n' + tour.replace("localhost:8000", address)
        process = await asyncio.create_subprocess_exec("bash", "-c", script, stdout=asyncio.subprocess.PIPE)
        shown = (await process.communicate())[0].decode()
    assert '"status":"awaiting_user"' in shown and '"status":"completed"' in shown
    assert "5 of 5 tasks completed" in shown


async def test_the_founding_answer_gives_a_private_repository_in_go(tmp_path: Path) -> None:
    async with served(tmp_path / "data") as client:
        sid = await begin(client, "idp-copilot")
        told = await talk(client, sid, GERMAN, "Repo soll private sein; Programmiersprache Go")
        assert result_of(told, "create_git_repository_with_branch_protection")["visibility"] == "private"
        assert "go.mod" in str(told)
        state = (await client.get(f"/sessions/{sid}/state")).json()
        if shutil.which("go"):
            assert state["blocker"] is None
            assert "deploy_to_staging" in used(told)
        else:
            assert used(told, "error") == ["deploy_to_staging"]
            assert "Go is not installed on this machine" in said(told)
            assert "Go is not installed on this machine" in state["blocker"]
            done = [task["status"] for task in state["tasks"]]
            assert done == [*["completed"] * 4, "in_progress"]
    assert repositories(tmp_path / "data") == ["billing-service.git"]


NAMES = ["'../x'", "../x", "'a b'", "🚀", "'.'", "X", "taken-by-a-file", "''", "-rf", "'billing;rm'"]


async def test_names_that_cannot_be_are_refused_by_the_tool_and_the_agent_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    file = data / "files/workspace/repositories/taken-by-a-file.git"
    file.parent.mkdir(parents=True)
    file.write_text("mine", "utf-8")
    async with served(data) as client, asyncio.TaskGroup() as together:
        for name in NAMES:
            together.create_task(refused(client, name))
    assert repositories(data) == [file.name]
    assert file.read_text("utf-8") == "mine"
    assert sorted(os.listdir(tmp_path)) == ["data", "errors.txt"]


async def refused(client: httpx2.AsyncClient, name: str) -> None:
    sid = await begin(client, "idp-copilot")
    told = await talk(client, sid, f"Create a service {name} and deploy it to staging")
    assert used(told, "error") == ["validate_project_name_and_type", "agent_git"], name
    assert "I have stopped" in said(told)
    assert "take another name" in said(told) or "cannot be the name of a project" in said(told)
    assert (await client.get(f"/sessions/{sid}/state")).json()["tasks"] == []
    told = await talk(client, sid, f"Create a repository {name}")
    assert used(told, "error") == ["create_repository", "agent_git"], name
    assert "That did not work" in said(told)


async def test_one_session_can_make_one_service_after_another_and_refuses_the_same_again(tmp_path: Path) -> None:
    async with served(tmp_path / "data") as client:
        sid = await begin(client, "idp-copilot")
        first = await talk(client, sid, ENGLISH, "private, python")
        second = await talk(client, sid, "Create a service called shop-front, and deploy it", "private, python")
        again = await talk(client, sid, ENGLISH)
        assert "there is a repository billing-service.git already" in said(again)
        urls = [result_of(told, "deploy_to_staging")["url"] for told in (first, second)]
        assert [httpx2.get(f"{url}/health", timeout=60).status_code for url in urls] == [200, 200]
        listed = (await client.get(f"/sessions/{sid}/artifacts/todolist.md")).text
        assert "10 of 10 tasks completed" in listed
        assert "- [x] **t10** Deploy it to staging" in listed
        ended = await talk(client, sid, "Undo the deployment of shop-front")
        assert "shop-front does not run any more" in said(ended)
        assert [answers_at(url) for url in urls] == [True, False]
    assert repositories(tmp_path / "data") == ["billing-service.git", "shop-front.git"]


YES, NO = {"type": "approve"}, {"type": "reject", "message": "not on a Friday"}


async def test_with_approvals_nothing_is_created_or_deployed_unless_the_user_says_so(tmp_path: Path) -> None:
    system, data = variant(tmp_path / "example", with_approvals()), tmp_path / "data"
    async with served(data, system) as client:
        sid = await begin(client, "idp-copilot")
        told = await talk(client, sid, ENGLISH, "private, python", NO)
        assert "not on a Friday" in said(told)
        assert repositories(data) == []
        told = await talk(client, sid, ENGLISH, "private, python", YES, NO)
        assert "not on a Friday" in said(told)
        assert "deploy_to_staging" not in used(told)
        assert repositories(data) == ["billing-service.git"]
        assert not (data / "files/workspace/deployments/billing-service").exists()
        told = await talk(client, sid, "Create a service shop-front", "private, python", YES, YES)
        assert httpx2.get(f"{result_of(told, 'deploy_to_staging')['url']}/health", timeout=60).status_code == 200
        state = (await client.get(f"/sessions/{sid}/state")).json()
        assert state["blocker"] is None
        assert {task["status"] for task in state["tasks"]} == {"completed", "skipped"}
        told = await talk(client, sid, "Create a repository billing-data", NO)
        assert repositories(data) == ["billing-service.git", "shop-front.git"]
