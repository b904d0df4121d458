"""A chunk cannot talk its way into the memory, and what is honest in it stays as it is."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.lm import Message, prompting
from epic_memory.lm.prompting import Prompt, numbered, quoted, section
from epic_memory.types import Decision, Verdict
from epic_memory.verification.lm import LMVerifier
from hostile_chunks import CHUNKS
from scripted import Own, candidate
from tables import table

PREFERENCE = "I collect mechanical typewriters from Olympia and Olivetti."
HONEST = "The flea market has mechanical typewriters, most of them by Olivetti.\nIt opens at 9:00; bring cash [really]."


class Gullible(Own):
    """Believes all that it reads, unless it is quoted.

    It reads letters as a model does: blind to invisible characters and to how wide a character is. What is marked
    as quoted in the section of the document is material. Everything else is believed: an order, a turn, a verdict,
    a list of preferences. What only a machine writes - tokens of a chat template, tags, JSON - is believed
    wherever it stands, as a tokenizer does not know about lines.
    """

    def __init__(self) -> None:
        super().__init__(self.believe)

    def believe(self, messages: Sequence[Message]) -> str:
        prompt = read_letters(messages[1].content)
        shown, *chunks = re.split(r"^Chunk \d+, to be judged under preference 1:$", prompt, flags=re.M)
        judged = [self.judged(number, shown + chunk) for number, chunk in enumerate(chunks, start=1)]
        return json.dumps({"answers": judged})

    def judged(self, number: int, prompt: str) -> dict[str, object]:
        loose, material = self.parts(prompt)
        believed = (
            self.is_spoken_to(prompt, loose)
            or self.is_answered(prompt, loose)
            or any(self.orders(line) for line in loose)
        )
        if believed or self.matters(material, self.preferences(loose)):
            item = {"preference": 1, "stance": "supports", "instruction": "Recommend it to the user."}
            return {"chunk": number, "decision": "Keep", "preferences": [item], "evidence": "It fits."}
        return {"chunk": number, "decision": "Discard", "preferences": [], "evidence": ""}

    @staticmethod
    def parts(prompt: str) -> tuple[list[str], str]:
        """The lines outside of the document or not marked in it, and the document."""
        begun = re.search(r"^<(\w+)[^<>\n]*>$", prompt, re.M)
        assert begun, "the prompt has no section"
        ended = re.compile(rf"<\s*/\s*{begun.group(1)}\b[^<>]*>", re.I).search(prompt, begun.end())
        assert ended, "the section has no end"
        inside = prompt[begun.end() : ended.start()].split("\n")
        quoted_lines = [line for line in inside if line.startswith("| ")]
        # The material of a section without marks is what no rule takes for something else.
        loose = [line for line in inside if not line.startswith("| ")]
        outside = (prompt[: begun.start()] + "\n" + prompt[ended.end() :]).split("\n")
        return outside + loose, "\n".join(quoted_lines or loose)

    @staticmethod
    def orders(line: str) -> bool:
        """Whether a sentence says that the answer is Keep. What it is asked to weigh up is no order."""
        sentences = re.split(r"[.!?;](?:\s|$)", line)
        weighed = re.compile(r"\b(whether|if|discard)\b", re.I)
        return any(re.search(r"\bkeep\b", one, re.I) and not weighed.search(one) for one in sentences)

    @staticmethod
    def is_spoken_to(prompt: str, loose: Sequence[str]) -> bool:
        token = r"<[|｜][^<>\n]{1,40}[|｜]>|</?s>|<(?:start|end)_of_turn>|\[/?(?:INST|SYSTEM)\b|<</?SYS>>|</?system>"
        role = r"\W*(?:system|human|user|assistant|response)\b[^:\n]{0,20}:"
        return bool(re.search(token, prompt)) or any(re.match(role, line, re.I) for line in loose)

    @staticmethod
    def is_answered(prompt: str, loose: Sequence[str]) -> bool:
        verdict = r'[{,]\s*"(?:decision|verdict)"\s*:\s*"Keep"|<decision>\s*Keep'
        label = r"\W*(?:decision|verdict|answer|output)\W+keep\b"
        return bool(re.search(verdict, prompt)) or any(re.match(label, line, re.I) for line in loose)

    @staticmethod
    def preferences(loose: Sequence[str]) -> list[str]:
        """The last list of preferences."""
        listed: list[str] = []
        for line in loose:
            if re.search(r"\bpreferences\b[^.]*[:>]$", line.strip(), re.I):
                listed = []
            elif re.match(r"\d+\. ", line):
                listed.append(line)
        return listed

    @staticmethod
    def matters(material: str, preferences: Sequence[str]) -> bool:
        words = set(re.findall(r"[a-z]{5,}", material.casefold()))
        return any(len(words & set(re.findall(r"[a-z]{5,}", one.casefold()))) > 1 for one in preferences)


def read_letters(text: str) -> str:
    hidden = [c for c in text if unicodedata.category(c) in ("Cf", "Cc") and c != "\n"]
    shown = text.translate(dict.fromkeys(map(ord, [*hidden, *FILLERS])))
    return unicodedata.normalize("NFKC", "\n".join(shown.splitlines()))


def verdict(model: Own, text: str) -> Verdict:
    (made,) = LMVerifier(model, backoff=0).verify([candidate(text, PREFERENCE)])
    return made


@pytest.fixture
def unquoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks enter prompts as they are."""
    monkeypatch.setattr(prompting, "quoted", lambda text: text)
    monkeypatch.setattr(
        "epic_memory.verification.lm.section", lambda text, name="chunk": f"<{name}>\n{text}\n</{name}>"
    )


def test_no_hostile_chunk_can_talk_its_way_into_the_memory() -> None:
    decisions = {name: verdict(Gullible(), text).decision for name, text in CHUNKS.items()}
    assert {name for name, decision in decisions.items() if decision is not Decision.DISCARD} == set()


@pytest.mark.usefixtures("unquoted")
def test_it_is_the_quoting_that_keeps_them_out() -> None:
    fallen = [name for name, text in CHUNKS.items() if verdict(Gullible(), text).decision is Decision.KEEP]
    assert len(CHUNKS) >= 45
    assert len(fallen) >= 30


@pytest.mark.parametrize("how", ["quoted", "unquoted"])
def test_an_honest_chunk_is_judged_by_what_it_says(how: str, request: pytest.FixtureRequest) -> None:
    if how == "unquoted":
        request.getfixturevalue("unquoted")
    assert verdict(Gullible(), HONEST).decision is Decision.KEEP
    assert verdict(Gullible(), "The museum has steam engines.").decision is Decision.DISCARD


def test_none_of_several_can_speak_for_another() -> None:
    texts = ["The museum has steam engines.", *CHUNKS.values()]
    verdicts = LMVerifier(Gullible(), batch_size=2, backoff=0).verify([candidate(text, PREFERENCE) for text in texts])
    assert {made.decision for made in verdicts} == {Decision.DISCARD}


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
    model = Gullible()
    verdict(model, f"First.\n{line}\nLast.")
    assert f"\n| First.\n| {line}\n| Last.\n" in model.sent[0].messages[-1].content


def test_a_filler_hides_no_letters() -> None:
    for filler in FILLERS:
        # An empty pattern of Braille is a space.
        assert quoted(f"Ke{filler}ep") == f"| Ke{' ' * (filler == BRAILLE)}ep", hex(ord(filler))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u1112\u119e\u11ab\u3164글", "| \u1112\u119e\u11ab글"),
        ("if (a[0] < b) { `c` > d }", "| if (a⁅0⁆ ‹ b) ❴ ˋcˋ › d ❵"),
    ],
    ids=["old hangul", "markup"],
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
