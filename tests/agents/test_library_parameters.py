"""Without a server, too, a graph gets its input, config and context, and an assistant has its own."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

import stellwerk
from stellwerk.agents.build.resources import Resources
from stellwerk.agents.graphs.registry import GraphEntry, Graphs
from stellwerk.envelope.model import AskUser, Message
from stellwerk.errors import InvalidField
from stellwerk.spec.model import GraphConfig, RunDefaults
from tests.runs.assistants import factories
from tests.runs.wanting import graphs

OWN: dict[str, Any] = {"desk": graphs.desk, "mail": graphs.mail, "styled": factories.styled}


async def agent(name: str, **defaults: Any) -> stellwerk.RunnableAgent:
    entries = Graphs(GraphEntry(each, graph, "here") for each, graph in OWN.items())
    factory = stellwerk.AgentFactory(Resources(graphs=entries, saver=InMemorySaver()))
    description = stellwerk.CompleteAgent(name=name, kind="graph", graph=name, defaults=RunDefaults(**defaults))
    return await factory.build(description)


@pytest.fixture(autouse=True)
def notes_elsewhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (graphs, factories):
        monkeypatch.setattr(module, "HERE", tmp_path)


async def test_a_run_takes_input_config_and_context() -> None:
    desk = await agent("desk", context={"language": "German"})
    polite = {"configurable": {"style": "polite"}}
    assert await desk.run("hi", config=polite) == "hi: polite German nobody"
    assert await desk.run("hi", config=polite, context={"language": "French"}) == "hi: polite French nobody"
    mail = await agent("mail")
    assert await mail.run(input={"email_input": {"author": "Ann"}}) == "Ann wrote (0)"
    lines = [line async for line in mail.outer_astream(input={"email_input": {"author": "Bob"}})]
    assert b"Bob wrote" in b"".join(lines)


async def test_what_does_not_fit_is_refused_before_the_run_begins() -> None:
    mail = await agent("mail")
    with pytest.raises(InvalidField, match="mail has no place for a text; send `input` instead"):
        await mail.run("hi")
    with pytest.raises(InvalidField, match="config.callbacks: "):
        await mail.run(input={"email_input": {}}, config={"callbacks": []})


async def test_an_answer_continues_with_the_values_of_its_message() -> None:
    desk = await agent("desk")
    polite: dict[str, Any] = {"config": {"configurable": {"style": "polite"}}, "context": {"language": "German"}}
    told = [each async for each in desk.envelopes("ask", session_id="s", **polite)]
    (said,) = [e.payload for e in told if isinstance(e, Message)]
    assert {"config": said.config, "context": said.context} == polite
    (asked,) = [e.payload for e in told if isinstance(e, AskUser)]
    answered = desk.envelopes(answers={asked.ask_id: "the lamp"}, session_id="s", history=told)
    *_, last = [each async for each in answered]
    assert last.payload.result == "answered the lamp: polite German nobody"


async def test_a_factory_is_called_with_the_config_of_the_run() -> None:
    styled = await agent("styled", config=GraphConfig(configurable={"style": "polite"}))
    assert await styled.run("hi") == "polite None: hi"
    assert await styled.run("hi", config={"configurable": {"style": "rude"}}) == "rude None: hi"
