"""Document summaries by a model, if a workplan asks for them; stored with extracted contents.

A failure costs one summary only: the one that was made without a model stays.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.errors import GraphBubbleUp

from stellwerk.agents.middleware.calls import ENDS_THE_RUN, RetryPolicy, model_call_entry
from stellwerk.agents.runtime.budget import current
from stellwerk.agents.runtime.conversation import INPUT_NOTE, Cost, cost_in
from stellwerk.agents.runtime.shapes import NOSTREAM
from stellwerk.errors import ExtractionError, NotFound
from stellwerk.logs import get_logger
from stellwerk.workflows.documents.contents import ContentItem
from stellwerk.workflows.documents.session import ReadableDocuments, SessionDocument
from stellwerk.workflows.workplan.plan import SUM_UP

logger = get_logger(__name__)

_READ = 8000
"""Characters of an item that the model reads."""
_LONGEST = 600
"""Characters of a summary."""
_ITEMS = 5
"""Items of a document, from the first on, that get a summary."""
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ModelSummaries:
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
        wanted = [item for item in items[:_ITEMS] if item.data_extracted and not item.metadata.ai_processed]
        made = dict[int, str]()
        try:
            for item in wanted:
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
        asked = HumanMessage(text, response_metadata={INPUT_NOTE: {"wish": len(SUM_UP), "documents": []}})
        with model_call_entry(self.agent, self.model) as line:
            reply = await self.model.ainvoke([asked], {"tags": [NOSTREAM]})
            line.tokens(reply)
        return reply
