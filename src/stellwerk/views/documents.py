"""Documents: the files that a session has, those that its tools made and those that were given to it."""

import msgspec

from stellwerk.envelope.model import Document, Envelope


class Filed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    document_id: str
    name: str
    mime: str
    size: int
    added_at: float
    run_id: str | None = None
    agent: str | None = None


def fold(files: tuple[Filed, ...], envelope: Envelope) -> tuple[Filed, ...]:
    """In the order in which they came. The same bytes under the same name are one file."""
    if not isinstance(envelope, Document):
        return files
    told = envelope.payload
    if told.action == "removed" and told.message_id is not None:
        return files  # another message has it still
    if told.action == "removed":
        return tuple(file for file in files if file.document_id != told.document_id)
    if told.redacted:
        return files  # what is left of one that was removed, and has no name
    if any((file.document_id, file.name) == (told.document_id, told.name) for file in files):
        return files
    filed = Filed(
        document_id=told.document_id,
        name=told.name,
        mime=told.mime,
        size=told.size,
        added_at=envelope.ts,
        run_id=envelope.run_id,
        agent=envelope.agent,
    )
    return (*files, filed)
