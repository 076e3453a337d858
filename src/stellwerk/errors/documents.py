"""What keeps a document from being read: a code for programs, and words for whoever sent it."""

from typing import Final

from stellwerk.errors.base import StellwerkError

REASONS: Final = {
    "document_empty": "there is nothing in it",
    "document_encrypted": "it is protected by a password; send a copy without one",
    "document_corrupt": "it is damaged, or not what its name says; open it, save it anew and send that",
    "document_too_large": "it is too large to be read, or grows too large when it is unpacked; send it in parts",
    "document_too_many_members": "too many files are in it; send them in smaller archives",
    "document_unsupported": "this kind of file cannot be read here; send it as text, PDF, docx, xlsx or pptx",
    "document_timed_out": "reading it took too long and was given up; send it in parts",
    "document_needs_package": "a package that reads it is not installed: pip install 'path/to/stellwerk[documents]'",
}


class ExtractionError(StellwerkError):
    """One document cannot be read; nothing else is wrong. ``code`` is one of REASONS."""

    code = "document_corrupt"
    status = 422

    def __init__(self, code: str, detail: str = "") -> None:
        self.code = code
        super().__init__(f"{REASONS[code]} ({detail})" if detail else REASONS[code])

    @staticmethod
    def told(code: str, message: str) -> "ExtractionError":
        """One that was said elsewhere, in these words."""
        error = ExtractionError(code)
        error.message, error.args = message, (message,)
        return error
