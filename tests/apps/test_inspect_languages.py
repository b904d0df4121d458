"""The page of `epic inspect` in the language of the preferences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import Markup
from starlette.testclient import TestClient

from epic_apps.inspect import app, changes, inspect_app, words
from epic_memory import EpicMemory, Item, MemoryEntry, Settings, Stance
from epic_memory.text.translations import LANGUAGES, translations

HERE = Path(app.__file__).parent
TOKEN, PORT = "a-token-that-is-long-enough", 8123
AVOIDS, LIKES = "Ich mag keine <b>Hotels</b> mit Casino.", "Ich schlafe gern in ruhigen Hotels am Meer."
NOTE = "Das Palms ist ein ruhiges Hotel am Meer, ohne Casino."
VIEWS = [*app._TABS, "/held?tier=light", "/held?q=zzz", "/query?q=Welches ruhige Hotel am Meer?", "/item?id=palms"]
SOURCES = "".join(path.read_text(encoding="utf-8") for path in [*HERE.glob("*.py"), *HERE.glob("templates/*.html")])


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_message_of_the_page_is_in_every_language_and_no_other(language: str) -> None:
    found = translations(language, "epic_apps")
    told = re.findall(r"""_\((?:"([^"]+)"|'([^']+)')\)""", SOURCES)
    tables = (words.STANCES, words.STAGES, words._STAGES, words.PARTS, words._CHANGES, words._REASONS, app._TABS)
    listed = {*map("".join, told), *(done for _, _, done in changes.CHANGES.values())}
    listed = listed.union(*(table.values() for table in tables))
    assert listed <= found.keys()
    assert [message for message in found if message not in SOURCES] == []
    for english, own in found.items():
        places = '"?{}"?|</?[a-z]+[^>]*>'
        assert own.strip() and re.findall(places, own) == re.findall(places, english), own


@pytest.fixture(params=[True, False])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> TestClient:
    settings = Settings(coarse=False, tau=None)
    memory = EpicMemory.open(tmp_path / "me.epic", [AVOIDS, LIKES], settings=settings)
    request.addfinalizer(memory.close)
    memory.add([Item(id="palms", text=NOTE), Item(text="Die Dampfmaschine wurde von James Watt verbessert.")])
    memory.facts.add("Ich wohne in Graz.")
    memory.proposals.propose("I love jazz.")
    made = TestClient(
        inspect_app(memory, token=TOKEN, port=PORT, write=request.param), base_url=f"http://127.0.0.1:{PORT}"
    )
    made.get(f"/?token={TOKEN}")
    return made


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_in_german_and_escapes_what_others_wrote(client: TestClient, view: str) -> None:
    page = client.get(view).text
    assert '<html lang="de">' in page and "Zum Inhalt springen" in page and "<b>Hotels" not in page
    shown = re.sub(r"<(?:script|style).*?</(?:script|style)>", "", page)
    for english, own in translations("de", "epic_apps").items():
        if " " in english and "{}" not in english and english != own:
            assert f">{english}<" not in shown and f'"{english}"' not in shown, english


def test_a_page_in_english_is_as_it_was_asked_for(tmp_path: Path) -> None:
    with EpicMemory.open(tmp_path / "me.epic", [AVOIDS], settings=Settings(language="en")) as memory:
        made = TestClient(inspect_app(memory, token=TOKEN, port=PORT), base_url=f"http://127.0.0.1:{PORT}")
        assert '<html lang="en">' in made.get(f"/?token={TOKEN}").text


@pytest.mark.parametrize("stance", Stance)
def test_a_reason_quotes_without_tags(stance: Stance) -> None:
    entry = MemoryEntry(
        item_id="i", namespace="n", preference_id="p", preference=AVOIDS, instruction="", stance=stance,
        rationale="Es ist <i>nah</i>.", confidence=0.9, similarity=0.5,
    )  # fmt: skip
    told = words.reason(entry, NOTE, words.said_in("de"))
    assert isinstance(told, Markup) and "&lt;b&gt;Hotels" in told and told.endswith("Es ist &lt;i&gt;nah&lt;/i&gt;.")
