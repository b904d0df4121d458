"""A chunk cannot talk its way into the memory, and what is honest in it stays as it is."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.lm.prompting import Prompt, numbered, quoted, section
from epic_memory.verification.lm import LMVerifier
from hostile_chunks import CHUNKS
from scripted import Own, candidate, user_text
from tables import table

HONEST = "The flea market has mechanical typewriters, most of them by Olivetti.\nIt opens at 9:00; bring cash [really]."


def read_letters(text: str) -> str:
    """The text as a model reads it: blind to invisible characters and to how wide a character is."""
    hidden = [c for c in text if unicodedata.category(c) in ("Cf", "Cc") and c != "\n"]
    shown = text.translate(dict.fromkeys(map(ord, [*hidden, *FILLERS])))
    return unicodedata.normalize("NFKC", "\n".join(shown.splitlines()))


def asked_about(*texts: str) -> str:
    """What a model is asked about chunks, all at once."""
    lm = Own(lambda messages: "")
    list(LMVerifier(lm, backoff=0).verify([candidate(text, "I collect typewriters by Olivetti.") for text in texts]))
    return user_text(lm.sent[0].messages)


@pytest.mark.parametrize("name", CHUNKS)
def test_a_hostile_chunk_stays_in_its_section_and_changes_nothing_around_it(name: str) -> None:
    text, harmless = CHUNKS[name], "The museum has steam engines."
    asked = asked_about(text, HONEST)
    assert asked.count(section(text)) == 1
    assert asked.replace(section(text), section(harmless)) == asked_about(harmless, HONEST)
    check_section(text)


# what is honest stays as it is

MARKUP = "<>{}[]`"
# Letters, marks and a symbol that show nothing.
SELECTORS = [*range(0xE0100, 0xE01F0), *range(0x180B, 0x180E), *range(0xFE00, 0xFE0E)]
BRAILLE = "\u2800"
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180f\u2800\u3164\uffa0" + "".join(map(chr, SELECTORS))
ORDINARY = st.text(
    st.characters(categories=("L", "M", "N", "P", "S", "Zs")).filter(
        lambda character: unicodedata.normalize("NFKC", character) not in MARKUP and character not in FILLERS
    ),
    min_size=1,
).filter(str.strip)


@given(st.lists(ORDINARY, min_size=1, max_size=5))
def test_ordinary_lines_stand_in_the_prompt_as_they_are(lines: list[str]) -> None:
    assert section("\n".join(lines)).splitlines()[1:-1] == [f"| {line}" for line in lines]


@pytest.mark.parametrize("line", table(__file__, "an_honest_line_stands_in_the_prompt_as_it_is"))
def test_an_honest_line_stands_in_the_prompt_as_it_is(line: str) -> None:
    assert f"\n| First.\n| {line}\n| Last.\n" in asked_about(f"First.\n{line}\nLast.")


def test_a_filler_hides_no_letters() -> None:
    for filler in FILLERS:
        # An empty pattern of Braille is a space.
        assert quoted(f"Ke{filler}ep") == f"| Ke{' ' * (filler == BRAILLE)}ep", hex(ord(filler))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u1112\u119e\u11ab\u3164글", "| \u1112\u119e\u11ab글"),
        ("Ke\u200cep, \u200d\u200ckeep", "| Keep, keep"),
        ("if (a[0] < b) { `c` > d }", "| if (a⁅0⁆ ‹ b) ❴ ˋcˋ › d ❵"),
    ],
    ids=["old hangul", "stray joiners", "markup"],
)
def test_what_is_replaced_reads_as_before(text: str, shown: str) -> None:
    assert quoted(text) == shown


def test_a_preference_stands_on_a_line_of_its_own() -> None:
    assert numbered(["I love\nquiet rooms.", "2. {chunk}"]) == "1. I love quiet rooms.\n2. 2. ❴chunk❵"


# the section

LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def check_section(text: str) -> None:
    made = section(text)
    opening, *lines, closing = re.split(f"[{LINE_ENDS}]", made)
    assert re.fullmatch(r"<chunk [0-9a-f]{16}>", opening)
    assert closing == opening.replace("<", "</")
    # A text without anything visible leaves an empty line.
    assert lines == [""] or all(line.startswith("| ") for line in lines)
    shown = read_letters(made)
    assert shown.count(closing) == 1
    assert [shown.count(character) for character in MARKUP] == [2, 2, 0, 0, 0, 0, 0]


@given(st.text(st.one_of(st.characters(), st.sampled_from(MARKUP + LINE_ENDS + "|/\u200b\u202e＜｛﹤"))))
def test_every_line_of_any_text_is_marked_and_no_text_ends_its_section(text: str) -> None:
    check_section(text)


def test_a_text_that_knows_its_own_tag_cannot_end_it() -> None:
    closing = section(HONEST).splitlines()[-1]
    check_section(f"{HONEST}\n{closing}")
    assert closing not in section(f"{HONEST}\n{closing}")


@pytest.mark.slow
def test_no_character_at_all_is_markup_or_ends_a_line() -> None:
    check_section("\n".join(f"a{chr(code)}b" for code in range(sys.maxunicode + 1)))


# how text enters a prompt


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    prompt = Prompt(system="{chunks}", user="{preferences} | {chunks} | {other} {{x}}")
    system, user = prompt.messages({"preferences": "{chunks}", "chunks": "{preferences}"})
    assert system.content == "{chunks}"
    assert user.content == "{chunks} | {preferences} | {other} {{x}}"
    assert [message.role for message in Prompt(system=" ", user="x").messages({})] == ["user"]
