"""The stand-in speaks to the real clients of the vendors."""

import gc
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, SecretStr

from tests.stand_in.server import StandIn, standing_in

# Of the vendors' clients: one warns of its own serialisation, and none closes its connections.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
KEY = SecretStr("sk-loopback-4711")
CLIENTS: dict[str, Callable[[str], BaseChatModel]] = {
    "chat completions": lambda at: ChatOpenAI(model="small", base_url=f"{at}/v1", api_key=KEY),
    "responses": lambda at: ChatOpenAI(model="small", base_url=f"{at}/v1", api_key=KEY, use_responses_api=True),
    "anthropic": lambda at: ChatAnthropic(model="small", base_url=at, api_key=KEY),
    "gemini": lambda at: ChatGoogleGenerativeAI(model="small", base_url=at, api_key=KEY),
}


@tool
def search(query: str, pages: int) -> str:
    """Search the web."""
    return f"{pages} pages about {query}"


class Plan(BaseModel):
    steps: list[str]
    need_help: bool


@pytest.fixture
async def stand_in() -> AsyncIterator[StandIn]:
    async with standing_in() as found:
        yield found
        gc.collect()  # what a client leaves open belongs to this test, and to none that follows


async def closed(model: BaseChatModel) -> None:
    if isinstance(model, ChatGoogleGenerativeAI):
        await model.aclose()  # left to the garbage collector, it would close itself on the loop of another test


@pytest.mark.parametrize("vendor", CLIENTS)
async def test_a_client_gets_text_in_pieces_tool_calls_and_structured_output(vendor: str, stand_in: StandIn) -> None:
    model = CLIENTS[vendor](stand_in.address)
    pieces = [chunk.text async for chunk in model.astream("What is a tram?")]
    assert "".join(pieces).startswith("To 'What is a tram?', after 1 messages: one two")
    assert len([piece for piece in pieces if piece]) > 5
    assert (await model.ainvoke("What is a tram?")).text == "".join(pieces)
    asked: list[HumanMessage | AIMessage | ToolMessage] = [HumanMessage("What is a tram?")]
    called = await model.bind_tools([search]).ainvoke(asked)
    (call,) = called.tool_calls
    assert (call["name"], call["args"]) == ("search", {"query": "a query", "pages": 1})
    asked += [called, ToolMessage("two pages", tool_call_id=call["id"], name="search")]
    assert (await model.bind_tools([search]).ainvoke(asked)).text.startswith("To 'What is a tram?', after 3 messages")
    plan = await model.with_structured_output(Plan).ainvoke("Make a plan")
    assert plan == Plan(steps=["a steps 1", "a steps 2"], need_help=False)
    await closed(model)


@pytest.mark.parametrize("vendor", CLIENTS)
async def test_a_call_without_a_result_is_rejected(vendor: str, stand_in: StandIn) -> None:
    model = CLIENTS[vendor](stand_in.address)
    called = await model.bind_tools([search]).ainvoke("What is a tram?")
    with pytest.raises(Exception, match="without a result"):
        await model.ainvoke([HumanMessage("What is a tram?"), called, HumanMessage("Well?")])
    assert len(stand_in.refused) == 1
    await closed(model)


async def test_marks_in_a_text_choose_tools_and_values(stand_in: StandIn) -> None:
    model = CLIENTS["chat completions"](stand_in.address).bind_tools([search])
    twice = await model.ainvoke("[[search+search]] [[query=trams]]")
    assert [call["args"]["query"] for call in twice.tool_calls] == ["trams", "trams"]
    assert len({call["id"] for call in twice.tool_calls}) == 2
    assert (await model.ainvoke("[[say]] hello")).tool_calls == []


async def test_ollama_is_answered_line_by_line(stand_in: StandIn) -> None:
    body = {"model": "small", "messages": [{"role": "user", "content": "hello"}]}
    async with httpx2.AsyncClient(base_url=stand_in.address) as client:
        lines = (await client.post("/api/chat", json=body)).text.splitlines()
        structured = {**body, "stream": False, "format": Plan.model_json_schema()}
        plan = (await client.post("/api/chat", json=structured)).json()["message"]["content"]
    assert len(lines) > 5
    assert Plan.model_validate_json(plan).need_help is False


async def test_texts_with_words_in_common_are_near_each_other(stand_in: StandIn) -> None:
    embeddings = OpenAIEmbeddings(
        model="small",
        openai_api_base=f"{stand_in.address}/v1",
        openai_api_key=KEY,
        dimensions=64,
        check_embedding_ctx_length=False,  # no tokeniser from the network
    )
    asked, near, far = await embeddings.aembed_documents(["trams in Bern", "Bern has trams", "a red apple"])
    near_by, far_off = (sum(a * b for a, b in zip(asked, one, strict=True)) for one in (near, far))
    assert near_by > far_off
