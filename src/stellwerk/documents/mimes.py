"""The MIME types of Office files and PDF, by their extensions."""

_OPEN_XML = "application/vnd.openxmlformats-officedocument"
OFFICE = {
    "docx": f"{_OPEN_XML}.wordprocessingml.document",
    "pptx": f"{_OPEN_XML}.presentationml.presentation",
    "xlsx": f"{_OPEN_XML}.spreadsheetml.sheet",
    "pdf": "application/pdf",
}
