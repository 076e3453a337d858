"""AgentFactory: a description becomes a RunnableAgent."""

from langchain.agents import create_agent
from langgraph.checkpoint.base import BaseCheckpointSaver

from stellwerk.agents.runnable import RunnableAgent
from stellwerk.agents.scripted import ScriptedModel
from stellwerk.agents.tools import registered
from stellwerk.spec.model import AgentSystem


class AgentFactory:
    def __init__(self, saver: BaseCheckpointSaver[int]) -> None:
        self._saver = saver

    def build(self, system: AgentSystem) -> RunnableAgent:
        agent = system.orchestrator()
        described = agent.model or system.system.default_model
        graph = create_agent(
            ScriptedModel(script=described.script, model=described.model, pace=described.pace),
            [registered(name) for name in agent.tools.allow],
            system_prompt=agent.system_prompt or None,
            checkpointer=self._saver,
            name=agent.id,
        )
        return RunnableAgent(agent.id, graph)
