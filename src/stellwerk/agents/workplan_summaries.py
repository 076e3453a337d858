"""Summaries by a model, where a workplan asks for them: once for each document, and kept beside what was read of it.

What goes wrong with one costs its summary, and nothing else: the one that was made without a model stays.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.errors import GraphBubbleUp

from stellwerk.agents.documents import Known, SessionDocuments
from stellwerk.agents.middleware.budget import current
from stellwerk.agents.middleware.call_log import model_line
from stellwerk.agents.middleware.conversation import GIVEN, Spent, spent_in
from stellwerk.agents.middleware.retry import Patience
from stellwerk.agents.middleware.tool_errors import ENDS_THE_RUN
from stellwerk.agents.middleware.validation import NOSTREAM
from stellwerk.agents.workplan_words import SUM_UP
from stellwerk.documents.contents import ContentItem
from stellwerk.errors import ExtractionError, NotFound
from stellwerk.logs import get_logger

logger = get_logger(__name__)

_READ = 8000
"""Letters of an item that the model reads."""
_LONGEST = 600
"""Letters of a summary."""
_ITEMS = 5
"""Items of a document, from the first on, that are summed up."""
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ModelSummaries:
    agent: str
    model: BaseChatModel
    patience: Patience

    async def make(self, documents: SessionDocuments, given: Sequence[Known], warn: Callable[[str], None]) -> None:
        """Have these documents summed up that are not; ``warn`` is told of those for which it went wrong."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(known: Known) -> None:
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

    async def _sum_up(self, documents: SessionDocuments, known: Known) -> None:
        try:
            items = await documents.items(known)
        except (ExtractionError, NotFound):  # whoever looks at the document is told
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
        budget.spend(Spent(steps=1))
        async with budget.in_time():
            reply = await self.patience.ask(self.model, lambda model: self._ask(model, item))
        budget.spend(Spent(tokens=spent_in([reply]).tokens))
        said = " ".join(str(reply.text).split())
        if not said:
            raise ValueError("the model has said nothing")
        return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"

    async def _ask(self, model: BaseChatModel, item: ContentItem) -> AIMessage:
        text = f"{SUM_UP}\n\n{item.name} ({item.summary})\n\n{item.data_extracted[:_READ]}"
        asked = HumanMessage(text, response_metadata={GIVEN: {"wish": len(SUM_UP), "documents": []}})
        with model_line(self.agent, model) as line:
            reply = await model.ainvoke([asked], {"tags": [NOSTREAM]})
            line.tokens(reply)
        return reply
