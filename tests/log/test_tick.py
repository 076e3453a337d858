import asyncio

from stellwerk.log.tick import Tick


async def test_those_who_name_the_same_moment_are_flushed_together_and_once() -> None:
    loop = asyncio.get_running_loop()
    tick, rung = Tick(loop), list[str]()
    done = asyncio.Event()
    due = loop.time() + 0.01

    def one() -> None:
        rung.append("one")

    def other() -> None:
        rung.append("other")
        done.set()

    for flush in (one, one, other):
        tick.at(due, flush)
    async with asyncio.timeout(60):
        await done.wait()
    await asyncio.sleep(0)
    assert sorted(rung) == ["one", "other"]


async def test_soon_means_after_everything_that_is_ready_now() -> None:
    tick, rung = Tick(asyncio.get_running_loop()), list[str]()
    tick.soon(lambda: rung.append("flush"))
    rung.append("still here")
    await asyncio.sleep(0)
    assert rung == ["still here", "flush"]
