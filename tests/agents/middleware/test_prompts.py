"""system_prompt, mission, final_prompt: what the model is told, and when."""

import pytest
from langchain_core.tools import tool

from stellwerk.agents.checkpoints import DurableSaver
from stellwerk.agents.middleware.prompt import prompt_of
from stellwerk.spec.model import AgentConfig
from tests.agents.middleware.conversations import Conversation, call, model, say


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


def test_whoever_uses_an_agent_may_give_it_another_mission() -> None:
    config = AgentConfig(system_prompt="Be brief.", mission="Find the leak.")
    assert prompt_of(config, "Mend it.") == "Be brief.\n\n# Mission\n\nMend it."


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
