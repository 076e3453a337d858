"""MIME types by extension. The name of a file is only asked where its bytes say too little."""

_OPEN_XML = "application/vnd.openxmlformats-officedocument"
OFFICE = {
    "docx": f"{_OPEN_XML}.wordprocessingml.document",
    "pptx": f"{_OPEN_XML}.presentationml.presentation",
    "xlsx": f"{_OPEN_XML}.spreadsheetml.sheet",
    "pdf": "application/pdf",
}
TYPES = {
    **OFFICE,
    **dict.fromkeys(("md", "markdown"), "text/markdown"),
    **dict.fromkeys(("html", "htm"), "text/html"),
    **dict.fromkeys(("jpg", "jpeg"), "image/jpeg"),
    **dict.fromkeys(("tif", "tiff"), "image/tiff"),
    **{kind: f"image/{kind}" for kind in ("png", "gif", "bmp", "webp")},
    "txt": "text/plain",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "xhtml": "application/xhtml+xml",
    "eml": "message/rfc822",
    "zip": "application/zip",
}
"""The types of all files that a reader exists for."""
_VAGUE = {"application/octet-stream", "application/zip", "text/plain"}


def extension(filename: str) -> str:
    """In small letters and without its dot; empty if there is none."""
    stem, dot, ext = filename.replace("\\", "/").rpartition("/")[2].rpartition(".")
    return ext.lower() if dot and stem else ""


def label(filename: str, seems: str) -> str:
    """The type of a file whose bytes seem to be ``seems``: many are text, Office files archives."""
    return TYPES.get(extension(filename), seems) if seems in _VAGUE else seems
