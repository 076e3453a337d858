"""Tools in processes of their own: whatever they do, the server gets a result or one error, and no process is left."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from stellwerk.agents.tools.process import run_in_process
from stellwerk.agents.tools.registry import ToolSpec, discover
from stellwerk.errors import ToolFailed, ToolTimeout
from stellwerk.processes.supervised_process import MARK
from tests.agents import process_tools
from tests.agents.living import lives
from tests.agents.tool_runs import called, result_of
from tests.crash.waiting import eventually

SHOP = Path(__file__).parents[2] / "examples/tools/shop.py"


async def noted(path: Path) -> list[int]:
    """Who runs, as the function has written it down."""
    await eventually(path.exists, within=60, what="the function has not begun")
    return _read(path)


def _read(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text().split()]


def below_this_process() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}


async def all_over() -> None:
    """Wait for what is still being cleaned up behind the back of whoever gave up."""
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()}, within=20, what="something goes on")


async def test_it_gives_a_result_like_any_other_tool() -> None:
    count_primes = discover([f"{SHOP}:count_primes"]).find("count_primes")
    message = await called(count_primes, {"below": 100})
    assert result_of(message) == {"kind": "json", "data": 25}
    assert message.content == "25"


@pytest.mark.requirement("004.tools.timeouts")
@pytest.mark.parametrize("tool", [process_tools.hang, process_tools.hang_stubbornly], ids=lambda tool: tool.name)
async def test_at_its_timeout_it_is_killed_with_its_children(tool: ToolSpec, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    before = below_this_process()
    for seconds in (1.5, 10, 30):  # on a busy machine it may take some time until there are children
        with pytest.raises(ToolTimeout, match=f"longer than {seconds:g} s"):
            await called(replace(tool, timeout=seconds), {"path": str(path)})
        if path.exists():
            break
    assert [pid for pid in await noted(path) if lives(pid)] == []
    assert below_this_process() <= before, "the child itself is not left as a zombie"


@pytest.mark.parametrize("tool", [process_tools.hang, process_tools.hang_stubbornly], ids=lambda tool: tool.name)
async def test_when_the_run_is_stopped_it_is_killed_with_its_children(tool: ToolSpec, tmp_path: Path) -> None:
    run = asyncio.create_task(called(tool, {"path": str(tmp_path / "pids")}))
    pids = await noted(tmp_path / "pids")
    assert all(lives(pid) for pid in pids)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await all_over()
    assert [pid for pid in pids if lives(pid)] == []


SERVER = """
import sys, uvloop
from stellwerk.agents.tools.process import run_in_process
from tests.agents import process_tools
uvloop.run(run_in_process(getattr(process_tools, sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.parametrize("tool", [process_tools.hang, process_tools.hang_stubbornly], ids=lambda tool: tool.name)
async def test_when_the_server_is_killed_it_ends_with_its_children(tool: ToolSpec, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    argument = tool.arguments(path=str(path)).model_dump_json()
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, tool.name, argument, cwd=Path(__file__).parents[2]
    )
    try:
        pids = await noted(path)
    finally:
        os.kill(server.pid, signal.SIGKILL)
        await server.wait()
    await eventually(lambda: not any(lives(pid) for pid in pids), within=10, what="somebody outlived the server")


async def test_what_it_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    message = await called(process_tools.leave_somebody_behind, {"path": str(tmp_path / "pids")})
    assert message.content == "done"
    assert [pid for pid in await noted(tmp_path / "pids") if lives(pid)] == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=lambda how: how.name)
async def test_a_tool_that_kills_or_stops_its_supervisor_is_ended_as_well(how: signal.Signals, tmp_path: Path) -> None:
    arguments = json.dumps({"path": str(tmp_path / "pids"), "how": how})
    run = asyncio.create_task(run_in_process(process_tools.attack_the_keeper, arguments, patience=0.5))
    pids = await noted(tmp_path / "pids")
    if how == signal.SIGKILL:
        assert "its process ended with SIGKILL" in await failure(run)
    else:
        run.cancel()
        await asyncio.wait([run])
    await all_over()
    assert [pid for pid in pids if lives(pid)] == []


async def test_a_thread_that_goes_on_does_not_cost_the_answer() -> None:
    assert (await called(process_tools.leave_a_thread_behind, {"raising": False})).content == "answered"
    assert "LookupError: no" in await failure(called(process_tools.leave_a_thread_behind, {"raising": True}))


async def test_processes_are_limited_and_a_call_waits_for_a_free_slot(tmp_path: Path) -> None:
    slots = asyncio.Semaphore(2)
    places = [tmp_path / str(number) for number in range(2)]
    arguments = [json.dumps({"path": str(place)}) for place in places]
    busy = [
        asyncio.create_task(run_in_process(process_tools.wait_for_the_end, given, slots=slots)) for given in arguments
    ]
    for place in places:
        await noted(place)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run_in_process(process_tools.leave, '{"code": 0}', slots=slots), 0.5)
    busy[0].cancel()
    await asyncio.wait(busy[:1])
    assert "exit code 0" in await failure(run_in_process(process_tools.leave, '{"code": 0}', slots=slots))
    for call in busy:
        call.cancel()
    await all_over()


async def failure(call: Awaitable[object]) -> str:
    with pytest.raises(ToolFailed) as caught:
        await call
    return caught.value.message


@pytest.mark.parametrize(
    ("tool", "args", "says"),
    [
        (process_tools.refuse, {"reason": "sold out"}, "'refuse' failed: LookupError: sold out"),
        (process_tools.refuse, {"reason": "caf\\udce9"}, "'refuse' failed: LookupError: caf\ufffd"),
        (process_tools.crash, {}, "'crash' gave no answer; its process ended with SIGSEGV"),
        (
            process_tools.leave,
            {"code": 3},
            "'leave' gave no answer; its process ended with exit code 3; its last output: I am off",
        ),
        (process_tools.leave, {"code": 0}, "gave no answer; its process ended with exit code 0"),
        (process_tools.babble, {}, "'babble' gave an answer that cannot be read"),
        (process_tools.overflow, {"mebibytes": 100}, "its result has 100 MiB; at most 16 MiB are taken"),
        (process_tools.flood, {}, "'flood' gave an answer that cannot be read"),
    ],
    ids=["raises", "half a character", "segfault", "exit", "exit-0", "garbage", "100-MiB", "flood"],
)
async def test_however_it_ends_without_a_result_it_is_one_error(
    tool: ToolSpec, args: dict[str, object], says: str
) -> None:
    assert says in await failure(called(tool, args))


async def test_an_answer_of_several_mebibytes_comes_as_a_file() -> None:
    result, _, blobs = await run_in_process(process_tools.overflow, '{"mebibytes": 10}')
    assert (result.as_text().split(",")[2].strip(), len(blobs[0].data)) == (f"{10 << 20} bytes", 10 << 20)


async def test_it_sees_no_environment_no_input_and_nothing_that_the_server_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    seen = result_of(await called(process_tools.look_around, {}))["data"]
    # The third one is what our own package sets for whoever imports LangGraph; by the mark it can be found again.
    known = {"PATH", "LANG", "LANGGRAPH_STRICT_MSGPACK", "LC_CTYPE", "STELLWERK_DATA", MARK}
    assert seen["environment"].keys() <= known
    assert "canary" not in str(seen)
    assert (seen["input"], seen["loaded"]) == ("", [])


OPEN = """
import os, sys, uvloop
from stellwerk.agents.tools.process import run_in_process
from tests.agents import process_tools
os.dup2(2, 50, inheritable=True)
result, _, _ = uvloop.run(run_in_process(process_tools.look_around, "{}"))
sys.stdout.write(f"open: {result.data['open']}")
"""


async def test_nothing_that_the_server_has_open_is_handed_down() -> None:
    """Not even by uvloop, which closes nothing; only the answer is there, beside the three that everybody has."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPEN, cwd=Path(__file__).parents[2], stdout=asyncio.subprocess.PIPE
    )
    assert (await server.communicate())[0].decode().endswith("open: [0, 1, 2, 3]")


async def test_an_object_that_is_no_data_is_named_by_its_class_as_with_any_tool() -> None:
    message = await called(process_tools.return_an_object)
    assert "Secretive" in str(message.content)
    assert "canary" not in str(message)


async def test_arguments_are_checked_before_there_is_a_process() -> None:
    message = await called(process_tools.overflow, {"mebibytes": "many"})
    assert message.status == "error"
    assert "valid integer" in str(message.content)
