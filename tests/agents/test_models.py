"""Models of providers: a real agent against a real HTTP server, and what happens when something is missing."""

import asyncio
import logging
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import openai
import pytest
import yaml
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from stellwerk.agents.build.models import EnvironmentSecrets, SecretSource, chat_model, known_providers, needed_secret
from stellwerk.agents.scripted.model import ScriptedModel
from stellwerk.envelope.model import LlmEnd, LlmStart, ToolEnd
from stellwerk.errors import MissingPackage, MissingSecret, SettingsError, SpecError, UnknownProvider
from stellwerk.settings import provider_keys
from stellwerk.spec.catalogue import plain
from stellwerk.spec.model import AgentSystem, ModelSpec
from stellwerk.spec.operator import Operator, Provider
from stellwerk.testing.order import order_problems
from tests.agents.agent_runs import run_graph, text
from tests.openai_server import OpenAiServer, Reply, openai_server

__all__ = ["openai_server"]

CANARY = "sk-canary-8a61f0"
NO_KEYS = EnvironmentSecrets({})


def keys(**found: str) -> SecretSource:
    return EnvironmentSecrets({name: SecretStr(value) for name, value in found.items()})


def served(server: OpenAiServer, *, key: str | None = None, **settings: Any) -> BaseChatModel:
    """A model that the operator serves under the name ``house``."""
    return chat_model(
        ModelSpec(provider="house", model="tiny-1", **settings),
        providers={"house": Provider(kind="openai", base_url=server.address)},
        keys=keys(house_api_key=key or server.key),
    )


@tool
def look_up(city: str, days: int = 1) -> str:
    "Look up the weather in a city."
    return f"sunny in {city} for {days}"


def agent(model: BaseChatModel) -> Any:
    return create_agent(model, [look_up], system_prompt="Be brief.", name="boss", checkpointer=InMemorySaver())


@pytest.mark.requirement("004.models.native-tool-calling")
async def test_an_agent_speaks_with_a_provider_and_calls_its_tools_natively(openai_server: OpenAiServer) -> None:
    openai_server.replies = [
        Reply(say="Let me look. ", calls=(("look_up", {"city": "Ulm", "days": 3}),)),
        Reply(say="It is sunny there."),
    ]
    envelopes = await run_graph(agent(served(openai_server, temperature=0.25, top_p=0.5, max_tokens=77)))

    assert order_problems(envelopes) == []
    assert text(envelopes) == "Let me look. It is sunny there."
    (result,) = [e.payload.result for e in envelopes if isinstance(e, ToolEnd)]
    assert result is not None and result.as_text() == "sunny in Ulm for 3"

    first, second = openai_server.received
    assert first.authorization == f"Bearer {openai_server.key}"
    assert (first.body["model"], first.body["temperature"], first.body["top_p"]) == ("tiny-1", 0.25, 0.5)
    assert first.body["max_completion_tokens"] == 77
    assert [offered["function"]["name"] for offered in first.body["tools"]] == ["look_up"]
    assert [message["role"] for message in second.body["messages"]] == ["system", "user", "assistant", "tool"]


async def test_what_a_provider_counts_is_in_the_envelopes(openai_server: OpenAiServer) -> None:
    openai_server.replies = [Reply(say="one two three")]
    envelopes = await run_graph(agent(served(openai_server, temperature=0.25)))
    (start,) = [e.payload for e in envelopes if isinstance(e, LlmStart)]
    (end,) = [e.payload for e in envelopes if isinstance(e, LlmEnd)]
    assert (start.model, start.params) == ("tiny-1", {"temperature": 0.25})
    assert end.usage is not None
    # The server counts messages and words: a system prompt and the user's message in, three words out.
    assert (end.usage.model, end.usage.input_tokens, end.usage.output_tokens) == ("tiny-1", 2, 3)


@pytest.mark.parametrize("status, error", [(429, openai.RateLimitError), (500, openai.InternalServerError)])
async def test_a_failed_request_is_not_tried_again_behind_our_back(
    openai_server: OpenAiServer, status: int, error: type[Exception]
) -> None:
    openai_server.replies = [Reply(status=status), Reply(say="too late")]
    with pytest.raises(error):
        await served(openai_server).ainvoke("hello")
    assert len(openai_server.received) == 1


@pytest.mark.parametrize("reply", [Reply(hangs=True), Reply(say="I was about", hangs=True)], ids=["at once", "midway"])
async def test_a_provider_that_falls_silent_is_given_up_after_the_timeout(
    openai_server: OpenAiServer, reply: Reply
) -> None:
    openai_server.replies = [reply]
    heard = []
    with pytest.raises((openai.APITimeoutError, TimeoutError)):
        async for chunk in served(openai_server, timeout=1).astream("hello"):
            heard.append(str(chunk.text))
    assert reply.say.startswith("".join(heard))


@pytest.mark.requirement("004.models.vendor-neutral")
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google-genai"])
def test_vendors_differ_by_a_word_in_the_spec_only(provider: str) -> None:
    spec = ModelSpec(provider=provider, model="large", temperature=0.5, timeout=30)
    secret = needed_secret(spec, providers={})
    assert secret == f"{provider.replace('-', '_')}_api_key"
    made = chat_model(spec, providers={}, keys=keys(**{secret: CANARY}))
    assert isinstance(made, BaseChatModel)
    assert made._get_ls_params()["ls_temperature"] == 0.5


def test_the_operator_can_give_a_known_provider_another_base_url() -> None:
    providers = {"openai": Provider(kind="openai", base_url="http://127.0.0.1:9/v1")}
    made: Any = chat_model(
        ModelSpec(provider="openai", model="m"), providers=providers, keys=keys(openai_api_key=CANARY)
    )
    assert made.openai_api_base == "http://127.0.0.1:9/v1"
    assert made.use_responses_api is False


@pytest.mark.parametrize(("operators", "said"), [("openai", "OpenAI"), ("OpenAI", "openai"), ("my-house", "MY_House")])
def test_another_spelling_is_no_way_around_the_operators_address(operators: str, said: str) -> None:
    providers = {operators: Provider(kind="openai", base_url="http://127.0.0.1:9/v1")}
    spec = ModelSpec(provider=said, model="m")
    known = known_providers(providers)
    secret = known[plain(said)]
    assert secret == needed_secret(spec, providers=providers) == f"{plain(operators)}_api_key"
    made: Any = chat_model(spec, providers=providers, keys=keys(**{secret: CANARY}))
    assert made.openai_api_base == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("names", [("my-house", "My_House"), ("Scripted",)])
def test_names_that_differ_in_spelling_only_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=f"{names[-1]!r} has the same name as .* give it another name"):
        known_providers({name: Provider(kind="openai") for name in names})


@pytest.mark.parametrize("spec", [ModelSpec(), ModelSpec(provider="Scripted"), ModelSpec(tool_calling="schema")])
def test_without_a_provider_the_scripted_model_plays_and_needs_no_key(spec: ModelSpec) -> None:
    assert isinstance(chat_model(spec, providers={}, keys=NO_KEYS), ScriptedModel)
    assert needed_secret(spec, providers={}) is None


def test_a_missing_key_is_named_with_the_variable_that_fills_it() -> None:
    with pytest.raises(MissingSecret, match=r"'gpt-x'.*secret 'openai_api_key'.*OPENAI_API_KEY") as caught:
        chat_model(ModelSpec(provider="openai", model="gpt-x"), providers={}, keys=NO_KEYS)
    assert caught.value.code == "missing_secret"


def test_an_unknown_provider_brings_a_guess_and_the_list() -> None:
    providers = {"house": Provider(kind="openai")}
    with pytest.raises(UnknownProvider, match=r"no provider 'opnai'; did you mean 'openai'\?.*house.*scripted"):
        chat_model(ModelSpec(provider="opnai", model="m"), providers=providers, keys=NO_KEYS)


def test_every_provider_is_listed_with_the_secret_it_needs() -> None:
    known = known_providers({"house": Provider(kind="openai", needs_key=False)})
    assert (known["openai"], known["house"], known["scripted"]) == ("openai_api_key", None, None)


def test_a_missing_package_is_named_as_pip_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_groq", None)
    with pytest.raises(MissingPackage, match="pip install 'langchain-groq'"):
        chat_model(ModelSpec(provider="groq", model="m"), providers={}, keys=keys(groq_api_key=CANARY))
    monkeypatch.setitem(sys.modules, "langchain_openai", None)
    with pytest.raises(MissingPackage, match=r"pip install 'path/to/stellwerk\[openai\]'"):
        chat_model(ModelSpec(provider="langsmith", model="m"), providers={}, keys=keys(langsmith_api_key=CANARY))


def test_a_model_that_cannot_be_made_says_why_and_keeps_its_key() -> None:
    providers = {"house": Provider(kind="azure-openai")}  # wants an endpoint that nobody gave
    with pytest.raises(SpecError, match="'m' of 'house' cannot be made") as caught:
        chat_model(ModelSpec(provider="house", model="m"), providers=providers, keys=keys(house_api_key=CANARY))
    assert CANARY not in repr(caught.value)


def test_local_mode_takes_the_keys_of_the_operators_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_HOUSE_API_KEY", CANARY)
    monkeypatch.setenv("EMPTY_API_KEY", "")
    found = EnvironmentSecrets(provider_keys())
    spec = ModelSpec(provider="my-house", model="m")
    secret = needed_secret(spec, providers={"my-house": Provider(kind="openai")})
    assert secret is not None
    assert found.find(secret) == CANARY
    assert found.find("empty_api_key") is None
    assert CANARY not in repr(found)


async def test_a_place_that_wants_no_key_does_not_get_the_operators(
    openai_server: OpenAiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    openai_server.key, openai_server.replies = "none", [Reply(say="hello")]
    house = Provider(kind="openai", base_url=openai_server.address, needs_key=False)
    made = chat_model(ModelSpec(provider="house", model="m"), providers={"house": house}, keys=NO_KEYS)
    assert str((await made.ainvoke("hello")).text) == "hello"
    assert CANARY not in str(openai_server.received)


@pytest.mark.parametrize("tool_calling", ["native", "schema"])
async def test_a_key_is_sent_only_to_its_provider(
    openai_server: OpenAiServer, caplog: pytest.LogCaptureFixture, tool_calling: str
) -> None:
    caplog.set_level(logging.DEBUG)
    openai_server.key = CANARY
    openai_server.replies = [Reply(say="hello")]
    made = served(openai_server, tool_calling=tool_calling)
    envelopes = await run_graph(agent(made))
    openai_server.key = "another"
    with pytest.raises(openai.AuthenticationError) as caught:
        await served(openai_server, key=CANARY, tool_calling=tool_calling).ainvoke("hello")
    assert [received.authorization for received in openai_server.received] == [f"Bearer {CANARY}"] * 2
    for shown in (repr(made), str(made), str(made.to_json()), repr(envelopes), repr(caught.value), caplog.text):
        assert CANARY not in shown
    child = await asyncio.create_subprocess_exec("env", stdout=asyncio.subprocess.PIPE)
    assert CANARY not in (await child.communicate())[0].decode()


def test_a_provider_package_is_not_imported_until_it_is_used() -> None:
    program = (
        "import sys; from stellwerk.agents.build.models import EnvironmentSecrets, chat_model;"
        "from stellwerk.spec.model import ModelSpec;"
        "chat_model(ModelSpec(), providers={}, keys=EnvironmentSecrets({}));"
        "assert not {'langchain_openai', 'openai'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_examples_of_the_guide_are_valid() -> None:
    guide = Path(__file__).parents[2] / "docs/howto/models.md"
    blocks = re.findall(r"```yaml\n(.*?)```", guide.read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        match yaml.safe_load(dedent(block)):
            case {"model": model}:
                ModelSpec.model_validate(model)
            case {"providers": _} as operator:
                Operator.model_validate(operator)
            case system:
                AgentSystem.model_validate(system)
