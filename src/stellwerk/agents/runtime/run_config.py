"""The config of a run, and the call of a factory that makes the graph of that run."""

from typing import Any, cast

import msgspec
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig

from stellwerk.agents.checkpoints.saver import EPOCH
from stellwerk.agents.graphs.input import Graph, is_made
from stellwerk.agents.graphs.registry import FactoryCall
from stellwerk.agents.runtime.context import graph_context, run_context
from stellwerk.agents.runtime.conversation import RunParameters, Turn
from stellwerk.agents.runtime.session_user import SessionUser, user_in_config

PARALLEL = 100
"""Tasks of one run that work at the same time; a model may ask for any number of tools."""
_ASSISTANT_ID = "assistant_id"
"""In the config, as in LangGraph's own server: the agent system."""
_FOR_EXECUTION = "__is_for_execution__"
"""In the config of a factory of LangGraph's own server: the graph will run."""


def effective(given: RunParameters, defaults: RunParameters, *, own_graph: bool) -> RunParameters:
    """The parameters of a message over those of its agent; of the input only the message's own."""
    given = given.over(msgspec.structs.replace(defaults, input=None))
    if own_graph and (system := run_context().system):
        return given.over(RunParameters(config={"configurable": {_ASSISTANT_ID: system}}))
    return given


def run_config(turn: Turn, callbacks: list[BaseCallbackHandler]) -> RunnableConfig:
    """The message's config; what belongs to the server comes last."""
    config = {**_given_config(turn), "callbacks": callbacks, "max_concurrency": PARALLEL}
    return cast(RunnableConfig, config)


def factory_call(graph: Graph, turn: Turn) -> FactoryCall:
    """``graph`` is one that the factory made before: its context schema is that of all of them."""
    config = _given_config(turn)
    config["configurable"][_FOR_EXECUTION] = True
    given: Any = graph_context(graph, cast(RunnableConfig, config), turn.parameters.context)
    schema: Any = graph.context_schema
    if given is not None and is_made(schema):
        given = schema(**given)
    user = None if turn.user_id is None else SessionUser(turn.user_id)
    return FactoryCall(cast(RunnableConfig, config), given, user)


def _given_config(turn: Turn) -> dict[str, Any]:
    given = {EPOCH: turn.epoch, "checkpoint_id": turn.from_checkpoint}
    place = {key: value for key, value in given.items() if value is not None}
    configurable = {
        **turn.parameters.configurable,
        "thread_id": turn.session_id,
        **place,
        **user_in_config(turn.user_id),
    }
    return {**(turn.parameters.config or {}), "configurable": configurable}
