"""The corpus: one line for each file, how it is made, and what must become of it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from email.message import EmailMessage
from functools import cache

from stellwerk.workflows.documents.writers import write_document
from tests.documents import made

GERMAN = "Grüße aus Köln. Der Zug fährt über die Brücke und hält am nächsten Signal, weil dort gearbeitet wird."
PROSE = "The signal box sets the routes. It sees every train, and it writes down whatever has happened.\n"
PAGE = """<html><head><title>Timetable</title><style>p {color: red}</style><script>alert("stolen")</script></head>
<body><h1>Trains</h1><p>They run on time.<br>Mostly.</p><noscript>hidden</noscript>
<table><tr><th>from<th>to</tr><tr><td>Köln</td><td>Bonn | Süd</td></tr></table><ul><li>one<li>two</ul></body></html>"""
TABLE = 'date,customer,amount\n2026-01-01,Meier,3\n2026-01-02,"Huber, Söhne",4.5\n'


@dataclass(frozen=True)
class Good:
    name: str
    make: Callable[[], bytes]
    summaries: tuple[str, ...]
    """How the summaries of its items begin, in order."""
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bad:
    name: str
    make: Callable[[], bytes]
    code: str


def mail() -> bytes:
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = "a@example.org", "b@example.org", "The numbers of May"
    letter.set_content("Here they are.\n")
    letter.add_attachment(TABLE.encode(), maintype="text", subtype="csv", filename="may.csv")
    letter.add_attachment(made.zipped({"a.txt": "x"}), maintype="application", subtype="zip", filename="old.zip")
    return letter.as_bytes()


def bundle() -> bytes:
    broken = {"broken.pdf": b"%PDF-1.7\n" + bytes(range(256)), "program.bin": bytes(range(256))}
    fine = {"../../etc/evil.txt": PROSE, "/etc/abs.md": "# Title\n", "C:\\win\\table.csv": TABLE}
    return made.zipped(
        {**fine, **broken, "inner.zip": made.zipped({"deep.txt": "deep"}), "text.pdf": made.pdf("Hello")}
    )


@cache
def hundred_thousand() -> bytes:
    rows = (made.row(n, n, f"customer {n}", n * 2, "Köln") for n in range(2, 100_002))
    return made.workbook([made.row(1, "number", "customer", "double", "city"), *rows])


def far_cell() -> bytes:
    return made.workbook([made.row(1, 1), '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'])


def old_word() -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000)


def damaged_member() -> bytes:
    data = bytearray(made.zipped({"a.txt": PROSE * 50, "b.txt": "fine, and read"}))
    data[60] ^= 0xFF
    return bytes(data)


GOOD = [
    Good("german.txt", lambda: GERMAN.encode(), ("Text in German, 18 words: Grüße aus Köln.",), (GERMAN,)),
    Good("bom.txt", lambda: b"\xef\xbb\xbf" + GERMAN.encode(), ("Text in German",), (GERMAN,), ("\ufeff",)),
    Good("utf16.txt", lambda: GERMAN.encode("utf-16"), ("Text in German",), (GERMAN,)),
    Good("utf16-unmarked.txt", lambda: GERMAN.encode("utf-16-le"), ("Text in German",), (GERMAN,)),
    Good("latin1.txt", lambda: GERMAN.encode("latin-1"), ("Text in German",), (GERMAN,)),
    Good("no_extension", lambda: PROSE.encode(), ("Text in English, 17 words: The signal box",)),
    Good("notes.md", lambda: b"# Notes\n\n* one\n", ("Markdown, 2 words: Notes",)),
    Good(
        "table.csv", lambda: TABLE.encode(), ("Table, 3 columns, 2 rows: date, customer, amount",), ('"Huber, Söhne"',)
    ),
    Good(
        "semicolons.csv", lambda: "a;b\n1,5;Öl\n".encode("latin-1"), ("Table, 2 columns, 1 row: a, b",), ('"1,5",Öl',)
    ),
    Good(
        "lines.csv", lambda: "a,b\nx\u2028y\x0bz,1\n".encode(), ("Table, 2 columns, 1 row: a, b",), ("x\u2028y\x0bz,1",)
    ),
    Good("tabs.tsv", lambda: b"a\tb\n1\t2\n", ("Table, 2 columns, 1 row: a, b",), ("1,2",)),
    Good("object.json", lambda: b'{"a": 1, "b": [2]}', ("JSON, an object, 2 keys: a, b",), ('"b": [2]',)),
    Good("list.json", lambda: b'[{"id": 1}, {"id": 2}]', ("JSON, a list of 2 objects, the first with: id",)),
    Good("broken.json", lambda: b'{"a": ', ("Text that is no valid JSON",)),
    Good("deep.json", lambda: b"[" * 200_000 + b"]" * 200_000, ("JSON, nested too deeply",)),
    Good(
        "page.html",
        lambda: PAGE.encode(),
        ("Web page “Timetable”",),
        ("# Trains", "| from | to |\n| --- | --- |\n| Köln | Bonn \\| Süd |", "- one\n- two"),
        ("stolen", "color", "hidden"),
    ),
    Good("deep.html", lambda: b"<div>" * 30_000 + b"bottom", ("Web page, 1 word: bottom",)),
    Good(
        "mail.eml",
        mail,
        ("Mail", "Table, 3 columns", "Archive inside"),
        ("Subject: The numbers of May", "Here they are."),
    ),
    Good(
        "report.docx",
        lambda: write_document("r.docx", f"# Report\n\n{PROSE}\n| a | b |\n| - | - |\n| 1 | 2 |\n").data,
        ("Document in English",),
        ("# Report", "| 1 | 2 |"),
    ),
    Good(
        "sheet.xlsx",
        lambda: write_document("s.xlsx", "a,b\nx,2.5\n=1+1,\n").data,
        ("Table, 2 columns, 2 rows: a, b",),
        ("x,2.5\n=1+1,\n",),
    ),
    Good(
        "returns.xlsx",
        lambda: made.workbook([made.row(1, "a&#13;b", 1)]),
        ("Table, 2 columns",),
        ('"a\nb",1',),
        ("\r",),
    ),
    Good(
        "large.xlsx",
        hundred_thousand,
        ("Table, 4 columns, 100,000 rows: number, customer, double, city",),
        ("100001,customer 100001,200002,Köln",),
    ),
    Good(
        "slides.pptx",
        made.slides,
        ("Slides in English, 2 pages",),
        ("All about switches of the railway", "<!-- page 2 -->"),
    ),
    Good(
        "text.pdf",
        lambda: made.pdf(PROSE.strip(), "Page two"),
        ("PDF in English, 2 pages",),
        ("signal box", "<!-- page 2 -->\nPage two"),
    ),
    Good("picture.png", lambda: made.png(64, 48), ("Image, PNG, 64 × 48 pixels",)),
    Good("dots.gif", lambda: b"GIF89a\x03\x00\x02\x00\x00\x00\x00;", ("Image, GIF, 3 × 2 pixels, 14 bytes",)),
    Good(
        "photo.jpg",
        lambda: b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x00\x02\x00\x03" + bytes(9),
        ("Image, JPEG, 3 × 2",),
    ),
    Good("a_pdf.txt", lambda: made.pdf(PROSE.strip()), ("PDF in English, 1 page",)),
    Good("a_docx.pdf", lambda: write_document("r.docx", PROSE).data, ("Document in English",)),
    Good("a_text.docx", lambda: PROSE.encode(), ("Text in English",)),
    Good(
        "bundle.zip",
        bundle,
        ("Text in English", "Markdown", "Table", "Not read: it is damaged", "Not read: this kind", "Archive", "PDF"),
    ),
    Good("odd.eml", lambda: b"Content-Type: text/plain; charset=nobody-knows\n\nGr\xfc\xdfe", ("Mail",), ("Grüße",)),
    Good("open_quote.csv", lambda: b'a,b\n"' + b"x" * 2_000_000, ("Text that is no table",)),
    Good("cut_utf16.txt", lambda: GERMAN.encode("utf-16")[:-1], ("Text in German",), ("Grüße aus Köln.",)),
    Good("damaged_member.zip", damaged_member, ("Not read: it is damaged", "Text")),
    Good("huge.txt", lambda: PROSE.encode() * 130_000, ("Text in English, 2,210,000 words",)),
]
BAD = [
    Bad("empty.txt", lambda: b"", "document_empty"),
    Bad("blank.csv", lambda: b" \n\n", "document_empty"),
    Bad("mark.txt", lambda: b"\xff\xfe", "document_empty"),
    Bad("empty.zip", lambda: made.zipped({}), "document_empty"),
    Bad("scan.pdf", lambda: made.pdf(""), "document_empty"),
    Bad("no_cells.xlsx", lambda: made.workbook([]), "document_empty"),
    Bad("locked.pdf", made.locked_pdf, "document_encrypted"),
    Bad("locked.xlsx", made.locked_xlsx, "document_encrypted"),
    Bad("locked.zip", made.locked_zip, "document_encrypted"),
    Bad("broken.pdf", lambda: b"%PDF-1.7\n" + bytes(range(256)) * 20, "document_corrupt"),
    Bad("cut.docx", lambda: write_document("r.docx", PROSE).data[:9000], "document_corrupt"),
    Bad("cut.xlsx", lambda: write_document("r.xlsx", "a,b\n").data[:3000], "document_corrupt"),
    Bad("cut.png", lambda: made.png(9, 9)[:15], "document_corrupt"),
    Bad("noise.pdf", lambda: os.urandom(5000), "document_corrupt"),
    Bad("bomb.docx", made.bombed_docx, "document_empty"),
    Bad("bomb.xlsx", lambda: made.workbook([made.row(1, "&laugh9;")], dtd=made.bomb()), "document_corrupt"),
    Bad("bomb.zip", lambda: made.zipped({"a.txt": bytes(30_000_000)}), "document_too_large"),
    Bad("far_cell.xlsx", far_cell, "document_too_large"),
    Bad("many.zip", lambda: made.zipped({f"{n}.txt": "x" for n in range(1001)}), "document_too_many_members"),
    Bad("giant.txt", lambda: b"x" * (64 * 1024 * 1024 + 1), "document_too_large"),
    Bad("old.doc", old_word, "document_unsupported"),
    Bad("program.exe", lambda: b"MZ" + os.urandom(3000), "document_unsupported"),
    Bad("letter.rtf", lambda: rb"{\rtf1 hello}", "document_unsupported"),
    Bad("packed.7z", lambda: b"7z\xbc\xaf\x27\x1c" + bytes(100), "document_unsupported"),
]
