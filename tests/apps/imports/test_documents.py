"""Notes, mails, cards, calendars and bookmarks that are imported as items, each with who wrote it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("icalendar")
pytest.importorskip("lxml")

from exports import refusing

from epic_apps import import_from
from epic_apps.cli.sources import Sources
from epic_memory import EpicMemory
from epic_memory.errors import MissingExtraError
from tables import table

DATA = Path(__file__).with_name("data")
VCARD, ICAL, BOOKMARKS, SECRET_NOTE = (
    (DATA / name).read_bytes().decode() for name in ("cards.vcf", "calendar.ics", "bookmarks.html", "secrets.md")
)
MAIL = "From: {}\nTo: bob@example.org\nSubject: Lunch\nDate: Wed, 1 May 2024 10:00:00 +0000\n\n{}\n"


def items_of(path: Path, **options: Any) -> dict[str, Any]:
    memory = EpicMemory()
    import_from(memory, path, **options)
    assert not memory.proposals and not memory.facts
    return {item.text.partition("\n")[0]: item for item in memory.items()}


@pytest.mark.parametrize(("name", "items"), table(__file__, "documents"))
def test_what_documents_hold(name: str, items: list[tuple[str, list[str], dict[str, Any]]]) -> None:
    found = items_of(DATA / name)
    assert set(found) == {key for key, *_ in items} and "AAAA" not in str(found), "no picture"
    for key, parts, metadata in items:
        assert all(part in found[key].text for part in parts)
        assert found[key].metadata.items() >= metadata.items()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("BEGIN:VCARD\nFN:Ann\nno line\n", "card 1 has no end"),
        ("BEGIN:VCARD\nEND:VCARD\n", "card 1 has no name"),
        ("Ann Smith", "holds no card"),
    ],
)
def test_a_broken_address_book_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "a.vcf").write_text(text, encoding="utf-8")
    sources = Sources([tmp_path / "a.vcf"])
    assert not list(sources) and told in "".join((*sources.failures, *sources.skipped))


@pytest.mark.parametrize(
    ("good", "bad", "named"),
    [
        ("SUMMARY:Dentist\r\n", "SUMMARY:Dentist\r\ngarbage without a mark\r\n", "a line of 'Dentist'"),
        ("DTSTART:20250501T100000Z", "DTSTART:notadate", "DTSTART of 'Dentist'"),
        ("RRULE:FREQ=YEARLY", "RRULE:FREQ=FOO;X", "'Dentist'"),
        ("END:VEVENT\r\nBEGIN", "END:VEVENT\r\ngarbage line\r\nBEGIN", ""),
    ],
)
def test_a_broken_entry_spoils_no_calendar(tmp_path: Path, good: str, bad: str, named: str) -> None:
    assert good in ICAL
    (tmp_path / "a.ics").write_bytes(ICAL.replace(good, bad, 1).encode())
    with EpicMemory() as memory:
        report = import_from(memory, tmp_path)
        assert {item.metadata["title"] for item in memory.items()} == {"Dentist", "Meeting"}
        assert named in "".join(report.failures) and bool(report.failures) == bool(named)


@pytest.mark.parametrize(
    ("added", "time"),
    [("1600000000000000", "2020-09-13T12:26:40"), ("1600000000000", "2020-09-13T12:26:40"), ("9" * 30, "")],
)
def test_a_bookmark_of_another_clock(tmp_path: Path, added: str, time: str) -> None:
    (tmp_path / "b.html").write_text(BOOKMARKS.replace("1600000000", added), encoding="utf-8")
    (made,) = items_of(tmp_path / "b.html").values()
    assert str(made.metadata.get("time", "")).startswith(time)
    assert bool(made.metadata.get("time")) == bool(time)


def test_a_damaged_member_of_an_archive_is_named_and_the_rest_goes_in(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("bad.md", "About harbours.")
        made.writestr("good.md", "About boats.")
        made.writestr("y" * 300 + ".md", "About names.")
    path.write_bytes(path.read_bytes().replace(b"About harbours.", b"About hXrbours."))
    with EpicMemory() as memory:
        report = import_from(memory, path)
        assert {item.text for item in memory.items()} == {"About boats.", "About names."}
        (told,) = report.failures
        assert told.startswith("bad.md cannot be read")


@pytest.mark.parametrize(("looks", "make"), [("os.scandir", "mkdir"), ("pathlib.Path.is_file", "touch")])
def test_what_cannot_be_looked_into_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: str, make: str
) -> None:
    getattr(tmp_path / "closed", make)()
    (tmp_path / "a.md").write_text("About boats.", encoding="utf-8")
    monkeypatch.setattr(looks, refusing(looks, "closed"))
    with EpicMemory() as memory:
        report = import_from(memory, tmp_path)
        assert [item.text for item in memory.items()] == ["About boats."]
        assert report.failures == [f"{tmp_path / 'closed'} cannot be read: Permission denied."]


def test_entities_of_evernote_are_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2", encoding="utf-8")
    evil = f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{tmp_path}/secret"><!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'
    (tmp_path / "a.enex").write_text(f"{evil}<en-export><note><title>T &b; &e;</title></note></en-export>")
    assert "hunter2" not in "".join(items_of(tmp_path / "a.enex"))


@pytest.mark.parametrize(("sender", "text", "origin"), table(__file__, "mails"))
def test_mails(tmp_path: Path, sender: str, text: str, origin: str) -> None:
    (tmp_path / "a.eml").write_text(MAIL.format(sender, text), encoding="utf-8")
    (made,) = items_of(tmp_path, user=["ann@example.org", "Ann"]).values()
    assert made.metadata["origin"] == origin and made.metadata["time"].startswith("2024-05-01")


@pytest.mark.parametrize(("text", "origin"), [("<p>Yes.", "user"), ("<p>Yes.<blockquote>I love casinos.", "other")])
def test_a_mail_in_html_that_quotes_is_not_the_users(tmp_path: Path, text: str, origin: str) -> None:
    mail = MAIL.replace("Subject", "Content-Type: text/html\nSubject").format("ann@example.org", text)
    (tmp_path / "a.eml").write_text(mail, encoding="utf-8")
    (made,) = items_of(tmp_path, user="ann@example.org").values()
    assert made.metadata["origin"] == origin


def test_no_piece_of_a_mail_that_quotes_is_the_users(tmp_path: Path) -> None:
    text = "Yes.\n\n-----Original Message-----\n" + "The weather was fine again today. " * 300
    (tmp_path / "a.eml").write_text(MAIL.format("ann@example.org", text), encoding="utf-8")
    with EpicMemory() as memory:
        import_from(memory, tmp_path, user="ann@example.org")
        assert len(memory.items()) > 1 and {each.metadata["origin"] for each in memory.items()} == {"other"}


def test_a_vault_in_a_folder_and_in_an_archive(tmp_path: Path) -> None:
    note = "---\ntags: [trips]\n---\nA walk to the [[harbour]]. #sea\n"
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/oslo.md").write_text(note, encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "vault.zip", "w") as made:
        made.writestr("trips/oslo.md", note)
        made.writestr("../../evil.md", "Out of the folder.")
        made.writestr("evil.md", "In the folder.")
        made.writestr(".obsidian/app.md", "Hidden.")
    (one,) = items_of(tmp_path / "vault").values()
    assert one.id == "vault/oslo.md" and one.metadata["origin"] == "user"
    assert one.metadata["tags"] == ["trips", "sea"] and one.metadata["links"] == ["harbour"]
    packed = items_of(tmp_path / "vault.zip")
    assert {item.id for item in packed.values()} == {"vault.zip/trips/oslo.md", "vault.zip/evil.md"}
    assert not list(tmp_path.parent.glob("evil.md"))


def test_no_secret_is_kept_in_metadata(tmp_path: Path) -> None:
    (tmp_path / "n.md").write_text(SECRET_NOTE, encoding="utf-8")
    mail = MAIL.replace("Lunch", "Your password is SubjSecret8").format("ann@example.org", "See you.")
    (tmp_path / "a.eml").write_text(mail, encoding="utf-8")
    (tmp_path / "c.vcf").write_text(VCARD.replace("Ann Smith", "Password is CardSecret1"), encoding="utf-8")
    (tmp_path / "b.html").write_text(BOOKMARKS.replace("/a", "/a?token=UrlSecret9"), encoding="utf-8")
    with EpicMemory() as memory:
        report = import_from(memory, tmp_path)
        kept = {item.metadata["source"].rpartition("/")[2]: item for item in memory.items()}
        assert "I like tea." in kept["n.md"].text
        assert kept["n.md"].metadata["accounts"] == {"name": "Ann"} and kept["n.md"].metadata["keys"] == ["plain"]
        assert "See you." in kept["a.eml"].text
        shown = "".join(f"{item.text}{item.metadata}" for item in memory.items())
        for secret in ("FrontSecret1", "4821", "sk-abc", "HeadSecret", "UrlSecret", "SubjSecret", "CardSecret"):
            assert secret not in shown, secret
        assert sum(report.kept_out.values()) > 6


def test_what_is_never_kept_is_no_metadata_either(tmp_path: Path) -> None:
    (tmp_path / "n.md").write_text("---\ncondition: I have diabetes\n---\nAbout tea.\n", encoding="utf-8")
    (tmp_path / "p.html").write_text("<title>My diabetes</title><p>About tea.", encoding="utf-8")
    (tmp_path / "q.html").write_text("<title>Harbours</title><p>About boats.", encoding="utf-8")
    with EpicMemory() as memory:
        memory.never.add("diabetes")
        report = import_from(memory, tmp_path)
        assert [item.metadata["title"] for item in memory.items()] == ["Harbours"]
        # What the memory itself keeps out is counted there.
        assert report.built is not None and sum(report.kept_out.values()) + report.built.kept_out == 2


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ijson", None)
    (tmp_path / "x.json").write_text("[]", encoding="utf-8")
    with pytest.raises(MissingExtraError, match=r"epic-memory\[imports\]"):
        import_from(EpicMemory(), tmp_path / "x.json")
