"""Speech: what a model has said so far in one call, in blocks: text, reasoning, and the tool calls it writes."""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from stellwerk.envelope.payloads import Token

Json = dict[str, Any]


@dataclass
class Block:
    index: int
    kind: Literal["text", "reasoning", "tool"]
    text: str = ""
    """Of a tool call, the JSON of its arguments as far as it is written."""
    name: str = ""
    """Of the tool."""
    tool_call_id: str = ""

    def content(self) -> Json:
        word = "text" if self.kind == "text" else "reasoning"
        return {"type": word, word: self.text, "index": self.index}


@dataclass
class Speech:
    message_id: str
    node: str
    """Of the graph, where the model was called."""
    blocks: dict[tuple[str, str], Block] = field(default_factory=dict)
    """In the order in which they began, which is also their index."""

    @property
    def plain(self) -> bool:
        """It is text and nothing else, which most clients want as a string."""
        return not any(kind == "reasoning" for kind, _ in self.blocks)

    def add(self, token: Token) -> Block:
        block = self._block(token.kind, str(token.block))
        block.text += token.text
        return block

    def write(self, tool_call_id: str, name: str, text: str) -> Block:
        block = self._block("tool", tool_call_id)
        block.tool_call_id, block.name = tool_call_id, name
        block.text += text
        return block

    def has(self, tool_call_id: str) -> bool:
        return ("tool", tool_call_id) in self.blocks

    def calls(self) -> list[Block]:
        return [block for block in self.blocks.values() if block.kind == "tool"]

    def words(self) -> list[Block]:
        return [block for block in self.blocks.values() if block.kind != "tool"]

    def arguments(self, tool_call_id: str) -> Json | None:
        """Those that the model wrote, if it wrote them to the end."""
        block = self.blocks.get(("tool", tool_call_id))
        try:
            args = msgspec.json.decode(block.text) if block is not None else None
        except msgspec.DecodeError:
            return None
        return args if isinstance(args, dict) else None

    def content(self) -> str | list[Json]:
        """As LangChain puts it: a string, or blocks if there is reasoning among it."""
        if self.plain:
            return "".join(block.text for block in self.words())
        return [block.content() for block in self.words()]

    def _block(self, kind: Literal["text", "reasoning", "tool"], key: str) -> Block:
        if (kind, key) not in self.blocks:
            self.blocks[kind, key] = Block(len(self.blocks), kind)
        return self.blocks[kind, key]
