"""Tools called by a model in a real graph: what the model reads, what the log gets, what a function may ask."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from stellwerk.agents.tools.call import langchain_tool
from stellwerk.agents.tools.registry import ToolSpec, tool
from stellwerk.envelope.introspection import Blob, make_blob
from stellwerk.envelope.results import FileRef, Json, Table, Text, ToolResult
from stellwerk.errors import StorageFull
from tests.agents.tool_runs import Ends, called, graph_calling, result_of


class Price(BaseModel):
    cents: int


FILE = {"kind": "file_ref", "filename": "a.csv", "mime": "text/csv", "bytes_b64": b64encode(b"a,b").decode()}
CSV = make_blob(b"a,b", mime="text/csv", filename="a.csv")
PNG = make_blob(b"\x89PNG\r\n\x1a\n", mime="image/png", filename="data.png")


@pytest.mark.requirement("000.result.kind-always-there", "000.result.union")
@pytest.mark.parametrize(
    ("value", "result", "text"),
    [
        ("fine", {"kind": "text", "text": "fine"}, "fine"),
        (None, {"kind": "text", "text": ""}, ""),
        (Text(text="fine"), {"kind": "text", "text": "fine"}, "fine"),
        pytest.param(
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            {"kind": "text", "text": "a\nb"},
            "a\nb",
            marks=pytest.mark.requirement("000.result.content-structures-made-plain"),
        ),
        pytest.param(
            Price(cents=5),
            {"kind": "json", "data": {"cents": 5}},
            '{"cents":5}',
            marks=pytest.mark.requirement("000.result.pydantic-models-dumped"),
        ),
        (Json(data=[1]), {"kind": "json", "data": [1]}, "[1]"),
        (7, {"kind": "json", "data": 7}, "7"),
        ([{"n": 1}], {"kind": "table", "columns": ["n"], "rows": [[1]]}, "| n |\n|---|\n| 1 |"),
        pytest.param(
            Table(columns=("n",), rows=((1,),)),
            {"kind": "table", "columns": ["n"], "rows": [[1]]},
            "| n |\n|---|\n| 1 |",
            marks=pytest.mark.requirement("000.result.table"),
        ),
        pytest.param(
            FILE,
            CSV.reference(),
            f"[file a.csv, text/csv, 3 bytes, document {CSV.document_id}]",
            marks=pytest.mark.requirement("000.result.file-ref"),
        ),
        (PNG.data, PNG.reference(), f"[file data.png, image/png, 8 bytes, document {PNG.document_id}]"),
        (
            FileRef(document_id="d", filename="a.txt", mime="text/plain", size=1),
            {"kind": "file_ref", "document_id": "d", "filename": "a.txt", "mime": "text/plain", "size": 1},
            "[file a.txt, text/plain, 1 bytes, document d]",
        ),
    ],
)
async def test_whatever_a_function_returns_has_a_kind_for_the_log_and_a_text_for_the_model(
    value: object, result: object, text: str
) -> None:
    @tool
    def give() -> object:
        """Give something."""
        return value

    message = await called(give)
    assert (result_of(message), message.content) == (result, text)


async def test_files_are_kept_before_anybody_sees_the_result() -> None:
    kept: list[Blob] = []

    async def keep(result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        kept.extend(blobs)
        return result

    @tool
    def give() -> dict[str, Any]:
        """Give two files among other things."""
        return {"first": b"one", "second": [b"two"], "third": 3}

    message = await called(give, keep=keep)
    assert [blob.data for blob in kept] == [b"one", b"two"]
    data = result_of(message)["data"]
    assert [data["first"]["document_id"], data["second"][0]["document_id"]] == [blob.document_id for blob in kept]
    assert not any("not kept" in note for note in message.artifact["notes"])


async def test_who_keeps_files_can_see_for_which_session() -> None:
    seen: list[str] = []

    async def keep(result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        seen.append(get_config()["configurable"]["thread_id"])
        return result

    @tool
    def give() -> bytes:
        """Give a file."""
        return b"x"

    graph = graph_calling([langchain_tool(give, keep=keep)], "give", {}, checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "session-1"}})
    assert seen == ["session-1"]


async def test_without_a_store_a_note_says_that_the_content_is_lost() -> None:
    @tool
    def give() -> bytes:
        """Give a file."""
        return PNG.data

    message = await called(give)
    assert f"document {PNG.document_id}: its content is not kept" in message.artifact["notes"]


async def test_a_file_that_cannot_be_kept_is_an_error_of_the_call() -> None:
    async def keep(result: ToolResult, blobs: Sequence[Blob]) -> ToolResult:
        raise StorageFull

    @tool
    def give() -> bytes:
        """Give a file."""
        return b"x"

    with pytest.raises(StorageFull):
        await called(give, keep=keep)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"city": "Ulm", "planet": "Mars"}, "planet: Extra inputs are not permitted"),
        ({}, "city: Field required"),
        ({"city": ["Ulm"]}, "city: Input should be a valid string"),
    ],
)
async def test_wrong_arguments_go_back_to_the_model_and_nothing_runs(args: dict[str, Any], complaint: str) -> None:
    ran = []

    @tool
    def visit(city: str) -> str:
        """Visit a city."""
        ran.append(city)
        return "there"

    message = await called(visit, args)
    assert (message.status, ran) == ("error", [])
    assert complaint in str(message.content)


async def test_a_tool_that_was_not_offered_cannot_be_called() -> None:
    ran = []

    @tool
    def allowed() -> str:
        """Do something."""
        return "done"

    @tool
    def forbidden() -> str:
        """Do harm."""
        ran.append(1)
        return "harm"

    graph = graph_calling([langchain_tool(allowed)], forbidden.name, {})
    state = await graph.ainvoke({"messages": [("user", "go")]})
    (message,) = (m for m in state["messages"] if isinstance(m, ToolMessage))
    assert (message.status, ran) == ("error", [])
    assert "forbidden is not a valid tool" in str(message.content)


@tool
async def ask(question: str) -> str:
    """Ask the user."""
    return f"The user says {interrupt(question)}"


@tool
def ask_from_a_thread(question: str) -> str:
    """Ask the user, from a thread."""
    return f"The user says {interrupt(question)}"


@pytest.mark.parametrize("spec", [ask, ask_from_a_thread], ids=lambda spec: spec.name)
async def test_a_question_interrupts_the_graph_and_is_no_error(spec: ToolSpec) -> None:
    ends = Ends()
    graph = graph_calling([langchain_tool(spec)], spec.name, {"question": "Really?"}, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}, "callbacks": [ends]}
    asked = await graph.ainvoke({"messages": [("user", "go")]}, config)
    (question,) = asked["__interrupt__"]
    assert question.value == "Really?"
    answered = await graph.ainvoke(Command(resume={question.id: "yes"}), config)
    assert answered["messages"][-2].content == "The user says yes"
    assert set(ends.errors) <= {"GraphInterrupt"}


@tool
async def report(runtime: ToolRuntime[Any, Any]) -> str:
    """Tell progress by the runtime."""
    runtime.stream_writer({"progress": 50})
    return str(runtime.tool_call_id)


@tool
def report_from_a_thread() -> str:
    """Tell progress by LangGraph's stream writer."""
    get_stream_writer()({"progress": 50})
    return "told"


@pytest.mark.parametrize("spec", [report, report_from_a_thread], ids=lambda spec: spec.name)
async def test_a_tool_can_tell_its_progress(spec: ToolSpec) -> None:
    graph = graph_calling([langchain_tool(spec)], spec.name, {})
    parts = [part async for part in graph.astream({"messages": [("user", "go")]}, stream_mode=["custom", "values"])]
    assert [data for mode, data in parts if mode == "custom"] == [{"progress": 50}]
    (message,) = (m for m in parts[-1][1]["messages"] if isinstance(m, ToolMessage))
    assert message.content == (message.tool_call_id if spec is report else "told")


async def test_a_model_cannot_forge_the_runtime() -> None:
    message = await called(report, {"runtime": "forged"})
    assert message.content == message.tool_call_id


def test_what_a_server_must_know_about_a_tool_is_on_it() -> None:
    @tool(idempotent=True, effects="write", timeout=5)
    def save() -> str:
        """Save."""
        return ""

    known = langchain_tool(save).metadata
    assert known == {"stellwerk": {"tool": "save", "idempotent": True, "effects": "write", "timeout": 5}}
