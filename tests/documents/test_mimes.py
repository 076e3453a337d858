"""What a file is called that nobody named a type for."""

import pytest

from stellwerk.documents.mimes import OFFICE, label


@pytest.mark.parametrize(
    ("name", "seems", "mime"),
    [
        ("a.xlsx", "application/zip", OFFICE["xlsx"]),
        ("A.DOCX", "application/octet-stream", OFFICE["docx"]),
        ("a.md", "text/plain", "text/markdown"),
        ("a.xlsx", "application/pdf", "application/pdf"),
        ("a.unknown", "text/plain", "text/plain"),
        (".md", "text/plain", "text/plain"),
        ("b.md/a", "text/plain", "text/plain"),
    ],
)
def test_it_is_what_its_bytes_say_and_where_they_say_little_what_its_name_says(
    name: str, seems: str, mime: str
) -> None:
    assert label(name, seems) == mime
