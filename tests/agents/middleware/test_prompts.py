"""system_prompt, mission, final_prompt: what the model is told, and when."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

from stellwerk.agents.build.kinds import prompt_of
from stellwerk.agents.checkpoints.saver import DurableSaver
from stellwerk.spec.model import AgentConfig
from stellwerk.spec.script import ScriptStep
from tests.agents.middleware.conversations import Conversation, Overheard, call, model, say, spoken


@tool
async def look() -> str:
    "Look."
    return "seen"


@pytest.mark.requirement("000.config.system-prompt")
async def test_the_model_gets_the_system_prompt_and_behind_it_the_mission() -> None:
    chat = model(say("yes"))
    await Conversation(AgentConfig(system_prompt="Be brief.", mission="Find the leak."), chat).send("go")
    assert chat.asked[0][0].type == "system"
    assert chat.asked[0][0].text == "Be brief.\n\n# Mission\n\nFind the leak."


def test_there_is_no_heading_without_a_mission() -> None:
    assert prompt_of(AgentConfig(system_prompt="Be brief.")) == "Be brief."
    assert prompt_of(AgentConfig(mission="Find it.")) == "# Mission\n\nFind it."
    assert prompt_of(AgentConfig()) == ""


@pytest.mark.requirement("000.config.final-prompt-override")
async def test_the_final_answer_has_its_own_prompt_and_no_tools(saver: DurableSaver) -> None:
    chat = model(call("look"), call("look"), say("a poem"))
    config = AgentConfig(system_prompt="Search.", final_prompt="Answer in verse.", final_prompt_after=2)
    talk = Conversation(config, chat, [look], saver=saver)
    await talk.send("go")
    assert [str(asked[0].text) for asked in chat.asked] == ["Search.", "Search.", "Answer in verse."]
    assert chat.offered == [["look"], ["look"], []]
    # Results of an earlier input do not count for the next one.
    await talk.send("again")
    assert str(chat.asked[3][0].text) == "Search."


async def test_a_tool_that_is_called_although_none_is_offered_does_not_run(saver: DurableSaver) -> None:
    steps = [call("look"), ScriptStep(say="It is seen.", call="look"), say("never said")]
    talk = Conversation(AgentConfig(final_prompt="Answer."), model(*steps), [look], saver=saver)
    said = await talk.send("go")
    assert spoken(said) == [("ai", ""), ("tool", "seen"), ("ai", "It is seen.")]
    assert isinstance(said[-1], AIMessage)
    assert said[-1].tool_calls == []


async def test_nothing_of_such_a_call_is_left_in_the_places_that_providers_have_for_it() -> None:
    class Provider(Overheard):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
            asked = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
            message = AIMessage(
                [{"type": "text", "text": "Seen."}, {"type": "tool_use", "id": "c1", "name": "look", "input": {}}],
                tool_calls=[asked],
                additional_kwargs={"tool_calls": [{"id": "c1"}], "refusal": None},
            )
            return ChatResult(generations=[ChatGeneration(message=message)])

    last = (await Conversation(AgentConfig(final_prompt="Answer."), Provider(script=[]), [look]).send("go"))[-1]
    assert (last.content, last.additional_kwargs) == ("Seen.", {"refusal": None})
