"""The language of texts: how it is told, and what becomes of preferences and items that are not in English."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Aspects, EpicMemory, Expansion, Preference, Settings
from epic_memory.encoders import OllamaEncoder, StaticEncoder, default_encoder
from epic_memory.encoders.static import BUNDLED
from epic_memory.errors import InvalidInputError
from epic_memory.preferences.parser import aspects_of, language_not_read, parse_aspects
from epic_memory.text import language
from epic_memory.text.language import by_signs, foreign_among, language_of, languages_of, named
from epic_memory.types import BuildReport
from helpers import HashEncoder

OURS = Path(__file__).parents[3] / "shared" / "tools"
CASINOS = {
    "de": "Ich meide Hotels mit Casinos.",
    "fr": "J'évite les hôtels avec un casino.",
    "es": "Evito los hoteles con casino.",
    "it": "Evito gli alberghi con il casinò.",
}
CASINO_HOTEL = (
    "The Grand Royale is a five-star hotel on the Strip. Its casino floor has two thousand slot machines and a poker"
    " room that never closes. Rooms are large, and the pool is open all night."
)
# By language: preferences, more of them that were written after words and thresholds were chosen, and other scripts.
LANGUAGES = json.loads(Path(__file__).with_name("languages.json").read_text(encoding="utf-8"))
PREFERENCES, LATER, SCRIPTS = LANGUAGES.values()


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(part)


# Their turns and questions ask for translations, or quote.
MIXED = re.compile(r"hostile|answers_turns_e|turns_[abdefgh]|questions_[a-g]|chats_a")


def english_texts() -> list[str]:
    texts = {line.strip() for path in (OURS / "texts").glob("*.txt") for line in path.read_text().splitlines()}
    for path in (path for path in (OURS / "written").glob("*.jsonl") if not MIXED.fullmatch(path.stem)):
        texts |= {text.strip() for line in path.read_text().splitlines() for text in strings(json.loads(line))}
    return sorted(texts - {""})


# telling languages


@pytest.mark.slow
def test_hardly_an_english_text_is_called_foreign() -> None:
    texts = english_texts()
    foreign = [text for text in texts if language_of(text) not in (None, "en")]
    assert len(texts) > 20_000
    assert len(foreign) <= 0.0025 * len(texts), foreign
    assert [text for text in foreign if len(text.split()) > 6] == []


def test_no_english_preference_of_ours_is_called_foreign() -> None:
    texts = [line for path in (OURS / "texts").glob("*preferences.txt") for line in path.read_text().splitlines()]

    assert [text for text in texts if language_of(text) not in (None, "en")] == []


@pytest.mark.parametrize("known", list(PREFERENCES))
def test_the_language_of_a_preference_of_one_sentence_is_told(known: str) -> None:
    assert [language_of(text) for text in PREFERENCES[known]] == [known] * len(PREFERENCES[known])


def test_so_are_most_sentences_that_nothing_was_chosen_by() -> None:
    found = {text: (known, language_of(text)) for known, texts in LATER.items() for text in texts}
    assert sum(one in (None, "en") for _, one in found.values()) <= 1, found
    assert sum(known == one for known, one in found.values()) >= 18, found


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the library is asked, which takes a moment to load."""
    monkeypatch.setattr(language, "_loaded", lambda: pytest.fail("the library was asked"))


@pytest.mark.usefixtures("without_library")
def test_english_other_scripts_and_short_notes_do_not_load_the_library() -> None:
    for known, text in SCRIPTS.items():
        assert language_of(text) == language_of(f"{text} Grand Royale") == known
    passages = [line for path in (OURS / "texts").glob("*passages.txt") for line in path.read_text().splitlines()]
    assert {one for one in languages_of(passages) if one is not None} == {"en"}
    assert by_signs("Dentist Tuesday, room 4") is None
    memory = EpicMemory(["I avoid hotels with casinos."])
    assert memory.add(["Dentist Tuesday, room 4", "Milk, eggs, oats"]).light == 2


@pytest.mark.parametrize(
    "text",
    ["", " ", "42", "🚆 🚆 🚆", "Pinot noir", "Ramen", "x² + y² = π r", "a/b c_d e=f", "I love 寿司 and ramen."],
)
def test_what_says_too_little_is_no_foreign_text(text: str) -> None:
    assert language_of(text) in (None, "en")


def test_case_and_signs_do_not_matter() -> None:
    assert language_of("ICH ESSE KEIN FLEISCH UND KEINEN FISCH!") == "de"
    assert language_of("«Je ne mange ni viande ni poisson…»") == "fr"
    assert language_of("“I don’t eat meat” – she said…") == "en"


@given(st.text(max_size=300))
def test_any_text_has_a_language_or_none(text: str) -> None:
    found = language_of(text)

    assert found is None or 2 <= len(found) <= 3
    assert languages_of([text]) == [found]


def test_the_names_of_languages() -> None:
    assert named("de") == "German" and named("xx") == "xx"
    assert all(named(known) != known for known in (*PREFERENCES, *SCRIPTS, *language._LATIN))


def test_texts_are_sampled() -> None:
    texts = ["Ich esse kein Fleisch und keinen Fisch.", "I never eat meat or fish."] * 512

    assert foreign_among(texts[:100], {"en"}, 200) == {"de": 50}
    assert sum(foreign_among(texts[::2], {"en"}, 200).values()) <= 200
    assert foreign_among(["Vältän hotelleja, joissa on kasino."] * 200, {"en"}, 200) == {"fi": 29}
    assert foreign_among(texts, {"en", "de"}, 200) == {} and foreign_among([], {"en"}, 200) == {}


@pytest.mark.slow
def test_nothing_is_loaded_by_an_import() -> None:
    asked = (
        "import sys; opened = []; sys.addaudithook(lambda name, args: name == 'open' and opened.append(str(args[0])))\n"
        "import epic_memory.memory, epic_memory.steering.query_steering, epic_memory.verification.embedded\n"
        "print('py3langid' in sys.modules, any('lexicon.tsv' in one for one in opened))"
    )
    assert subprocess.check_output([sys.executable, "-c", asked], text=True).split() == ["False", "False"]


# preferences that the parser cannot read


@pytest.mark.parametrize("text", [*CASINOS.values(), *SCRIPTS.values()])
def test_what_the_parser_does_not_read_has_no_sides(text: str) -> None:
    aspects = parse_aspects(text)
    assert (aspects.liked, aspects.avoided, aspects.source, aspects.understood) == ((), (), "unread", False)
    assert str(aspects) == "not understood"
    assert Aspects.from_json(aspects.as_json()) == aspects
    assert language_not_read(text) == language_of(text)
    # That nobody has read it is no reading.
    assert Preference(text="I avoid casinos.", aspects=aspects).aspects is None
    memory = EpicMemory(["I avoid casinos."], encoder=HashEncoder())
    memory.preferences.set_aspects("I avoid casinos.", aspects)
    assert memory.preferences.aspects("I avoid casinos.").avoided == ("casinos",)


def test_sides_that_nobody_read_cannot_be() -> None:
    with pytest.raises(InvalidInputError, match="by whom"):
        Aspects(liked=("casinos",), source="unread")
    with pytest.raises(InvalidInputError, match="something that is liked"):
        Aspects(source="parser")


@pytest.mark.parametrize("source", ["user", "model"])
def test_what_was_given_is_understood_in_any_language(source: Any) -> None:
    text = CASINOS["de"]
    stated = Preference(text=text, aspects=Aspects(avoided=("Hotels mit Casinos",), source=source))
    expanded = Preference(text=text, expansion=Expansion(follows=("a quiet inn",), breaks=("a casino",), source=source))
    asked = Preference(text=text, expansion=Expansion(questions=("Where should I stay?",), source=source))
    lent = Preference(text=text, expansion=Expansion(breaks=("a casino",), source="bundled"))

    assert aspects_of(stated).avoided == ("Hotels mit Casinos",) and language_not_read(stated) is None
    assert (aspects_of(expanded).liked, aspects_of(expanded).avoided) == (("a quiet inn",), ("a casino",))
    assert aspects_of(expanded).source == source and language_not_read(expanded) is None
    assert language_not_read(asked) == language_not_read(lent) == "de"


# warnings


def warned(report: BuildReport, preference: str, name: str) -> None:
    (warning,) = [one for one in report.warnings if repr(preference) in one]
    assert f" {name}," in warning and "ollama:qwen3:4b" in warning
    assert "epic-memory[multilingual]" in warning and "ollama/bge-m3" in warning


def test_making_and_opening_a_memory_warns(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, [CASINOS["de"], "I avoid casinos."]) as memory:
        assert len(memory.opening_report.warnings) == 1
        warned(memory.opening_report, CASINOS["de"], "German")
        warned(memory.preferences.add(CASINOS["it"]), CASINOS["it"], "Italian")
        warned(memory.preferences.replace(CASINOS["it"], CASINOS["fr"]), CASINOS["fr"], "French")
        warned(memory.preferences.set_aspects(CASINOS["fr"], None), CASINOS["fr"], "French")
        assert not memory.preferences.set_aspects(CASINOS["fr"], {"avoided": ["hotels with casinos"]}).warnings
        assert not memory.preferences.add("I love trains.").warnings
    for read_only in (True, False):
        with EpicMemory.open(path, settings=Settings(read_only=read_only)) as memory:
            assert len(memory.opening_report.warnings) == 1
            warned(memory.opening_report, CASINOS["de"], "German")
    stated = [Preference(text=CASINOS["de"], aspects=Aspects(avoided=("casinos",))), CASINOS["es"]]
    with EpicMemory.open(path, stated, sync=True) as memory:
        warned(memory.opening_report, CASINOS["es"], "Spanish")
    with EpicMemory.open(path) as memory:
        assert len(memory.opening_report.warnings) == 1


def test_of_an_encoder_that_may_know_the_language_only_the_parser_is_warned_of() -> None:
    (warning,) = EpicMemory([CASINOS["de"]], encoder=HashEncoder()).opening_report.warnings
    assert "ollama:qwen3:4b" in warning and "bge-m3" not in warning


# items


def test_items_in_a_language_that_the_encoder_does_not_know_are_counted() -> None:
    memory = EpicMemory(["I love quiet hotels."])
    foreign = [text for texts in (PREFERENCES["de"], PREFERENCES["pl"][:2]) for text in texts]
    report = memory.add([CASINO_HOTEL, *foreign])

    assert report.foreign == {"de": 6, "pl": 2}
    (line,) = [line for line in str(report).splitlines() if line.startswith("foreign")]
    assert "8 or more" in line and "(German 6, Polish 2)" in line and "bge-m3" in line
    assert memory.add([CASINO_HOTEL + " Ask for a room with a view."]).foreign == {}
    assert "foreign" not in str(BuildReport())


def test_which_languages_encoders_know() -> None:
    assert default_encoder().languages == {"en"}
    assert OllamaEncoder("all-minilm").languages == OllamaEncoder("all-minilm:l6-v2").languages == {"en"}
    assert OllamaEncoder("bge-m3").languages is None
    assert StaticEncoder(BUNDLED).languages is None
