"""Everything that is no conversation: agent systems, tools, files, and what can be known of a session."""

from fastapi import APIRouter

from stellwerk.api import files, state, systems, tools
from stellwerk.api.services import Services


def routers(services: Services) -> list[APIRouter]:
    return [module.routes(services) for module in (systems, state, tools, files)]
