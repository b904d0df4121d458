"""Answers that end too early, wherever that is and whatever the server says: what is cut is Undecided."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from answer_shapes import (
    ALONE,
    BATCH,
    BATCH_ASKED,
    DECIDE,
    INSTRUCTION,
    ONE_PREFERENCE,
    PREFERENCES,
    REWRITE,
    SINGLE,
    UNREADABLE,
)
from epic_core.lm import Completion
from epic_core.lm.answers import UnreadableAnswer, without_drafts
from epic_core.preferences.lm_reader import AspectReader, read_answer
from epic_core.types import Decision, Verdict
from epic_core.verification.answers import read_batch, read_decision, read_instruction, read_rewrite
from epic_core.verification.base import Rewriting
from scripted import BOTH, TRAIN, WINE, Own, Scripted, candidate, in_each_form, memory_of, patient

CASINO = "I avoid hotels with on-site casinos."
QUIET = "I love quiet rooms."
CUT_IN_RATIONALE = '{"decision": "Keep", "rationale": "A hotel with a casi'
# Their beginnings are complete answers by themselves.
SEVERAL_ANSWERS = {"an object for each preference", "thinking inside thinking", "one said twice, differing"}


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.slow)])
def ends(request: pytest.FixtureRequest) -> Callable[[str], Iterator[int]]:
    """Where texts are cut: at a dozen places and near the end, and everywhere where time does not matter."""

    def places(text: str) -> Iterator[int]:
        step = max(1, len(text) // (12 if request.param == "some" else 1000))
        yield from sorted({*range(0, len(text), step), *range(max(0, len(text) - 4), len(text))})

    return places


def read(reader: Callable[..., Any], text: str, *given: Any, **options: Any) -> Any:
    try:
        answer = reader(text, *given, **options)
    except UnreadableAnswer:
        return UNREADABLE
    if reader is read_decision:
        return answer.decision, answer.relevant
    return answer


@pytest.mark.parametrize(
    ("shapes", "reader", "given", "options"),
    [
        (SINGLE, read_decision, [PREFERENCES], {"instructions": True}),
        (DECIDE, read_decision, [PREFERENCES], {"instructions": False}),
        (ALONE, read_decision, [ONE_PREFERENCE], {"instructions": False}),
        (INSTRUCTION, read_instruction, [], {}),
        (REWRITE, read_rewrite, [], {}),
    ],
    ids=["single", "decide", "alone", "instruction", "rewrite"],
)
def test_an_answer_that_is_cut_anywhere_says_all_or_nothing(
    shapes: dict[str, tuple[str, Any]], reader: Any, given: list[Any], options: dict[str, Any], ends: Any
) -> None:
    for shape, (text, expected) in shapes.items():
        if expected == UNREADABLE or shape in SEVERAL_ANSWERS:
            continue
        whole = read(reader, text, *given, **options)
        for end in ends(text):
            assert read(reader, text[:end], *given, **options) in (UNREADABLE, whole), (shape, text[:end])


def test_of_a_batch_that_is_cut_anywhere_a_chunk_has_its_own_verdict_or_none(ends: Any) -> None:
    for shape, (text, expected) in BATCH.items():
        if not expected or shape in SEVERAL_ANSWERS:
            continue
        whole = read_batch(text, PREFERENCES, BATCH_ASKED, instructions=True)
        for end in ends(text):
            for place, answer in read_batch(text[:end], PREFERENCES, BATCH_ASKED, instructions=True).items():
                assert answer.relevant == whole[place].relevant, (shape, text[:end])
                assert answer.decision is whole[place].decision, (shape, text[:end])


PROPERTIES = {
    "json": lambda said: json.dumps(said, indent=1),
    "json, decision last": lambda said: json.dumps(dict(reversed(said.items())), ensure_ascii=False),
    "json in a fence": lambda said: f"Here is {{my}} answer:\n```json\n{json.dumps(said)}\n```\nI hope that's fine.",
    "python": repr,
    "xml": lambda said: (
        f"<answer><decision>{said['decision']}</decision><reason>{html.escape(said['rationale'])}</reason>"
        f"<relevant_preferences>{''.join(map(as_xml, said['preferences']))}</relevant_preferences></answer>"
    ),
}


def as_xml(one: dict[str, Any]) -> str:
    return f'<preference number="{one["preference"]}" stance="mixed">{html.escape(one["instruction"])}</preference>'


# Without control characters and backslashes: a repair may read them as something else, but no less.
WORDS = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\\"), min_size=1, max_size=30)


@given(
    st.sampled_from(list(PROPERTIES)),
    st.sampled_from(["Keep", "Discard"]),
    st.lists(WORDS.map("Use {}".format), min_size=1, max_size=3),
    st.integers(0, 400),
)
@example("json", "Keep", ['Use {a} "b" [c]', "Steer clear (of: it's casinos}."], 118)
def test_whatever_it_says_a_cut_leaves_all_or_nothing(form: str, decision: str, words: list[str], end: int) -> None:
    listed = [{"preference": n, "stance": "mixed", "instruction": one} for n, one in enumerate(words, 1)]
    text = PROPERTIES[form]({"decision": decision, "rationale": f"It {{has}} [{words[0]}", "preferences": listed})
    for preferences in (PREFERENCES, ONE_PREFERENCE):
        whole = read(read_decision, text, preferences, instructions=True)
        cut = read(read_decision, text[:end], preferences, instructions=True)
        assert whole == UNREADABLE or cut in (UNREADABLE, whole)
        # No beginning of a Keep discards, and none of a Discard keeps.
        assert cut == UNREADABLE or str(cut[0]) == decision


@given(st.sampled_from(['{{"instruction": {}}}', "<instruction>{}</instruction>"]), WORDS, st.integers(0, 80))
def test_an_instruction_that_is_cut_is_none(form: str, words: str, end: int) -> None:
    text = form.format(json.dumps(f"Use {words}") if "{{" in form else html.escape(f"Use {words}"))
    whole = read(read_instruction, text)
    assert whole == UNREADABLE or read(read_instruction, text[:end]) in (UNREADABLE, whole)


READ = {
    "liked": ["night trains"],
    "avoided": ["flights", "buses"],
    "firmness": "mild",
    "scope": "in Europe",
    "questions": ["How do I travel?"],
    "follows": ["sleepers", "rail passes"],
    "breaks": ["cheap flights"],
}


@pytest.mark.parametrize("form", ["as asked", "fenced", "single quotes", "lines", "nested"])
def test_aspects_and_an_expansion_that_are_cut_anywhere_are_read_whole_or_not_at_all(form: str, ends: Any) -> None:
    text = {
        "as asked": json.dumps(READ),
        "fenced": f"Here:\n```json\n{json.dumps(READ, indent=2)}\n```",
        "single quotes": str(READ),
        "lines": "\n".join(
            f"- {key.title()}: {'; '.join(value) if isinstance(value, list) else value}" for key, value in READ.items()
        ),
        "nested": json.dumps({"aspects": {"liked": READ["liked"]}, "expansion": {"follows": READ["follows"]}}),
    }[form]
    whole = read(read_answer, text)
    for end in ends(text):
        assert read(read_answer, text[:end]) in (UNREADABLE, whole), text[:end]


# what becomes of them


def judged(text: str, *preferences: str, cut: bool = False, **options: Any) -> Verdict:
    """The verdict of a model that says nothing but this text."""
    lm = Own(lambda messages: Completion(text=text, cut=cut))
    (verdict,) = patient(lm, **options).verify([candidate("The hotel has a casino and quiet rooms.", *preferences)])
    return verdict


@pytest.mark.parametrize("cut", [False, True], ids=["stop", "length"])
@pytest.mark.parametrize("way", ["single", "paper", "batch"])
@pytest.mark.parametrize("preferences", [(CASINO,), (CASINO, QUIET)], ids=["one", "two"])
def test_a_keep_that_is_cut_in_its_rationale_is_undecided(way: Any, cut: bool, preferences: tuple[str, ...]) -> None:
    verdict = judged(CUT_IN_RATIONALE, *preferences, cut=cut, way=way)
    assert verdict.decision is Decision.UNDECIDED
    assert "cut off" in verdict.rationale and verdict.answer == CUT_IN_RATIONALE


@pytest.mark.parametrize(("way", "cut"), [("single", False), ("paper", True)])
def test_a_verdict_that_is_cut_anywhere_is_whole_or_undecided(way: Any, cut: bool, ends: Any) -> None:
    relevant = {"preference": 1, "stance": "conflicts", "instruction": "Steer clear of this hotel."}
    answer = {"decision": "Keep", "rationale": "It has a casino.", "preferences": [relevant]}
    for text in in_each_form(answer).values():
        kept = {one.stance for one in judged(text, CASINO, way="single").alignments}
        assert {str(stance) for stance in kept} == {"conflicts"}
        for end in ends(text):
            verdict = judged(text[:end], CASINO, way=way, cut=cut)
            undecided = verdict.decision is Decision.UNDECIDED
            assert undecided or {one.stance for one in verdict.alignments} == kept, text[:end]


def test_a_chatty_end_that_is_cut_costs_nothing() -> None:
    whole = in_each_form({"decision": "Discard", "rationale": "It is about tax law.", "preferences": []})["as asked"]
    verdict = judged(whole + "\n" * 50, CASINO, cut=True)
    assert verdict.decision is Decision.DISCARD
    assert verdict.usage is not None and verdict.usage.calls == 1


@pytest.mark.parametrize("form", ["json", "json in a fence", "xml"])
@pytest.mark.parametrize("way", ["single", "paper", "batch"])
@pytest.mark.parametrize("decision", ["Keep", "Discard"])
@pytest.mark.parametrize(
    "after", ["Wait, there is a casino, which is avoided. So the", "<think>There is a casino. So the"]
)
def test_a_draft_before_a_cut_is_no_verdict(form: str, way: Any, decision: str, after: str) -> None:
    listed = [{"preference": 1, "stance": "supports", "instruction": "Use it."}]
    draft = PROPERTIES[form]({"decision": decision, "rationale": "It has quiet rooms.", "preferences": listed})
    draft = draft.replace("I hope that's fine.", "")
    verdict = judged(f"{draft}\n\n{after}", CASINO, cut=True, way=way)
    assert verdict.decision is Decision.UNDECIDED and "cut off" in verdict.rationale


def test_a_batch_is_not_completed_by_the_draft_before_the_cut_answer() -> None:
    def stated(*decisions: str) -> str:
        listed = [{"preference": 1, "stance": "supports", "instruction": "Use it when asked."}]
        answers = [
            {"chunk": n, "decision": each, "rationale": ".", "preferences": listed if each == "Keep" else []}
            for n, each in enumerate(decisions, 1)
        ]
        return json.dumps({"answers": answers})

    draft, final = stated("Discard", "Discard", "Discard"), stated("Discard", "Keep", "Discard")
    cut = f"{draft}\nWait, no:\n{final[:-60]}"
    assert read_batch(draft, PREFERENCES, BATCH_ASKED, instructions=True).keys() == {0, 1, 2}
    assert read_batch(without_drafts(cut), PREFERENCES, BATCH_ASKED, instructions=True).keys() == {0}
    assert len(without_drafts(cut)) == len(cut) and not without_drafts(cut[: cut.index("no:")]).strip()


@pytest.mark.parametrize(
    "stance", ["banana", "supports | conflicts | mixed | neutral", "unsupportive", 7, ["supports"]]
)
@pytest.mark.parametrize("way", ["single", "batch"])
def test_a_stance_that_is_none_of_the_four_is_asked_for_again_and_then_undecided(way: Any, stance: object) -> None:
    relevant = {"preference": 1, "stance": stance, "instruction": "Steer clear of this hotel."}
    verdict = judged(json.dumps({"decision": "Keep", "rationale": ".", "preferences": [relevant]}), CASINO, way=way)
    assert verdict.decision is Decision.UNDECIDED and "stance" in verdict.rationale
    assert verdict.usage is not None and verdict.usage.retries == 1


def test_of_two_preferences_neither_is_forgotten_where_the_second_is_cut() -> None:
    def cut_in_the_second(asked: Any) -> str:
        item = {"stance": "supports", "instruction": "Offer it to the user."}
        listed = [{"preference": number, **item} for number in (1, 2)]
        return json.dumps({"decision": "Keep", "rationale": "Both.", "preferences": listed})[:-40]

    lm = Scripted(hook=cut_in_the_second)
    memory = memory_of(lm)
    assert memory.add([BOTH]).undecided == 1 and memory.stats().counts["pending"] == 1
    lm.hook = None
    assert memory.retry().kept == 1
    assert {
        entry.preference for hit in memory.search("wine", k=1) for entry in memory.explain(hit.item.id).entries
    } == {
        WINE,
        TRAIN,
    }


@pytest.mark.parametrize("cut", [False, True], ids=["stop", "length"])
def test_a_rewritten_text_that_is_cut_is_none(cut: bool) -> None:
    lm = Own(lambda messages: Completion(text="Garden rooms face the park. Doubles are 12", cut=cut))
    rewriter = patient(lm, refine="rewrite").rewriter
    assert rewriter is not None
    one = candidate("A hotel with a garden. " * 9, QUIET)
    ((_, rewritten),) = rewriter.stream([Rewriting(item=one.item, preferences=one.preferences)])
    assert rewritten.text == "" and rewritten.failure


@pytest.mark.parametrize("cut", [False, True], ids=["stop", "length"])
def test_aspects_that_are_cut_are_none(cut: bool) -> None:
    lm = Own(lambda messages: Completion(text=json.dumps(READ)[:-30], cut=cut))
    (reading,) = AspectReader(lm, backoff=0).read([QUIET])
    assert reading.aspects is None and reading.expansion is None and "cut off" in reading.failure
