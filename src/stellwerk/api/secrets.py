"""/secrets: written and used, never read."""

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query
from pydantic import Field, SecretStr
from starlette.responses import Response

from stellwerk.api import examples, refusals
from stellwerk.api.administration_answers import SecretList, SecretsRotated, SecretTold
from stellwerk.api.answers import Json
from stellwerk.api.credentials import Administering
from stellwerk.api.openapi import may, says
from stellwerk.api.services import Services
from stellwerk.api.sessions import Closed
from stellwerk.errors import Forbidden
from stellwerk.tenants.secrets import LONGEST, SHORTEST

_System = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
_Name = Annotated[str, Path(description="what it is for", examples=["openai_api_key"])]


class NewSecret(Closed):
    value: Annotated[SecretStr, Field(description=f"{SHORTEST} to {LONGEST} characters", max_length=4 * LONGEST)]
    agent_system_id: Annotated[_System | None, Field(description="for this one alone; else for all of yours")] = None


_BODY = Body(
    openapi_examples={
        "tenant": {"summary": "for all agent systems", "value": {"value": "sk-…4711"}},
        "system": {"summary": "for one of them", "value": {"value": "sk-…0815", "agent_system_id": "helpdesk"}},
    }
)


def routes(services: Services) -> APIRouter:
    router = APIRouter(tags=["administration"], default_response_class=Response)
    _add_secrets(router, services)
    _add_rotation(router, services)
    return router


def _add_secrets(router: APIRouter, services: Services) -> None:
    @router.get(
        "/secrets",
        summary="List the secrets of your tenant, without their values",
        responses={200: says(SecretList, examples.SECRETS, "All of them"), **may()},
    )
    async def list_secrets(who: Administering) -> Response:
        found = await services.secrets.list(who.tenant)
        told = [
            SecretTold(
                name=each.name,
                agent_system_id=each.system,
                created_at=each.created_at,
                updated_at=each.updated_at,
                readable=each.readable,
            )
            for each in found
        ]
        return Json(SecretList(secrets=told))

    @router.put(
        "/secrets/{name}",
        status_code=204,
        summary="Store a secret, or another value of it",
        response_description="Stored; the next run uses it",
        responses=may(*refusals.BODY, refusals.SECRET_NAME, refusals.TOO_MANY_SECRETS, *refusals.STORED),
    )
    async def put(who: Administering, name: _Name, body: Annotated[NewSecret, _BODY]) -> Response:
        """A provider's key is the secret `<provider>_api_key`. That of an agent system goes before that of the tenant.
        Nobody can read it again: it is used, and taken out of whatever is stored or logged."""
        value = body.value.get_secret_value()
        await services.secrets.put(who.tenant, name, value, system=body.agent_system_id)
        return Response(status_code=204)

    @router.delete(
        "/secrets/{name}",
        status_code=204,
        summary="Delete a secret",
        response_description="Deleted; the next run does without it",
        responses=may(refusals.NO_SECRET, refusals.NO_SYSTEM_NAMED, *refusals.STORED),
    )
    async def delete(
        who: Administering,
        name: _Name,
        agent_system_id: Annotated[_System | None, Query(description="that of this agent system")] = None,
    ) -> Response:
        await services.secrets.delete(who.tenant, name, system=agent_system_id)
        return Response(status_code=204)


def _add_rotation(router: APIRouter, services: Services) -> None:
    @router.post(
        "/secrets/rotation",
        summary="Seal all secrets anew with another master key",
        responses={200: says(SecretsRotated, examples.ROTATED, "Done"), **may(*refusals.STORED)},
    )
    async def rotate(who: Administering) -> Response:
        """For whoever runs the server: an admin of the tenant `local`. Secrets stay what they are, and can be used
        meanwhile. The master key in the data folder is replaced; a command is asked for the new one."""
        if not who.operates:
            raise Forbidden("the master key is changed by whoever runs the server: an admin of the tenant 'local'")
        return Json(SecretsRotated(**(await services.secrets.rotate())._asdict()))
