"""What passages are about, found without a language model: keys, names, noun phrases, facts."""

from __future__ import annotations

import asyncio
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_graph.extraction import Extraction, Extractor, Fact, PhraseExtractor, entity_key
from epic_memory.errors import InvalidInputError
from labelled_entities import ENGLISH, OTHERS, measure

EXTRACTOR = PhraseExtractor()


def keys(text: str) -> set[str]:
    return {entity_key(name) for name in EXTRACTOR.names(text)}


# keys


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Sallow Greens'", "sallow green"),
        ("Idris Pell\u2019s", "IDRIS PELL"),
        ("dry-stone walls", "dry stone wall"),
        ("berries", "berry"),
        ("benches", "bench"),
        ("caches", "cache"),
        ("knives", "knife"),
        ("women", "woman"),
        ("movies", "movie"),
        ("U.S.A.", "USA"),
        ("J.R.R. Tolkien", "JRR Tolkien"),
        ("Marks & Spencer", "Marks and Spencer"),
        ("Zo\u00eb M\u00fcller", "Zoe Muller"),
        ("Zoe\u0308", "Zo\u00eb"),
        ("STRASSE", "Stra\u00dfe"),
        ("\uff34\uff4f\uff4b\uff59\uff4f", "Tokyo"),
        ("l'Op\u00e9ra", "Op\u00e9ra"),
        ("\u0391\u0398\u0397\u039d\u0391", "\u0391\u03b8\u03ae\u03bd\u03b1"),
        ("\u043c\u0451\u0434", "\u043c\u0435\u0434"),
        ("\u0627\u0644\u0643\u062a\u0627\u0628", "\u0643\u062a\u0627\u0628"),
        ("\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
        ("\ud559\uad50\uc5d0\uc11c\ub294", "\ud559\uad50"),
        ("\uace0\uc591\uc774\uac00", "\uace0\uc591\uc774"),
    ],
)
def test_spellings_of_one_entity_share_a_key(one: str, other: str) -> None:
    assert entity_key(one) == entity_key(other) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C", "C++"),
        ("C", "C#"),
        ("Williams", "William"),
        ("Julie", "July"),
        ("Paris", "Pari"),
        ("news", "new"),
        ("glass", "glas"),
        ("1980s", "1980"),
        ("Lothair I", "Lothair II"),
        ("\u0439", "\u0438"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u0928\u0926"),
        ("\u30d0", "\u30cf"),
    ],
)
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


def test_a_name_in_a_longer_phrase_is_an_entity_too() -> None:
    assert EXTRACTOR.names("the Sallow Green team") == ("Sallow Green team", "Sallow Green")
    assert keys("the dry-stone wall") >= {"dry stone wall", "wall"}
    assert keys("Mrs Dunmore sang.") >= {"mrs dunmore", "dunmore"}
    assert keys("He met Hugh, Duke of Lucca.") >= {"hugh", "duke of lucca", "lucca"}


def test_queries_link_to_passages_whatever_their_case() -> None:
    passage = keys("Under-14s of Hob Wood beat the Sallow Green team for the valley cup.")
    assert {"sallow green", "valley cup"} <= passage & keys("who lost the valley cup, sallow green?")


def test_the_beginning_of_a_sentence_is_no_name() -> None:
    names = EXTRACTOR.names("However, Idris Pell slept. Then it rained. Fold the napkin. Last week Bea Coombes sang.")
    assert names == ("Idris Pell", "napkin", "Bea Coombes")


def test_abbreviations_and_initials_end_no_sentence() -> None:
    assert keys("Mr. Lacey met J. K. Rowling at St. Maurice's Abbey in the U.S. in May.") >= {
        "mr lacey", "lacey", "j k rowling", "st maurice abbey", "us",
    }  # fmt: skip


def test_titles_in_quotation_marks_are_whole_but_speech_is_not() -> None:
    assert "A Ladder for Owls" in EXTRACTOR.names('She read "A Ladder for Owls" again.')
    assert "Der lange Weg" in EXTRACTOR.names("Er las „Der lange Weg“ noch einmal.")
    assert "Come in, Bea" not in EXTRACTOR.names('"Come in, Bea," said Idris.')


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\u6211\u559c\u6b22\u5728\u5317\u4eac\u5927\u5b66\u8bfb\u4e66", {"\u5317\u4eac", "\u5927\u5b66"}),
        ("\u90fd\u5e02\u306f\u4eac\u90fd\u5927\u5b66\u306e\u8fd1\u304f", {"\u4eac\u90fd\u5927\u5b66"}),
        ("\u30ec\u30aa\u30ca\u30eb\u30c9\u306e\u7d75", {"\u30ec\u30aa\u30ca\u30eb\u30c9", "\u7d75"}),
        ("\u0e01\u0e23\u0e38\u0e07\u0e40\u0e17\u0e1e", set()),
        ("\u0928\u092e\u0938\u094d\u0924\u0947 \u091c\u092f\u092a\u0941\u0930", {"\u091c\u092f\u092a\u0941\u0930"}),
        ("\u10d7\u10d1\u10d8\u10da\u10d8\u10e1\u10d8", {"\u10d7\u10d1\u10d8\u10da\u10d8\u10e1\u10d8"}),
        ("Helsinki", {"helsinki"}),
    ],
    ids=["chinese", "japanese", "katakana", "thai", "hindi", "georgian", "finnish"],
)
def test_entities_of_no_script_vanish(text: str, wanted: set[str]) -> None:
    found = keys(text)
    assert found
    assert wanted <= found


@pytest.mark.parametrize("text", ["", " ", "\n\n", "?!", "\U0001f389\U0001f389", "\x00", "\ud800", "the of and", "a"])
def test_a_text_may_name_nothing(text: str) -> None:
    assert EXTRACTOR.extract(text) == Extraction()


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="must be a string, not a int"):
        EXTRACTOR.names(3)  # type: ignore[arg-type]


# facts


def test_facts_join_what_a_sentence_names_side_by_side() -> None:
    extraction = EXTRACTOR.extract("Idris Pell lives near the mill. The mill belongs to Tomasz Wren.")
    assert extraction.facts == (
        Fact("Idris Pell", "lives near the", "mill"),
        Fact("mill", "belongs to", "Tomasz Wren"),
    )


def test_names_of_a_sentence_are_joined_over_what_is_between_them() -> None:
    pairs = {(fact.subject, fact.object) for fact in EXTRACTOR.extract("Idris Pell gave a cake to Tomasz Wren.").facts}
    assert pairs == {("Idris Pell", "cake"), ("cake", "Tomasz Wren"), ("Idris Pell", "Tomasz Wren")}


def test_a_mark_between_two_entities_is_no_relation() -> None:
    (fact,) = EXTRACTOR.extract("bread, butter").facts
    assert fact.relation == ""


# invariants

SIGNS = "aA \u00e9\u4eac\u30a2\u306e\u0e01\u0939\u093f\uac00\u0627.,!?'\"\u201c\u201d-\n0129#+\u200d\u0301"
WORDS = [
    "the",
    "of",
    "Sallow",
    "Green",
    "team",
    "'s",
    ",",
    ".",
    "walks",
    "boats",
    "wait",
    "new",
    "1984",
    "9",
    "to",
    "be",
]
ANY = st.one_of(
    st.text(max_size=200),
    st.text(alphabet=SIGNS, max_size=120),
    st.lists(st.sampled_from([*WORDS, "\u201c", "\u201d", "and", "St.", "dog's", "I"]), max_size=40).map(" ".join),
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
    text = " ".join(f"The lamp of Oslo{place} hums." for place in range(3000))
    extraction = EXTRACTOR.extract(text)
    assert len(extraction.entities) == 500
    assert len(extraction.facts) <= 1000


# both ways of reading


def test_sync_and_async_find_the_same_in_order() -> None:
    texts = [record.text for record in ENGLISH + OTHERS] * 2

    async def read() -> list[tuple[int, object]]:
        return [one async for one in EXTRACTOR.astream(texts)]

    found = list(EXTRACTOR.stream(texts))
    assert [place for place, _ in found] == list(range(len(texts)))
    assert asyncio.run(read()) == found
    assert isinstance(EXTRACTOR, Extractor)


def test_the_event_loop_turns_while_a_long_text_is_read() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    async def read() -> None:
        turning = asyncio.create_task(turn())
        async for _ in EXTRACTOR.astream(["the tractor of Idris Pell " * 8_000]):
            pass
        turning.cancel()

    asyncio.run(read())
    assert turns > 3
