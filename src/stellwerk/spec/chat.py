"""Chat messages as a front end has them."""

from typing import Literal

from stellwerk.spec.model import Closed


class ChatMessage(Closed):
    role: Literal["user", "assistant", "system"] = "user"
    content: str
