"""Images: what messages refer to is put into the request, for a model that takes images."""

from typing import Any

from langchain.agents.middleware import AgentMiddleware

from stellwerk.agents.images import NOTE, takes_images, with_images
from stellwerk.agents.middleware.kinds import Answer, AskModel, Request


class Images(AgentMiddleware[Any, Any, Any]):
    async def awrap_model_call(self, request: Request, handler: AskModel) -> Answer:
        referring = any(NOTE in message.response_metadata for message in request.messages)
        # An earlier version of the system may have had a model that takes images.
        if referring and takes_images(request.model):
            request = request.override(messages=await with_images(request.messages))
        return await handler(request)
