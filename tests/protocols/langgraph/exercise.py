"""What a program does with LangGraph's own Python client, and the shapes of what it gets.

The same calls go to a server of LangGraph, whose shapes are kept in ``reference.json`` (``make reference``), and to
this one.
"""

from collections.abc import Awaitable
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def shape(value: Any) -> Any:
    """Keys and types; of a list, the shapes of its items, each once."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        found: list[Any] = []
        for each in map(shape, value):
            if each not in found:
                found.append(each)
        return found
    return type(value).__name__


async def status(call: Awaitable[Any]) -> int:
    """The status of a call that fails; 200 if it does not."""
    try:
        await call
    except APIStatusError as error:
        return int(error.status_code)
    return 200


class Exercise:
    def __init__(self, url: str, assistant: str = "chat") -> None:
        self.client: Any = get_client(url=url)
        self.assistant = assistant
        self.seen: dict[str, Any] = {}

    async def run(self) -> dict[str, Any]:
        async with self.client:
            await self._assistants()
            thread = await self._threads()
            await self._runs(thread)
            await self._questions(thread)
            await self._forks(thread)
            await self._lists(thread)
            await self._store()
            await self._crons(thread)
            await self._errors(thread)
            self.seen["deleted"] = await status(self.client.threads.delete(thread))
            self.seen["get a deleted thread"] = await status(self.client.threads.get(thread))
        return self.seen

    def said(self, text: str) -> dict[str, Any]:
        return {"messages": [{"type": "human", "content": text}]}

    async def _assistants(self) -> None:
        (found,) = await self.client.assistants.search(graph_id=self.assistant)
        self.seen["assistant"] = shape(found)
        self.seen["created by"] = found["metadata"]["created_by"]
        by_id = await self.client.assistants.get(found["assistant_id"])
        self.seen["assistant by its id"] = by_id["graph_id"]
        self.seen["schemas"] = sorted(await self.client.assistants.get_schemas(found["assistant_id"]))
        self.seen["graph"] = sorted(await self.client.assistants.get_graph(found["assistant_id"]))

    async def _threads(self) -> str:
        thread = await self.client.threads.create(metadata={"topic": "test"})
        self.seen["thread"] = shape(thread)
        name: str = thread["thread_id"]
        self.seen["empty state"] = shape(await self.client.threads.get_state(name))
        self.seen["empty history"] = await self.client.threads.get_history(name)
        again = self.client.threads.create(thread_id=name, if_exists="do_nothing")
        self.seen["created again"] = (await again)["thread_id"] == name
        self.seen["created twice"] = await status(self.client.threads.create(thread_id=name, if_exists="raise"))
        return name

    async def _runs(self, thread: str) -> None:
        runs = self.client.runs
        modes: Any = ["values", "updates", "messages-tuple"]
        stream = runs.stream(thread, self.assistant, input=self.said("hi"), stream_mode=modes)
        events = [part async for part in stream]
        self.seen["events"] = [part.event for part in events]
        self.seen["metadata event"] = shape(events[0].data)
        self.seen["answer"] = [message["content"] for message in events[-1].data["messages"]]
        state = await self.client.threads.get_state(thread)
        self.seen["state"] = {**shape(state), "values": sorted(state["values"]), "metadata": "dict"}
        self.seen["next"] = state["next"]
        history = await self.client.threads.get_history(thread)
        self.seen["history"] = [
            (
                each["next"],
                each["metadata"]["source"],
                each["metadata"]["step"],
                len(each["values"].get("messages", [])),
            )
            for each in history
        ]
        parents = [(each["parent_checkpoint"] or {}).get("checkpoint_id") for each in history]
        self.seen["parents are in line"] = parents[:-1] == [each["checkpoint"]["checkpoint_id"] for each in history][1:]
        waited = await runs.wait(thread, self.assistant, input=self.said("again"))
        self.seen["waited"] = [message["content"] for message in waited["messages"]]
        created = await runs.create(thread, self.assistant, input=self.said("third"))
        self.seen["run"] = {**shape(created), "kwargs": "dict", "metadata": "dict"}
        self.seen["run is pending"] = created["status"] in ("pending", "running")
        joined = await runs.join(thread, created["run_id"])
        self.seen["joined"] = joined["messages"][-1]["content"]
        self.seen["run is over"] = (await runs.get(thread, created["run_id"]))["status"]
        self.seen["cancel a run that is over"] = await status(runs.cancel(thread, created["run_id"]))
        failed = await runs.wait(thread, self.assistant, input=self.said("fail"), raise_error=False)
        self.seen["failed"] = sorted(failed["__error__"])
        self.seen["failed thread"] = (await self.client.threads.get(thread))["status"]
        tasks = (await self.client.threads.get_state(thread))["tasks"]
        self.seen["failed task"] = [bool(task["error"]) for task in tasks]

    async def _questions(self, thread: str) -> None:
        asked = await self.client.runs.wait(thread, self.assistant, input=self.said("ask"))
        (interrupt,) = asked["__interrupt__"]
        self.seen["interrupt"] = interrupt["value"]
        state = await self.client.threads.get_state(thread)
        self.seen["asking"] = [[each["value"] for each in task["interrupts"]] for task in state["tasks"]]
        shown = await self.client.threads.get(thread)
        self.seen["asking thread"] = (shown["status"], [len(each) for each in shown["interrupts"].values()])
        found = await self.client.threads.search(status="interrupted", ids=[thread])
        self.seen["interrupted threads"] = len(found)
        answered = await self.client.runs.wait(thread, self.assistant, command={"resume": "Ada"})
        self.seen["answered"] = answered["messages"][-1]["content"]

    async def _forks(self, thread: str) -> None:
        history = await self.client.threads.get_history(thread, limit=100)
        first = history[-1]["checkpoint"]["checkpoint_id"]
        at = await self.client.threads.get_state(thread, checkpoint_id=first)
        self.seen["state at a checkpoint"] = len(at["values"].get("messages", []))
        edited = await self.client.runs.wait(thread, self.assistant, input=self.said("hello"), checkpoint_id=first)
        self.seen["edited"] = [message["content"] for message in edited["messages"]]
        head = await self.client.threads.get_history(thread, limit=3)
        before = next(each["checkpoint"]["checkpoint_id"] for each in head if each["next"] == ["answer"])
        regenerated = await self.client.runs.wait(thread, self.assistant, input=None, checkpoint_id=before)
        self.seen["regenerated"] = [message["content"] for message in regenerated["messages"]]
        copied = await self.client.threads.copy(thread)
        copy = await self.client.threads.get_state(copied["thread_id"])
        self.seen["copied"] = [message["content"] for message in copy["values"]["messages"]]

    async def _lists(self, thread: str) -> None:
        threads = self.client.threads
        names = {(await threads.create(metadata={"batch": "x"}))["thread_id"] for _ in range(100)}
        listed = await threads.search(metadata={"batch": "x"}, limit=1000)
        self.seen["listed"] = {each["thread_id"] for each in listed} == names
        self.seen["paged"] = len(await threads.search(metadata={"batch": "x"}, limit=30, offset=90))
        self.seen["counted"] = await threads.count(metadata={"batch": "x"})
        for name in names:
            await threads.delete(name)
        self.seen["counted after"] = await threads.count(metadata={"batch": "x"})
        changed = await threads.update(thread, metadata={"more": 1})
        self.seen["metadata"] = sorted(changed["metadata"])
        runs = await self.client.runs.list(thread, limit=100)
        self.seen["statuses"] = [run["status"] for run in runs]
        stateless = await self.client.runs.wait(None, self.assistant, input=self.said("alone"))
        self.seen["stateless"] = stateless["messages"][-1]["content"]

    async def _store(self) -> None:
        store = self.client.store
        await store.put_item(["exercise", "a"], "k", {"n": 1})
        self.seen["item"] = shape(await store.get_item(["exercise", "a"], "k"))
        found = await store.search_items(["exercise"], filter={"n": 1})
        self.seen["found items"] = sorted(found["items"][0])
        self.seen["namespaces"] = (await store.list_namespaces(prefix=["exercise"]))["namespaces"]
        self.seen["item deleted"] = await status(store.delete_item(["exercise", "a"], "k"))
        self.seen["unknown item"] = await store.get_item(["exercise", "a"], "k")
        self.seen["unknown item deleted"] = await status(store.delete_item(["exercise", "a"], "k"))

    async def _crons(self, thread: str) -> None:
        crons, yearly = self.client.crons, "0 0 1 1 *"
        made = await crons.create(self.assistant, schedule=yearly, input=self.said("hi"), metadata={"exercise": "x"})
        self.seen["cron"] = {**shape(made), "payload": "dict", "metadata": "dict", "user_id": "any", "timezone": "any"}
        self.seen["cron is kept"] = made["on_run_completed"]
        of_thread = await crons.create_for_thread(thread, self.assistant, schedule=yearly, input=self.said("hi"))
        self.seen["cron of a thread"] = (of_thread["thread_id"] == thread, of_thread["on_run_completed"])
        self.seen["crons found"] = len(await crons.search(metadata={"exercise": "x"}))
        self.seen["crons counted"] = await crons.count(thread_id=thread)
        changed = await crons.update(made["cron_id"], schedule="0 0 2 1 *", enabled=False)
        self.seen["cron changed"] = (changed["schedule"], changed["enabled"])
        self.seen["bad schedule"] = await status(crons.create(self.assistant, schedule="soon", input=self.said("hi")))
        for each in (made, of_thread):
            self.seen["cron deleted"] = await status(crons.delete(each["cron_id"]))
        self.seen["unknown cron deleted"] = await status(crons.delete(made["cron_id"]))

    async def _errors(self, thread: str) -> None:
        runs, threads = self.client.runs, self.client.threads
        self.seen["errors"] = {
            "unknown thread": await status(threads.get(UNKNOWN)),
            "unknown thread to delete": await status(threads.delete(UNKNOWN)),
            "state of an unknown thread": await status(threads.get_state(UNKNOWN)),
            "run on an unknown thread": await status(runs.create(UNKNOWN, self.assistant, input=self.said("hi"))),
            "unknown graph": await status(runs.create(thread, "nowhere", input=self.said("hi"))),
            "unknown assistant": await status(runs.create(thread, UNKNOWN, input=self.said("hi"))),
            "unknown run": await status(runs.get(thread, UNKNOWN)),
            "unknown assistant to get": await status(self.client.assistants.get(UNKNOWN)),
        }
