"""Tasks of a workplan: any agent behind one interface, from prompt and documents to a reply and documents.

An agent runs inside a tool of its own name, in the workplan's graph run: its
checkpoints, its questions and its events are the workplan's.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel, Field

from stellwerk.agents.document_tools import listed, save_document
from stellwerk.agents.documents import Known, SessionDocuments, documents_here
from stellwerk.agents.middleware.conversation import GIVEN
from stellwerk.agents.middleware.tool_errors import ENDS_THE_RUN, one_line
from stellwerk.agents.subagent import Built, answer_of
from stellwerk.agents.tools import ARTIFACT_KEY
from stellwerk.agents.user_context import context_of
from stellwerk.agents.workplan_words import Job
from stellwerk.errors import InvalidField, StellwerkError
from stellwerk.logs import get_logger
from stellwerk.spec.model import CompleteAgent
from stellwerk.views.status import TASK

logger = get_logger(__name__)

FILES = "files"
"""In the artifact of a task's result: the documents that were made in it, the newest of each name."""


class TaskArguments(BaseModel):
    prompt: Annotated[str, Field(description="What is to be done, with everything the agent has to know for it.")]
    input_documents: Annotated[list[str], Field(description="Names of documents to read.")] = []
    output_documents: Annotated[list[str], Field(description="Names of documents that are expected.")] = []
    language: Annotated[str, Field(description="The language of the user, as a code.")] = ""
    tool_call_id: Annotated[str, InjectedToolCallId]


def task_tool(agent: CompleteAgent, built: Built, *, name: str, save: BaseTool | None) -> BaseTool:
    """``save`` puts away the answer of an agent that cannot save documents itself; None if it may not."""
    can_save = _can_save(agent)

    async def work(
        prompt: str, input_documents: list[str], output_documents: list[str], language: str, tool_call_id: str
    ) -> tuple[str, list[dict[str, Any]]]:
        documents = documents_here()
        inputs = [] if documents is None else [await _line(documents, each) for each in input_documents]
        job = Job(prompt.strip(), [line for line, _ in inputs], output_documents, can_save)
        given = {"wish": len(job.prompt), "documents": [each for _, each in inputs if each]}
        asked = HumanMessage(job.text(language), response_metadata={GIVEN: given})
        context = context_of(built.graph, get_config())
        left = await built.graph.ainvoke(built.intake.to_input([asked]), context=context)
        reply = answer_of(left).as_text()
        files = list(_files_in(left))
        if save is not None and not can_save and documents is not None and len(output_documents) == 1 and reply:
            files += await _saved(save, output_documents[0], reply)
        # Here and not behind the call: its end is to be stored together with what came of it.
        files += [] if documents is None else await _filed(documents, tool_call_id)
        return reply, files

    async def call(
        prompt: str, input_documents: list[str], output_documents: list[str], language: str, tool_call_id: str
    ) -> tuple[str, dict[str, Any]]:
        try:
            reply, files = await work(prompt, input_documents, output_documents, language, tool_call_id)
        except (GraphBubbleUp, *ENDS_THE_RUN):  # these concern the whole run
            raise
        except StellwerkError as error:
            logger.info("task_failed", agent=name, reason=error.message)
            raise ToolException(error.message) from error
        except Exception as error:  # an agent may be anybody's graph; that it fails is a result like others
            logger.warning("task_failed", agent=name, exc_info=error)
            raise ToolException(one_line(error)) from error
        newest = {file["name"].casefold(): file for file in files}
        return reply, {ARTIFACT_KEY: 1, "result": {"kind": "text", "text": reply}, FILES: list(newest.values())}

    return StructuredTool(
        name=name,
        description=agent.description or f"Hands a task to the agent {agent.name}.",
        args_schema=TaskArguments,
        coroutine=call,
        response_format="content_and_artifact",
        handle_tool_error=True,
        metadata={ARTIFACT_KEY: {"agent": agent.name, "signal": agent.config.completion_signal, "is_task": True}},
    )


async def _filed(documents: SessionDocuments, message_id: str) -> list[dict[str, Any]]:
    """What the log has of documents that were made in the task, by whichever agent below it."""
    known = [each for each in await documents.listed() if each.message_id == message_id]
    return [{"document_id": each.document_id, "name": each.name} for each in known]


async def _line(documents: SessionDocuments, wanted: str) -> tuple[str, dict[str, Any]]:
    """A document as the agent reads it, and what it is; nothing if it is not there."""
    try:
        found = await documents.find(wanted)
    except InvalidField as missing:  # the task that should have written it has failed
        return f"- {wanted}: {missing.message}", {}
    return listed(found, await documents.summary(found)), about(found)


def about(known: Known) -> dict[str, Any]:
    """What a script may go by; not its name, which strangers have chosen."""
    return {"id": known.document_id, "ext": known.ext, "made": (known.message_id or "").startswith(TASK)}


async def _saved(save: BaseTool, name: str, reply: str) -> list[dict[str, Any]]:
    args = {"name": name, "content": reply}
    message = await save.ainvoke({"type": "tool_call", "name": save.name, "args": args, "id": "answer"})
    return list(_files([message]))


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
