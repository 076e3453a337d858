"""Streams of chunks, of logs written by hand."""

from stellwerk.dialects.base import Chunk, translate
from stellwerk.dialects.chunks import Chunks
from tests.dialects.sample_logs import Story, positions

OUTER, INNER = "outer_agent", "inner_agent"


def told(story: Story, *, live: bool = False) -> list[Chunk]:
    return [line for _, line in translate(Chunks(live=live), positions(story.checked()))]


def of_type(found: list[Chunk], kind: str) -> list[Chunk]:
    return [line for line in found if line["type"] == kind]
