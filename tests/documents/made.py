"""Files as strangers send them, made by hand: what the libraries of ours would not write."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping

import msoffcrypto
from pptx import Presentation
from pypdf import PdfReader, PdfWriter

from stellwerk.workflows.documents.writers import write_document

_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELS = "http://schemas.openxmlformats.org/package/2006/relationships"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def pdf(*pages: str) -> bytes:
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids: list[bytes] = []
    for page in pages:
        stream = b"BT /F1 12 Tf 72 720 Td (" + page.encode("latin-1") + b") Tj ET"
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        look = b"/MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(b"<< /Type /Page /Parent 2 0 R /Contents %d 0 R %s >>" % (len(objects), look))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return _pdf(objects)


def _pdf(objects: list[bytes]) -> bytes:
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (size, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + trailer


def locked_pdf() -> bytes:
    writer, out = PdfWriter(PdfReader(io.BytesIO(pdf("a secret")))), io.BytesIO()
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


def locked_xlsx() -> bytes:
    out = io.BytesIO()
    plain = io.BytesIO(write_document("a.xlsx", "a,b\n1,2\n").data)
    msoffcrypto.OfficeFile(plain).encrypt("password", out)
    return out.getvalue()


def locked_zip() -> bytes:
    """The mark of a password is a bit in front of each file and in the table of contents."""
    data = bytearray(zipped({"a.txt": "secret"}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def slides() -> bytes:
    presentation, out = Presentation(), io.BytesIO()
    for title in ("Signals", "Switches"):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"All about {title.lower()} of the railway"
    presentation.save(out)
    return out.getvalue()


def workbook(rows: Iterable[str], *, dtd: str = "") -> bytes:
    """One sheet, of rows as they stand in the XML."""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    parts = {"workbook": f"{_SHEET}.sheet.main+xml", "worksheets/sheet1": f"{_SHEET}.worksheet+xml"}
    kinds = "".join(f'<Override PartName="/xl/{part}.xml" ContentType="{kind}"/>' for part, kind in parts.items())
    rels = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    sheet = '<sheets><sheet name="Numbers" sheetId="1" r:id="r1"/></sheets>'
    return zipped(
        {
            "[Content_Types].xml": f'{head}<Types xmlns="{_TYPES}">{rels}{kinds}</Types>',
            "_rels/.rels": _relation(head, f"{_REL}/officeDocument", "xl/workbook.xml"),
            "xl/workbook.xml": f'{head}<workbook xmlns="{_MAIN}" xmlns:r="{_REL}">{sheet}</workbook>',
            "xl/_rels/workbook.xml.rels": _relation(head, f"{_REL}/worksheet", "worksheets/sheet1.xml"),
            "xl/worksheets/sheet1.xml": (
                f'{head}{dtd}<worksheet xmlns="{_MAIN}"><sheetData>{"".join(rows)}</sheetData></worksheet>'
            ),
        }
    )


def _relation(head: str, kind: str, target: str) -> str:
    return (
        f'{head}<Relationships xmlns="{_RELS}"><Relationship Id="r1" Type="{kind}" Target="{target}"/></Relationships>'
    )


def row(number: int, *cells: str | int) -> str:
    inside = "".join(
        f"<c><v>{cell}</v></c>" if isinstance(cell, int) else f'<c t="inlineStr"><is><t>{cell}</t></is></c>'
        for cell in cells
    )
    return f'<row r="{number}">{inside}</row>'


def bomb() -> str:
    """A DTD by which ``&laugh9;`` is a milliard of words."""
    steps = "".join(f'<!ENTITY laugh{n} "{f"&laugh{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE x [<!ENTITY laugh0 "ha">{steps}]>'


def bombed_docx() -> bytes:
    with zipfile.ZipFile(io.BytesIO(write_document("a.docx", "Hello").data)) as package:
        members = {name: package.read(name).decode() for name in package.namelist() if not name.endswith(".jpeg")}
    head, _, body = members["word/document.xml"].partition("?>")
    members["word/document.xml"] = f"{head}?>{bomb()}{body.replace('Hello', '&laugh9;')}"
    return zipped(members)


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes((width + 1) * height)))
    return b"\x89PNG\r\n\x1a\n" + header + pixels + chunk(b"IEND", b"")
