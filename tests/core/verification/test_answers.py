"""What becomes of a model's answer about three chunks: a verdict where it states one that is whole, else Undecided."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest

from epic_memory.lm import Completion, Message, Token
from epic_memory.types import Candidate, Decision, Verdict
from scripted import Own, candidate, patient
from tables import table

CASINO, QUIET, VEGAN = "I avoid hotels with on-site casinos.", "I love quiet rooms.", "I follow a vegan diet."
OFFER, STEER = "Offer the garden rooms to the user.", "Steer clear of the casino floor at night."

# The first chunk is judged under the first two preferences, the second under all, the third under 1 and 3.
ASKED = [
    candidate("A hotel with a garden.", CASINO, QUIET),
    candidate("A law on taxes.", CASINO, QUIET, VEGAN),
    candidate("A casino floor.", CASINO, VEGAN),
]

Kept: TypeAlias = "dict[str, tuple[str, str]]"
GARDEN: Kept = {QUIET: ("supports", OFFER)}
FLOOR: Kept = {CASINO: ("conflicts", STEER)}
DISCARD: Kept = {}
WHOLE = {0: GARDEN, 1: DISCARD, 2: FLOOR}

_ONE = {
    "chunk": 1,
    "decision": "Keep",
    "preferences": [{"preference": 2, "stance": "supports", "instruction": OFFER}],
    "evidence": "a garden",
}
_TWO = {"chunk": 2, "decision": "Discard", "preferences": [], "evidence": ""}
_THREE = {
    "chunk": 3,
    "decision": "Keep",
    "preferences": [{"preference": 1, "stance": "conflicts", "instruction": STEER}],
    "evidence": "casino floor",
}
PLAIN = json.dumps({"answers": [_ONE, _TWO, _THREE]})


def answers(*several: Any) -> str:
    return json.dumps({"answers": list(several)})


def kept_by(candidates: Sequence[Candidate], verdicts: Sequence[Verdict]) -> dict[int, Kept]:
    """What verdicts keep by the place of the chunk; a place is missing where there is no decision."""
    made: dict[int, Kept] = {}
    for place, (one, verdict) in enumerate(zip(candidates, verdicts, strict=True)):
        text_of = {preference.id: preference.text for preference in one.preferences}
        if verdict.decision is not Decision.UNDECIDED:
            made[place] = {text_of[a.preference_id]: (str(a.stance), a.instruction) for a in verdict.alignments}
        assert bool(verdict.alignments) == (verdict.decision is Decision.KEEP)
    return made


def judged(answer: str, *, cut: bool = False, candidates: Sequence[Candidate] = ASKED) -> dict[int, Kept]:
    """What is kept after the same answer to whatever is asked."""
    lm = Own(lambda messages: Completion(text=answer, cut=cut))
    verdicts = list(patient(lm).verify(candidates))
    assert len(lm.sent) <= 2
    return kept_by(candidates, verdicts)


def after_one(answer: str, *, cut: bool = False) -> dict[int, Kept]:
    """What is kept of an answer if the model says nothing more."""
    first = iter([Completion(text=answer, cut=cut)])
    lm = Own(lambda messages: next(first, Completion(text="")))
    return kept_by(ASKED, list(patient(lm).verify(ASKED)))


def shown(kept: dict[int, Kept]) -> dict[str, dict[str, list[str]]]:
    return {str(place): {text: list(said) for text, said in found.items()} for place, found in kept.items()}


@pytest.mark.parametrize(("shape", "answer", "wanted"), table(__file__, "read"))
def test_an_answer_is_read_in_whatever_json_it_comes(shape: str, answer: str, wanted: dict[str, Any]) -> None:
    assert shown(judged(answer)) == wanted


@pytest.mark.parametrize(("shape", "answer", "wanted"), table(__file__, "unsure"))
def test_a_chunk_that_an_answer_does_not_settle_is_undecided_and_no_other(
    shape: str, answer: str, wanted: dict[str, Any]
) -> None:
    assert "2" not in wanted and shown(after_one(answer)) == wanted


ENDLESS = {
    "nested too deeply": '{"answers": ' + "[" * 100_000,
    "repetition": "the the " * 5000,
    "brackets": "{[" * 5000,
}


@pytest.mark.parametrize(("shape", "answer"), [*table(__file__, "unreadable"), *ENDLESS.items()], ids=lambda s: s[:40])
def test_an_answer_without_anything_reliable_decides_nothing(shape: str, answer: str) -> None:
    assert judged(answer) == {}


@pytest.mark.parametrize("part", ["['", "[{", "{a:[", '{"a":"x"y', "{a:,"])
def test_an_answer_of_broken_json_is_given_up_soon(part: str) -> None:
    started = time.process_time()
    assert judged((part * 4000)[:7900]) == {}
    assert time.process_time() - started < 4


# answers that end too early

SLOPPY = PLAIN.replace('"', "'")
NDJSON = "\n".join(map(json.dumps, (_ONE, _TWO, _THREE)))


@pytest.mark.parametrize(
    ("text", "cut"),
    [(PLAIN, False), (PLAIN, True), (SLOPPY, True), (NDJSON, True), (f"```json\n{PLAIN}\n```", False)],
    ids=["said to be whole", "said to be cut", "sloppy", "lines", "fence"],
)
def test_wherever_an_answer_ends_a_chunk_is_worth_everything_or_nothing(text: str, cut: bool) -> None:
    most = 0
    for end in range(len(text)):
        found = after_one(text[:end], cut=cut)
        assert found.items() <= WHOLE.items(), text[:end]
        most = max(most, len(found))
    assert most >= 2


@pytest.mark.parametrize("after", ["Wait, that is not right: the first", "<think>No,"])
def test_what_stands_before_words_that_were_cut_is_a_draft(after: str) -> None:
    assert after_one(f"{PLAIN}\n\n{after}", cut=True) == {}
    assert after_one(PLAIN, cut=True) == WHOLE


# confidence


def split(text: str) -> tuple[Token, ...]:
    """Tokens of a text; each decision consists of two that have half of its log-probability."""
    halves = iter((-0.1, -0.1, -0.2, -0.2, -0.3, -0.3))
    pieces = text.replace("Keep", "\0Ke\0ep\0").replace("Discard", "\0Dis\0card\0").split("\0")
    return tuple(Token(piece, next(halves) if piece in ("Ke", "ep", "Dis", "card") else -3.0) for piece in pieces)


@pytest.mark.parametrize("thought", ["", "<think>Keep them? Discard?</think>\n"])
@pytest.mark.parametrize("text", [PLAIN, SLOPPY], ids=["json", "sloppy"])
def test_confidence_is_the_probability_of_each_decision(thought: str, text: str) -> None:
    tokens = (*([Token(thought, -9.0)] if thought else []), *split(text))
    lm = Own(lambda messages: Completion(text=thought + text, tokens=tokens))
    confidences = [verdict.confidence for verdict in patient(lm).verify(ASKED)]
    assert confidences == pytest.approx([math.exp(-0.2), math.exp(-0.4), math.exp(-0.6)])


@pytest.mark.parametrize("tokens", [None, (), (Token("something else", -0.1),), (Token(PLAIN, math.nan),)])
def test_confidence_is_unknown_without_tokens_that_fit(tokens: tuple[Token, ...] | None) -> None:
    lm = Own(lambda messages: Completion(text=PLAIN, tokens=tokens))
    assert [verdict.confidence for verdict in patient(lm).verify(ASKED)] == [None] * 3


# one question back


def replying(*replies: str | Completion) -> Own:
    left = list(replies)

    def answer(messages: Sequence[Message]) -> str | Completion:
        return left.pop(0)

    return Own(answer)


def test_what_cannot_be_read_is_asked_for_once_more_with_the_reason() -> None:
    lm = replying("Keep the first.", PLAIN)
    assert kept_by(ASKED, list(patient(lm).verify(ASKED))) == WHOLE
    first, second = lm.sent
    assert second.messages[:2] == first.messages
    assert (second.schema, second.max_tokens) == (first.schema, first.max_tokens)
    assert second.messages[2] == Message("assistant", "Keep the first.")
    assert "it decides nothing" in second.messages[3].content


def test_only_what_an_answer_leaves_out_is_asked_about_again() -> None:
    lm = replying(answers(_ONE, _TWO), answers(_THREE | {"chunk": 1}))
    verdicts = list(patient(lm).verify(ASKED))
    assert kept_by(ASKED, verdicts) == WHOLE
    assert [(one.usage.calls, one.usage.retries) for one in verdicts if one.usage] == [(2, 1)]
    again = lm.sent[1].messages
    assert len(again) == 2 and "A casino floor." in again[1].content and "garden" not in again[1].content


def test_an_answer_that_was_cut_is_asked_for_with_more_room() -> None:
    for text, left in ((PLAIN[:20], 3), (answers(_ONE, _TWO, _THREE)[:-50], 1)):
        lm = replying(Completion(text=text, cut=True), PLAIN if left == 3 else answers(_THREE | {"chunk": 1}))
        assert kept_by(ASKED, list(patient(lm).verify(ASKED))) == WHOLE
        first, second = lm.sent
        assert len(second.messages) == 2
        assert (second.max_tokens or 0) > (first.max_tokens or 0) * left / 3


def test_without_more_room_a_cut_answer_is_asked_back() -> None:
    lm = Own(lambda messages: Completion(text="x" * 30, cut=True), context=2000)
    (verdict,) = patient(lm, max_tokens=900).verify(ASKED[:1])
    assert verdict.decision is Decision.UNDECIDED and "cut off" in verdict.rationale
    assert [(len(sent.messages), sent.max_tokens) for sent in lm.sent] == [(2, 900), (4, 900)]
