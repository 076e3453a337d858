"""The server of the copilot killed in the middle of its work: the round ends visibly, and nothing half-made stays."""

from pathlib import Path

import httpx2
import pytest

from tests.api.reading import Event
from tests.crash.process import ServerProcess, server_process
from tests.examples.idp_system import ENGLISH, SYSTEM, git, repositories, result_of, said, talk, used
from tests.runs.talking import answer, begin, events, rest_of_run

MOMENTS = ["create_git_repository_with_branch_protection", "setup_cicd_pipeline", "deploy_to_staging"]
REPEATED = {"setup_cicd_pipeline", "deploy_to_staging"}
"""Tools that may be called again: the round is finished."""


@pytest.mark.parametrize("tool", MOMENTS)
async def test_killed_while_a_tool_is_at_work_the_round_ends_and_repositories_are_whole(
    tool: str, tmp_path: Path
) -> None:
    data, errors = tmp_path / "data", tmp_path / "errors.txt"
    with server_process(data, errors=errors, serves=[str(SYSTEM)]) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            sid = await begin(client, "idp-copilot")
            asked = await talk(client, sid, ENGLISH)
            assert asked[-1]["payload"]["status"] == "awaiting_user"
            accepted = await answer(client, sid, text="private, python")
            await killed_at(tool, server, client, sid, accepted["after"])
    with server_process(data, errors=errors, serves=[str(SYSTEM)]) as server:
        async with httpx2.AsyncClient(base_url=server.address, timeout=60) as client:
            await rest_of_run(client, sid, accepted["after"])
            told = await events(client, sid)
            assert_over(told, tool, data)
            assert "is there" in said(await talk(client, sid, "Create a repository another-one"))
            assert not [name for name in repositories(data) if name.startswith(".")]
            assert repositories(data)[0] == "another-one.git"


async def killed_at(tool: str, server: ServerProcess, client: httpx2.AsyncClient, sid: str, after: int) -> None:
    """Kill the server as soon as it says that the tool has begun."""
    async with client.stream("GET", f"/sessions/{sid}/stream", params={"after": after}) as stream:
        async for line in stream.aiter_lines():
            if '"type":"tool_start"' in line and f'"tool_name":"{tool}"' in line:
                server.kill()
                return
    raise AssertionError(f"{tool} never began")


def assert_over(told: list[Event], tool: str, data: Path) -> None:
    end = told[-1]["payload"]
    if tool in REPEATED:
        assert "is on staging" in said(told)
        assert httpx2.get(f"{result_of(told, 'deploy_to_staging')['url']}/health", timeout=60).status_code == 200
    elif end["status"] == "failed":  # it must not be called twice, so nobody does
        assert (end["code"], tool in used(told)) == ("crashed", False)
    for repository in (data / "files/workspace/repositories").glob("[a-z]*.git"):
        assert git("fsck", "--strict", cwd=repository).returncode == 0
        assert git("rev-parse", "--verify", "main", cwd=repository).returncode == 0
        assert (repository / "hooks/update").is_file()
