"""What a digest of documents says in its own words, by language; one that is not here gets English. Pure."""

from dataclasses import dataclass

from stellwerk.errors.documents import REASONS

Forms = tuple[str, str]
"""For one, and for any other number."""


@dataclass(frozen=True, slots=True)
class DigestWords:
    there: Forms = ("There is one document.", "There are {} documents.")
    unread: Forms = ("One of them could not be read.", "{} of them could not be read.")
    none: str = "There are no documents."
    no_tables: str = "there is no table among the documents that could be read"
    refused: str = "This document could not be read: {}."
    cut: Forms = ("One more character is left out here.", "{} more characters are left out here.")
    columns: Forms = ("1 column", "{} columns")
    rows: Forms = ("1 row", "{} rows")
    pages: Forms = ("1 page", "{} pages")
    words: Forms = ("1 word", "{} words")
    picture: str = "picture, {} × {} pixels"
    heads: tuple[str, ...] = ("table", "column", "count", "sum", "mean", "min", "max")
    marks: str = ",."
    """In numbers: between thousands, and before decimals."""
    reasons: tuple[tuple[str, str], ...] = tuple(REASONS.items())

    def counted(self, forms: Forms, number: int) -> str:
        return forms[0] if number == 1 else forms[1].format(self.number(number))

    def number(self, value: object) -> object:
        """As people write it; anything else as it is."""
        return f"{value:,}".translate(str.maketrans(",.", self.marks)) if isinstance(value, int | float) else value

    def reason(self, code: str) -> str:
        return dict(self.reasons).get(code, code)


_GERMAN = DigestWords(
    there=("Es liegt ein Dokument vor.", "Es liegen {} Dokumente vor."),
    unread=("Eines davon konnte nicht gelesen werden.", "{} davon konnten nicht gelesen werden."),
    none="Es liegen keine Dokumente vor.",
    no_tables="unter den Dokumenten ist keine Tabelle, die sich lesen ließ",
    refused="Dieses Dokument konnte nicht gelesen werden: {}.",
    cut=("Ein weiteres Zeichen ist hier weggelassen.", "{} weitere Zeichen sind hier weggelassen."),
    columns=("1 Spalte", "{} Spalten"),
    rows=("1 Zeile", "{} Zeilen"),
    pages=("1 Seite", "{} Seiten"),
    words=("1 Wort", "{} Wörter"),
    picture="Bild, {} × {} Pixel",
    heads=("Tabelle", "Spalte", "Anzahl", "Summe", "Mittel", "kleinster Wert", "größter Wert"),
    marks=".,",
    reasons=(
        ("document_empty", "es ist leer"),
        ("document_encrypted", "es ist durch ein Passwort geschützt; bitte eine Kopie ohne Passwort senden"),
        ("document_corrupt", "es ist beschädigt oder nicht das, was sein Name sagt; bitte neu speichern und senden"),
        ("document_too_large", "es ist zu groß; bitte in Teilen senden"),
        ("document_too_many_members", "es enthält zu viele Dateien; bitte in kleineren Archiven senden"),
        (
            "document_unsupported",
            "solche Dateien werden nicht gelesen; bitte als Text, PDF, docx, xlsx oder pptx senden",
        ),
        ("document_timed_out", "das Lesen dauerte zu lange; bitte in Teilen senden"),
        ("document_needs_package", "zum Lesen fehlt ein Paket: pip install 'path/to/stellwerk[documents]'"),
    ),
)


def digest_words(language: str) -> DigestWords:
    """By a code such as ``de`` or ``de-CH``."""
    return _GERMAN if language.strip().lower().startswith("de") else DigestWords()
