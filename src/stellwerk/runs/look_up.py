"""What the database knows of a session before a command to it is accepted, read in one trip."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stellwerk.agents.runtime.conversation import RunParameters
from stellwerk.database.port import Row, Transaction
from stellwerk.documents.store import Document, find_document, unknown_file
from stellwerk.log.log import Head
from stellwerk.runs.accept import recall_answer
from stellwerk.runs.commands import Accepted, InputRequest, message_id_used
from stellwerk.runs.replacing import check_replaceable, said_as
from stellwerk.runs.session_defaults import stored_defaults
from stellwerk.runs.transactions import status_of
from stellwerk.tenants.quotas import Limits, StoredUsage, stored_usage
from stellwerk.views.status import Status


class SessionContext(NamedTuple):
    """What the database knows of a session before a command is accepted."""

    system: str
    user: str | None
    version: int | None
    """The newest version of the system; None if it was withdrawn."""
    status: Status
    documents: Sequence[Document | None]
    """Those that the command names."""
    asked: Sequence[bytes]
    """The questions of a session that waits for its user, encoded."""
    defaults: RunParameters


NewestVersion = Callable[[Transaction, str, str], int | None]
"""Of a tenant's system; None if that was withdrawn."""


def look_up(
    tx: Transaction, *, request: InputRequest, limits: Limits, newest_version: NewestVersion
) -> Accepted | tuple[StoredUsage, SessionContext | None]:
    """The answer, if the same request came before; else the usage and the session, if there is one.

    Raises:
        Conflict: the round that the request names cannot be replaced, or the log has the message's id.
        NotFound: there is no such round.
    """
    tenant, session_id = request.tenant, request.session_id
    known = recall_answer(tx, tenant, session_id, key=request.key, request=request.digest)
    if known is not None:
        return known
    usage = stored_usage(tx, limits, tenant, session_id)
    context = session_context(tx, request=request, newest_version=newest_version)
    if context is not None:
        _check_ids(tx, request)
    return usage, context


def _check_ids(tx: Transaction, request: InputRequest) -> None:
    """Before a round is stopped for the request, and not on the writer: this reads much of the log."""
    tenant, session_id = request.tenant, request.session_id
    if request.message_id is not None and said_as(tx, tenant, session_id, request.message_id):
        raise message_id_used(request.message_id)
    if request.replaces is not None:
        check_replaceable(tx, tenant, session_id, request.replaces, keeps_message=request.keeps_message)


def session_context(tx: Transaction, *, request: InputRequest, newest_version: NewestVersion) -> SessionContext | None:
    tenant, session_id = request.tenant, request.session_id
    head = tx.row("head", session_id, tenant)
    if head is None:
        return None
    system, user = Head(*head).system, Head(*head).user
    status = status_of(tx, tenant, session_id)
    version = newest_version(tx, tenant, system)
    files = files_of(tx, request)
    asked: list[Row] = []
    if status.awaiting_user_input:
        asked = tx.rows("questions_of", session_id, tenant)
    defaults = stored_defaults(tx, tenant, session_id)
    return SessionContext(system, user, version, status, files, [body for (body,) in asked], defaults)


def files_of(tx: Transaction, request: InputRequest) -> list[Document | None]:
    return [find_document(tx, request.tenant, each) for each in dict.fromkeys(request.documents)]


def known_files(request: InputRequest, found: SessionContext) -> list[Document]:
    """
    Raises:
        NotFound: the request names a file that is not there.
    """
    files: list[Document] = []
    for document_id, file in zip(dict.fromkeys(request.documents), found.documents, strict=True):
        if file is None:
            raise unknown_file(document_id)
        files.append(file)
    return files
