"""Readers of documents: what they make of each kind, what they leave out, and hostile files."""

from __future__ import annotations

import mailbox
import shutil
import sys
import time
import zipfile
from email.message import EmailMessage
from pathlib import Path

import docx
import pytest
from docx.oxml import OxmlElement
from docx.oxml.ns import qn

from epic_apps.cli.readers.base import LARGEST
from epic_apps.cli.sources import Sources


def read(path: Path) -> dict[str, str]:
    """The items of a source, by id; nothing failed."""
    sources = Sources([path])
    texts = {item.id: item.text for item in sources}
    assert not sources.failures
    return texts


def failure(path: Path) -> str:
    sources = Sources([path])
    assert list(sources) == []
    return "\n".join(sources.failures)


def test_markdown_is_read_by_its_headings_with_front_matter_links_and_tags(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("rome.md"), tmp_path)
    items = list(Sources([tmp_path / "rome.md"]))
    assert [item.metadata.get("heading") for item in items] == [
        None,
        "Hotels",
        "Hotels > Near the station",
        "Hotels",
        "Food",
    ]
    assert [item.id for item in items] == [f"rome.md#{n}" for n in range(5)]
    assert "---" not in items[0].text and items[1].text == "Hotels. A quiet one. #quiet"
    assert "# no heading" in items[2].text
    assert items[3].text == "Hotels. Empty"
    assert items[0].metadata["links"] == ["Packing list", "https://example.org/map"]
    assert items[1].metadata["tags"] == ["travel", "italy", "quiet"]
    assert items[2].metadata["tags"] == ["travel", "italy"]
    assert (items[0].metadata["title"], items[0].metadata["when"]) == ("Rome", "2026-05-03")


@pytest.mark.parametrize(
    "front",
    ["a: &a [x]\nb: [*a, *a]", "- a list", "a: [", "a: " + "x" * 30_000, "[" * 5_000, "!!python/object:os.x {}"],
)
def test_front_matter_that_is_not_read_stays_in_the_text_and_is_reported(tmp_path: Path, front: str) -> None:
    (tmp_path / "a.md").write_text(f"---\n{front}\n---\nText.", encoding="utf-8")
    sources = Sources([tmp_path / "a.md"])
    assert " ".join(item.text for item in sources).endswith("Text.")
    assert "front matter" in sources.failures[0] and len(sources.failures[0]) < 500


def test_a_heading_of_a_hundred_thousand_letters_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# " + "word " * 20_000 + "\nText.", encoding="utf-8")
    assert sum(len(text) for text in read(tmp_path / "a.md").values()) < 110_000


PAGE = """<html><head><title>A &amp; B</title><style>p {}</style></head><body><p>First <b>bold</b>word.</p>
<h1>One</h1><script>alert("no")</script><p>Text<br>more</p><h2>Two</h2><ul><li>x</li><li>é</li></ul></body></html>"""


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", ""])
def test_a_page_is_read_by_its_headings_without_scripts(tmp_path: Path, encoding: str) -> None:
    page = PAGE.replace("<head>", f'<head><meta charset="{encoding}">') if encoding else PAGE
    (tmp_path / "a.html").write_text(page, encoding=encoding or "utf-8")
    items = list(Sources([tmp_path / "a.html"]))
    assert [item.text for item in items] == ["First boldword.", "One. Text\nmore", "One > Two. x\né"]
    assert {item.metadata["title"] for item in items} == {"A & B"}


@pytest.mark.parametrize(
    "page",
    ["<div>" * 100_000 + "x", "<!--" * 100_000, "<" * 100_000, "<a " * 100_000, "&" * 100_000, "<h1>" * 10_000],
    ids=["deep", "comments", "openings", "attributes", "entities", "headings"],
)
def test_a_hostile_page_takes_no_time(tmp_path: Path, page: str) -> None:
    (tmp_path / "a.html").write_text(page, encoding="utf-8")
    began = time.process_time()
    list(Sources([tmp_path / "a.html"]))
    assert time.process_time() - began < 2


def book(path: Path, pages: dict[str, str], package: str | None = None) -> Path:
    items = "".join(f'<item id="{n}" href="text/{name}"/>' for n, name in enumerate(pages))
    order = "".join(f'<itemref idref="{n}"/>' for n in range(len(pages)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "META-INF/container.xml", '<container><rootfiles><rootfile full-path="O/p.opf"/></rootfiles></container>'
        )
        archive.writestr(
            "O/p.opf",
            package
            or f'<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>T</dc:title></metadata>'
            f"<manifest>{items}</manifest><spine>{order}</spine></package>",
        )
        for name, text in pages.items():
            if text:
                archive.writestr(f"O/text/{name}", text)
    return path


def test_a_book_is_read_page_by_page(tmp_path: Path) -> None:
    path = book(
        tmp_path / "a.epub", {"b.xhtml": "<h1>One</h1><p>First.</p>", "a.xhtml": "<p>Second.</p>", "c.xhtml": ""}
    )
    sources = Sources([path])
    assert [(item.text, item.metadata["title"]) for item in sources] == [("One. First.", "T"), ("Second.", "T")]
    assert len(sources.failures) == 1 and "c.xhtml" in sources.failures[0]


def test_entities_and_outside_files_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    package = f'<!DOCTYPE p [<!ENTITY x SYSTEM "{secret.as_uri()}">]><package><title>&x;</title></package>'
    assert read(book(tmp_path / "a.epub", {}, package)) == {}


def test_a_word_document_is_read_by_its_headings_with_its_tables(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Before.")
    document.add_heading("One", level=1)
    document.add_paragraph("Under one.")
    document.add_heading("Two", level=2)
    cells = document.add_table(rows=1, cols=2).rows[0].cells
    cells[0].text, cells[1].text = "left", "right"
    # A cell that spans more columns than there are.
    span = OxmlElement("w:gridSpan")
    span.set(qn("w:val"), "1000000000")
    cells[0]._tc.get_or_add_tcPr().append(span)
    document.save(str(tmp_path / "a.docx"))
    assert list(read(tmp_path / "a.docx").values()) == ["Before.", "One. Under one.", "One > Two. left\nright"]


@pytest.mark.parametrize("name", ["a.docx", "a.epub"])
def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path, name: str) -> None:
    with (
        zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("word/document.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(LARGEST // 10_000_000 + 1):
            part.write(bytes(10_000_000))
    assert (tmp_path / name).stat().st_size < 1_000_000
    assert "unpacks to more than" in failure(tmp_path / name)


def test_a_pdf_is_read_page_by_page_and_scans_are_told() -> None:
    sources = Sources([Path(__file__).with_name("pages.pdf")])  # the second page is a picture
    assert [(item.text, item.metadata["page"]) for item in sources] == [("The first page.", 1), ("The third page.", 3)]
    assert "1 of 3 pages without text" in sources.skipped[0] and not sources.failures


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.epub"])
@pytest.mark.parametrize("content", [b"", b"%PDF-1.4\n1 0 obj <</Pages 1 0 R>>", b"PK\x03\x04" + b"\x00" * 100])
def test_a_damaged_document_is_reported_and_the_rest_is_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "z.txt").write_text("Text.", encoding="utf-8")
    sources = Sources([tmp_path])
    assert [item.text for item in sources] == ["Text."]
    assert name in sources.failures[0] and len(sources.failures[0]) < 500


def message(subject: str, text: str) -> EmailMessage:
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = subject, "Inês <ines@example.org>", "me@example.org"
    made["Date"] = "Sun, 03 May 2026 10:00:00 +0200"
    made.set_content(text)
    return made


def test_a_message_has_its_subject_sender_and_time(tmp_path: Path) -> None:
    mail = message("Sábado", "We meet at eight.")
    mail.add_alternative("<p>HTML</p>", subtype="html")
    mail.add_attachment(b"...", maintype="application", subtype="pdf", filename="bill.pdf")
    (tmp_path / "a.eml").write_bytes(bytes(mail))
    sources = Sources([tmp_path / "a.eml"])
    [item] = sources
    assert item.text == "Sábado. We meet at eight."
    assert item.metadata["from"] == "Inês <ines@example.org>"
    assert item.metadata["time"] == "2026-05-03T10:00:00+02:00"
    assert "bill.pdf" in sources.skipped[0] and not sources.failures


def test_a_mailbox_is_read_message_by_message(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "a.mbox")
    html = message("Page", "")
    html.set_content("<p>Only HTML.</p>", subtype="html")
    for each in (message("One", "First."), html):
        box.add(each)
    box.close()
    assert list(read(tmp_path / "a.mbox").values()) == ["One. First.", "Page. Only HTML."]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"From: " + b"a@b.c, " * 200_000 + b"\n\ntext",
        b"Content-Type: text/plain; charset=nonsense\n\n\xff",
        b"Content-Type: multipart/mixed; boundary=x\n\n--x\n" * 2_000,
        b"Subject: =?utf-8?b?" + b"=?" * 10_000 + b"\nDate: never\n\ntext",
        b'Content-Type: text/plain; a="' + b'\\";' * 70_000 + b"\n\ntext",
        b'Content-Type: multipart/mixed; boundary="' + b'\\";' * 70_000 + b"\n\ntext",
        b'Content-Disposition: attachment; filename="' + b'\\";' * 70_000 + b"\n\ntext",
        b"Date: Sun, 03 May 99999 10:00:00 +0200\n\ntext",
        b"Content-Type: text/plain; charset=punycode\n\n" + b"a" * 600_000,
    ],
    ids=["empty", "receivers", "charset", "deep", "subject", "parameters", "boundary", "attachment", "year", "puny"],
)
def test_a_hostile_message_neither_crashes_nor_hangs(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "a.eml").write_bytes(raw)
    sources = Sources([tmp_path / "a.eml"])
    began = time.process_time()
    assert list(sources) or sources.skipped or sources.failures
    assert time.process_time() - began < 2


def test_the_problems_of_a_large_mailbox_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_bytes(b"From a@b Thu Jan 1 00:00:00 2026\nSubject:\n\n\n" * 3_000)
    sources = Sources([tmp_path / "a.mbox"])
    assert not list(sources)
    assert len(sources.skipped) == 21 and sources.skipped[-1].endswith("a.mbox: 2980 more")


@pytest.mark.parametrize(("name", "library"), [("a.pdf", "pypdf"), ("a.html", "lxml.etree"), ("a.docx", "docx")])
def test_a_library_that_is_missing_is_named_with_its_extra(
    tmp_path: Path, name: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, library, None)
    assert name in failure(tmp_path / name)
    assert "epic-memory[files]" in failure(tmp_path / name)
