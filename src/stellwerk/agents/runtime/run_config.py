"""The config of a run, and the call of a factory that makes the graph of that run."""

from typing import Any, NamedTuple, cast

import msgspec
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables import RunnableConfig

from stellwerk.agents.checkpoints.saver import EPOCH
from stellwerk.agents.graphs.input import Graph, is_made
from stellwerk.agents.graphs.registry import FactoryCall
from stellwerk.agents.runtime.context import graph_context, run_context
from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.agents.runtime.session_user import SessionUser, user_in_config

PARALLEL = 100
"""Tasks of one run that work at the same time; a model may ask for any number of tools."""
_ASSISTANT_ID = "assistant_id"
"""In the config, as in LangGraph's own server: the agent system."""
_FOR_EXECUTION = "__is_for_execution__"
"""In the config of a factory of LangGraph's own server: the graph will run."""


class RunOrigin(NamedTuple):
    """Where a run belongs, and for whom it is."""

    session_id: str
    epoch: int | None
    checkpoint_id: str | None
    user_id: str | None


def effective(given: RunParameters, defaults: RunParameters, *, own_graph: bool) -> RunParameters:
    """The parameters of a message over those of its agent; of the input only the message's own."""
    given = given.over(msgspec.structs.replace(defaults, input=None))
    if own_graph and (system := run_context().system):
        return given.over(RunParameters(config={"configurable": {_ASSISTANT_ID: system}}))
    return given


def run_config(given: RunParameters, origin: RunOrigin, callbacks: list[BaseCallbackHandler]) -> RunnableConfig:
    """The message's config; what belongs to the server comes last."""
    config = {**_given_config(given, origin), "callbacks": callbacks, "max_concurrency": PARALLEL}
    return cast(RunnableConfig, config)


def factory_call(graph: Graph, given: RunParameters, origin: RunOrigin) -> FactoryCall:
    """``graph`` is one that the factory made before: its context schema is that of all of them."""
    config = _given_config(given, origin)
    config["configurable"][_FOR_EXECUTION] = True
    context: Any = graph_context(graph, cast(RunnableConfig, config), given.context)
    schema: Any = graph.context_schema
    if context is not None and is_made(schema):
        context = schema(**context)
    user = None if origin.user_id is None else SessionUser(origin.user_id)
    return FactoryCall(cast(RunnableConfig, config), context, user)


def _given_config(given: RunParameters, origin: RunOrigin) -> dict[str, Any]:
    places = {EPOCH: origin.epoch, "checkpoint_id": origin.checkpoint_id}
    configurable = {
        **given.configurable,
        "thread_id": origin.session_id,
        **{key: value for key, value in places.items() if value is not None},
        **user_in_config(origin.user_id),
    }
    return {**(given.config or {}), "configurable": configurable}
