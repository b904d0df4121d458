"""What passages are about, found without a language model: keys, names, noun phrases, facts."""

from __future__ import annotations

import asyncio
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_graph.extraction import Extraction, Extractor, PhraseExtractor, entity_key
from epic_memory.errors import InvalidInputError
from labelled_entities import ENGLISH, OTHERS, measure
from tables import table

EXTRACTOR = PhraseExtractor()


def keys(text: str) -> set[str]:
    return {entity_key(name) for name in EXTRACTOR.names(text)}


# keys


@pytest.mark.parametrize(("one", "other"), table(__file__, "spellings_of_one_entity_share_a_key"))
def test_spellings_of_one_entity_share_a_key(one: str, other: str) -> None:
    assert entity_key(one) == entity_key(other) != ""


@pytest.mark.parametrize(("one", "other"), table(__file__, "other_entities_have_other_keys"))
def test_other_entities_have_other_keys(one: str, other: str) -> None:
    assert entity_key(one) != entity_key(other)


@given(st.text(max_size=30))
def test_a_name_with_a_letter_or_digit_has_a_key(name: str) -> None:
    # Modifier letters that are nothing but a mark of their own fold away with the marks.
    if any(unicodedata.category(sign) in ("Lu", "Ll", "Lo", "Nd") for sign in name):
        assert entity_key(name)


@given(st.text(max_size=30))
def test_a_key_does_not_depend_on_case_space_or_composition(name: str) -> None:
    for other in (f"  {name}\n", unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)):
        assert entity_key(other) == entity_key(name)
    if name.isascii():
        assert entity_key(name.upper()) == entity_key(name)


# phrases


def test_the_labelled_texts_are_read_as_labelled() -> None:
    for records, precision, recall in ((ENGLISH, 0.95, 0.94), (OTHERS, 0.93, 0.93)):
        measured = measure(EXTRACTOR, records)
        assert measured.precision >= precision, measured.wrong
        assert measured.recall >= recall, measured.wrong
        assert not measured.unwanted


@pytest.mark.parametrize(("text", "wanted"), table(__file__, "what_texts_name"))
def test_what_texts_name(text: str, wanted: dict[str, list[Any]]) -> None:
    names, facts = EXTRACTOR.names(text), EXTRACTOR.extract(text).facts
    assert keys(text) and keys(text) >= set(wanted.get("keys", ()))
    assert list(names) == wanted.get("names", list(names))
    assert set(wanted.get("has", ())) <= set(names) and not set(wanted.get("lacks", ())) & set(names)
    for key, found in (
        ("facts", [[fact.subject, fact.relation, fact.object] for fact in facts]),
        ("relations", [fact.relation for fact in facts]),
        ("pairs", [[fact.subject, fact.object] for fact in facts]),
    ):
        assert key not in wanted or found == wanted[key]


@pytest.mark.parametrize("text", ["", " ", "\n\n", "?!", "\U0001f389\U0001f389", "\x00", "\ud800", "the of and", "a"])
def test_a_text_may_name_nothing(text: str) -> None:
    assert EXTRACTOR.extract(text) == Extraction()
    with pytest.raises(InvalidInputError, match="must be a string, not a int"):
        EXTRACTOR.names(3)  # type: ignore[arg-type]


# invariants

SIGNS = "aA \u00e9\u4eac\u30a2\u306e\u0e01\u0939\u093f\uac00\u0627.,!?'\"\u201c\u201d-\n0129#+\u200d\u0301"
WORDS = [
    *("the", "of", "Sallow", "Green", "team", "'s", ",", ".", "walks", "boats", "wait", "new", "1984", "9", "to", "be")
]
WORDS += ["\u201c", "\u201d", "and", "St.", "dog's", "I"]
ANY = st.one_of(
    st.text(max_size=200),
    st.text(alphabet=SIGNS, max_size=120),
    st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join),
)


@given(ANY)
def test_what_is_found_stands_in_the_text_each_once(text: str) -> None:
    extraction = EXTRACTOR.extract(text)
    found = [entity_key(name) for name in extraction.entities]
    assert all(found)
    assert len(set(found)) == len(found)
    plain = " ".join(text.split())
    assert all(" ".join(name.split()) in plain for name in extraction.entities)
    for fact in extraction.facts:
        assert {fact.subject, fact.object} <= set(extraction.entities)
        assert entity_key(fact.subject) != entity_key(fact.object)
    assert len(extraction.facts) <= 2 * max(1, len(plain))
    assert EXTRACTOR.extract(text) == extraction


LONG = {
    "words": "a ", "word": "a", "hyphens": "a-", "initials": "A.", "quotes": '"', "open": "\u201ca", "han": "\u4eac",
    "thai": "\u0e40\u0e01", "korean": "\uc774\uac00 ", "joined": "Aa of ", "lines": "\n ", "marks": "a\u0301",
    "owners": "Dog's ", "lower owners": "dog's ", "numbers": "1.", "links": "http:", "joiners": "\u200d",
}  # fmt: skip


@pytest.mark.parametrize("piece", LONG.values(), ids=LONG)
def test_a_long_text_is_read_to_its_end(piece: str) -> None:
    # What grows with the square of the length would not come back.
    names = EXTRACTOR.names(piece * 10_000 + "\n\nIdris Pell")
    assert "Idris Pell" in names


def test_the_entities_of_a_long_text_are_bounded() -> None:
    extraction = EXTRACTOR.extract(" ".join(f"The lamp of Oslo{place} hums." for place in range(3000)))
    assert len(extraction.entities) == 500 and len(extraction.facts) <= 1000


# both ways of reading


async def test_sync_and_async_find_the_same_in_order() -> None:
    texts = [record.text for record in ENGLISH + OTHERS] * 2
    found = list(EXTRACTOR.stream(texts))
    assert [place for place, _ in found] == list(range(len(texts)))
    assert [one async for one in EXTRACTOR.astream(texts)] == found
    assert isinstance(EXTRACTOR, Extractor)


async def test_the_event_loop_turns_while_a_long_text_is_read() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    turning = asyncio.create_task(turn())
    async for _ in EXTRACTOR.astream(["the tractor of Idris Pell " * 8_000]):
        pass
    turning.cancel()
    assert turns > 3
