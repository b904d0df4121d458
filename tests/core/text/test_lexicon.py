"""The lexicon: its file, how phrases find their concepts, and words of which one says the opposite of the other."""

from __future__ import annotations

import bz2
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from epic_memory.text.lexicon import Concept, Lexicon, default_lexicon, opposites
from epic_memory.text.stems import stems

LINES = bz2.decompress((files("epic_memory") / "data" / "lexicon.tsv.bz2").read_bytes()).decode().splitlines()
ROWS = [[column.split(";") for column in line.split("\t")] for line in LINES]


def test_it_ships_as_it_was_written() -> None:
    written = Path(__file__).resolve().parents[3] / "shared" / "tools" / "written" / "lexicon.tsv"
    assert written.read_text(encoding="utf-8").splitlines() == LINES


def test_every_line_has_names_with_words_of_its_own_and_something_to_say_of_them() -> None:
    assert len(LINES) > 1000
    counts = Counter(name.lower() for names, *_ in ROWS for name in names)
    for line, row in zip(LINES, ROWS, strict=True):
        names, kinds, instead = row
        assert names != [""] and (kinds != [""] or instead != [""]), line
        for column in row:
            assert column == [""] or all(part and part == " ".join(part.split()) for part in column), line
        # No word is for and against a name, and none is taken instead of itself.
        assert set(kinds).isdisjoint(set(instead) - {""}) and set(names).isdisjoint(instead), line
        assert all(stems(name) and counts[name.lower()] == 1 for name in names), line


def test_every_name_finds_its_own_line() -> None:
    lexicon = default_lexicon()
    lost = [
        name
        for names, _, _ in ROWS
        for name in names
        if [found.names for found in lexicon.concepts(name)] != [tuple(names)]
    ]
    assert lost == []


WINE, RED_WINE, CAR = (Concept((name,), ("k",), ()) for name in ("wine", "red wine", "cars"))


@pytest.mark.parametrize("order", [(WINE, RED_WINE, CAR), (CAR, RED_WINE, WINE)])
def test_the_longest_name_counts_and_no_word_belongs_to_two(order: tuple[Concept, ...]) -> None:
    lexicon = Lexicon(order)
    assert lexicon.concepts("red wine") == [RED_WINE]
    assert lexicon.concepts("Car, wine; red wines") == [CAR, WINE, RED_WINE]
    assert lexicon.concepts("red cars") == [CAR]
    assert lexicon.concepts("red") == lexicon.concepts("") == lexicon.concepts("🙂") == []


@pytest.mark.parametrize("phrase", ["meat-free meals", "non-meat meals", "no meat", "meals without meat"])
def test_what_a_phrase_denies_is_found_turned_around(phrase: str) -> None:
    meat = Concept(("meat",), ("beef",), ("tofu",))
    assert Lexicon([meat]).concepts(phrase) == [Concept(("meat",), ("tofu",), ("beef",))]
    assert Lexicon([meat]).concepts("meat for free") == [meat]


def test_opposites_turn_the_first_word_of_degree_of_each_phrase() -> None:
    phrases = ["high noise", "Low noise", "a loud and crowded bar", "noise", "", "hot soup", "long walks"]
    turned = ["low noise", "high noise", "a quiet and crowded bar", "cold soup", "short walks"]
    assert opposites(phrases) == turned
