"""Work that a workplan hands out: tasks to agents, and summaries of documents to its model.

Each agent is a tool, from prompt and documents to reply and documents. It runs inside of that tool,
in the workplan's graph run: its checkpoints, its questions and its events are the workplan's.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, Field

from stellwerk.agents.build.kinds import BuiltAgent, answer_of
from stellwerk.agents.middleware.calls import ENDS_THE_RUN, RetryPolicy, model_call_entry, one_line
from stellwerk.agents.runtime.budget import current
from stellwerk.agents.runtime.context import graph_context
from stellwerk.agents.runtime.conversation import INPUT_NOTE, Cost, cost_in
from stellwerk.agents.runtime.shapes import NOSTREAM
from stellwerk.agents.tools.registry import ARTIFACT_KEY
from stellwerk.errors import ExtractionError, InvalidField, NotFound, StellwerkError
from stellwerk.logs import get_logger
from stellwerk.spec.model import CompleteAgent
from stellwerk.views.status import TASK
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.session import ReadableDocuments, SessionDocument, current_documents, listed
from stellwerk.workflows.documents.tools import save_document
from stellwerk.workflows.workplan.plan import SUM_UP, task_prompt

logger = get_logger(__name__)

FILES = "files"
"""Key in the artifact of a task's result: documents made in the task, the newest of each name."""


class TaskArguments(BaseModel):
    prompt: Annotated[str, Field(description="What is to be done, with everything the agent has to know for it.")]
    input_documents: Annotated[list[str], Field(description="Names of documents to read.")] = []
    output_documents: Annotated[list[str], Field(description="Names of documents that are expected.")] = []
    language: Annotated[str, Field(description="The language of the user, as a code.")] = ""
    tool_call_id: Annotated[str, InjectedToolCallId]


def task_tool(agent: CompleteAgent, built: BuiltAgent, *, name: str, save: BaseTool | None) -> BaseTool:
    """``save`` stores the answer of an agent without a tool for it; None if not allowed."""
    can_save = _can_save(agent)

    async def work(
        prompt: str, input_documents: list[str], output_documents: list[str], language: str, tool_call_id: str
    ) -> tuple[str, list[dict[str, Any]]]:
        documents = current_documents()
        wish, inputs = prompt.strip(), list[tuple[str, dict[str, Any]]]()
        if documents is not None:
            inputs = [await _line(documents, each) for each in input_documents]
        lines = [line for line, _ in inputs]
        given = {"wish": len(wish), "documents": [each for _, each in inputs if each]}
        text = task_prompt(wish, lines, output_documents, language, can_save=can_save)
        asked = HumanMessage(text, response_metadata={INPUT_NOTE: given})
        context = graph_context(built.graph, get_config())
        left = await built.graph.ainvoke(built.graph_input.to_input([asked]), context=context)
        reply = answer_of(left).as_text()
        files = list(_files_in(left))
        is_output = documents is not None and len(output_documents) == 1 and reply
        if save is not None and not can_save and is_output:
            files += await _saved(save, output_documents[0], reply)
        # Inside of the call, because its end is stored together with its result.
        files += [] if documents is None else await _filed(documents, tool_call_id)
        return reply, files

    async def call(**task: Any) -> tuple[str, dict[str, Any]]:
        try:
            reply, files = await work(**task)
        except (GraphBubbleUp, *ENDS_THE_RUN):  # these concern the whole run
            raise
        except StellwerkError as error:
            logger.info("task_failed", agent=name, reason=error.message)
            raise ToolException(error.message) from error
        except Exception as error:  # an agent may be an operator's graph; its failure is a result
            logger.warning("task_failed", agent=name, exc_info=error)
            raise ToolException(one_line(error)) from error
        newest = {file["name"].casefold(): file for file in files}
        result = {"kind": "text", "text": reply}
        return reply, {ARTIFACT_KEY: 1, "result": result, FILES: list(newest.values())}

    about_agent = {"agent": agent.name, "signal": agent.config.completion_signal, "is_task": True}
    return StructuredTool(
        name=name,
        description=agent.description or f"Hands a task to the agent {agent.name}.",
        args_schema=TaskArguments,
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={ARTIFACT_KEY: about_agent},
    )


async def _filed(documents: ReadableDocuments, message_id: str) -> list[dict[str, Any]]:
    """Documents in the log that were made in the task, by any agent below it."""
    known = [each for each in await documents.listed() if each.message_id == message_id]
    return [{"document_id": each.document_id, "name": each.name} for each in known]


async def _line(documents: ReadableDocuments, wanted: str) -> tuple[str, dict[str, Any]]:
    """A document as a line for the agent and as facts for scripts; a missing one has none."""
    try:
        found = await documents.find(wanted)
    except InvalidField as missing:  # the task that should have written it has failed
        return f"- {wanted}: {missing.message}", {}
    return listed(found, await documents.summary(found)), about(found)


def about(known: SessionDocument) -> dict[str, Any]:
    """Facts that scripts may use; without the name, which is untrusted."""
    is_made = (known.message_id or "").startswith(TASK)
    return {"id": known.document_id, "ext": known.ext, "made": is_made}


async def _saved(save: BaseTool, name: str, reply: str) -> list[dict[str, Any]]:
    args = {"name": name, "content": reply}
    call = {"type": "tool_call", "name": save.name, "args": args, "id": "answer"}
    return list(_files([await save.ainvoke(call)]))


def _can_save(agent: CompleteAgent) -> bool:
    own = any(schema.name == save_document.name for schema in agent.tool_schemas)
    return own or any(_can_save(use.agent) for use in agent.agents_as_tools)


def _files_in(left: Any) -> Iterator[dict[str, Any]]:
    messages = left.get("messages") if isinstance(left, dict) else None
    return _files(messages if isinstance(messages, Sequence) else ())


def _files(messages: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The files among the results of tools."""
    for message in messages:
        artifact = message.artifact if isinstance(message, ToolMessage) else None
        if isinstance(artifact, dict) and artifact.get(ARTIFACT_KEY) == 1:
            result = artifact.get("result")
            if isinstance(result, dict) and result.get("kind") == "file_ref":
                yield {"document_id": result["document_id"], "name": result["filename"]}


_READ = 8000
"""Characters of an item that the model reads."""
_LONGEST = 600
"""Characters of a summary."""
_ITEMS = 5
"""Items of a document, from the first on, that get a summary."""
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ModelSummaries:
    """Document summaries by a model, stored with the contents. A failure leaves the static one."""

    agent: str
    model: BaseChatModel
    retry_policy: RetryPolicy

    async def make(
        self, documents: ReadableDocuments, given: Sequence[SessionDocument], warn: Callable[[str], None]
    ) -> None:
        """Summarise documents that no model has summarised; ``warn`` gets each failure."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(known: SessionDocument) -> None:
            async with places:
                await self._sum_up(documents, known)

        wanted = list({each.document_id: each for each in given}.values())
        ends = await asyncio.gather(*map(one, wanted), return_exceptions=True)
        for known, end in zip(wanted, ends, strict=True):
            if isinstance(end, (GraphBubbleUp, *ENDS_THE_RUN)) or not isinstance(end, Exception | None):
                raise end
            if end is not None:
                logger.warning("summary_failed", exc_info=end)
                warn(f"{known.name} could not be summed up by the model")

    async def _sum_up(self, documents: ReadableDocuments, known: SessionDocument) -> None:
        try:
            items = await documents.items(known)
        except (ExtractionError, NotFound):  # reported where the document is shown
            return
        made = dict[int, str]()
        try:
            for item in items[:_ITEMS]:
                if item.data_extracted and not item.metadata.ai_processed:
                    made[item.sequence_nr] = await self._summary(item)
        finally:  # what was paid for is kept
            if made:
                await documents.sum_up(known, made)

    async def _summary(self, item: ContentItem) -> str:
        budget = current()
        budget.check()
        budget.spend(Cost(steps=1))
        async with budget.in_time():
            reply = await self.retry_policy.ask(lambda: self._ask(item))
        budget.spend(Cost(tokens=cost_in([reply]).tokens))
        said = " ".join(str(reply.text).split())
        if not said:
            raise ValueError("the model has said nothing")
        return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"

    async def _ask(self, item: ContentItem) -> AIMessage:
        text = f"{SUM_UP}\n\n{item.name} ({item.summary})\n\n{item.data_extracted[:_READ]}"
        note = {INPUT_NOTE: {"wish": len(SUM_UP), "documents": []}}
        asked = HumanMessage(text, response_metadata=note)
        with model_call_entry(self.agent, self.model) as line:
            reply = await self.model.ainvoke([asked], {"tags": [NOSTREAM]})
            line.tokens(reply)
        return reply
