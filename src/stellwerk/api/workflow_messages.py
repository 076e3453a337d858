"""Messages of a workflow with their documents, as they are sent."""

from collections.abc import Sequence

from starlette.requests import Request

from stellwerk.api.files import address_of
from stellwerk.api.services import Services
from stellwerk.api.workflow_answers import WorkflowMessage, with_documents
from stellwerk.tenants.principals import Principal
from stellwerk.views.workflow_shapes import FileNamed, MessageShown
from stellwerk.workflows.documents import WorkflowDocument, filename


async def told(
    services: Services, who: Principal, request: Request, messages: Sequence[MessageShown]
) -> tuple[tuple[WorkflowMessage, ...], bool]:
    """The messages, and whether that is how they stay."""
    files = [file for message in messages for file in message.documents]
    documents: dict[FileNamed, WorkflowDocument] = {}
    is_final = True
    if files:
        documents, is_final = await services.workflows.documents.shown(
            who.tenant, files, lambda file: address_of(request, file.document_id, filename(file))
        )
    return tuple(with_documents(message, documents) for message in messages), is_final
