"""What cannot be used is refused with a clear error, before anything is written or paid for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epic_learn import add_conversation
from epic_memory import Decision, EpicMemory, Filter, Item, QuerySteering, SearchOptions, Verdict
from epic_memory.errors import InvalidInputError, UnknownItemError, UnknownPreferenceError
from epic_memory.types import Candidate
from helpers import Answering, HashEncoder, KeepAll, both, keep, memory_at, memory_of, searching
from scripted import Own

WINE = "red wine"
LONE, NAN, INFINITY = "a \ud800 b", float("nan"), float("inf")


SETTINGS: list[tuple[dict[str, Any], str]] = [
    *(({"tau": tau}, "tau") for tau in (-1.5, 1.5, 7, NAN, "high", True)),
    *(({"coarse_recall": share}, "coarse_recall") for share in (0, -0.1, 1.1, 2, NAN, True)),
    *(({name: n}, name) for name in ("verdict_cache", "retry_queue") for n in (-1, 1.5, True, "many", None)),
    *(({"reserve": reserve}, "reserve") for reserve in (-1, "-1 MB", "much", True, 1.5)),
    *(({"namespace": name}, "namespace") for name in ("", "  ", "a\x00b", "\ud800", LONE, None, 7, b"x")),
    *(({"on_demand": time}, "on_demand") for time in ("soon", "300", "-1 s", -1.0, INFINITY, True, "9" * 400 + " s")),
    *(
        ({"llm": Own(str), "model_budget": budget}, "model_budget")
        for budget in ("much", "-1", -1, 1.5, True, "10 words", "", "9" * 5000)
    ),
    ({"model_budget": 10}, "llm says which"),
    *(
        ({name: value}, f"{name} must be True or False")
        for name in ("coarse", "fine", "must_exist", "read_only", "reencode")
        for value in ("no", None, 0)
    ),
    ({"steering": "best"}, "paper, signed, off"),
    ({"fallback": 7}, r"callable \(query, k\).*int"),
    ({"encoder": "all-MiniLM-L6-v2"}, "encoder"),
    ({"verifier": print}, "verifier"),
    ({"chunker": str.split}, "chunker"),
    *(({"tagger": tagger}, "tagger must be") for tagger in (Own, "phrases", object())),
    *(({"expander": none}, "expander must be an object with a method complete") for none in (Own, object())),
    ({"expander": "qwen3:4b"}, "There is no model 'qwen3:4b'"),
    *(({name: "someone"}, f"{name} must be one of auto, ") for name in ("aspects", "expansions")),
    ({"aspects": "model"}, "language model"),
    ({"expansions": "model"}, "expansions='model' needs a language model"),
]


@pytest.mark.parametrize(("options", "said"), SETTINGS)
def test_settings_that_cannot_be_are_refused_and_leave_no_file(path: Path, options: dict[str, Any], said: str) -> None:
    for make in (memory_of, lambda *preferences, **given: memory_at(path, *preferences, **given)):
        with pytest.raises(InvalidInputError, match=said):
            make(WINE, **options)
    assert not path.exists()


SEARCHES: list[tuple[Any, dict[str, Any], str]] = [
    *((query, {}, "query") for query in ("", "   ", None, 7)),
    *(("wine", {"k": k}, "k must be") for k in (0, -1, 1.5, True, None, "5")),
    *(("wine", {"namespace": namespace}, "namespace") for namespace in ("", " ", 3)),
    *(("wine", {"min_score": score}, "min_score") for score in ("often", 2, True)),
    ("wine", {"keys": "text"}, "keys"),
    ("wine", {"filter": {"n": 1}}, "Filter"),
    ("wine", {"stance_policy": "best"}, "prefer, only_supports, any"),
    ("wine", {"steering": "best"}, "paper, signed, off"),
    ("wine", {"preferences": 7}, "preferences must be a list of strings, or None for all; not int"),
    ("wine", {"preferences": [WINE, 3]}, "A preference is a text or a Preference, not int"),
    *(
        ("wine", {"options": wrong}, r"made by epic_memory.SearchOptions\(min_score=0.3, ")
        for wrong in ({"min_score": 0.3}, SearchOptions)
    ),
]


@pytest.mark.parametrize(("query", "options", "said"), SEARCHES)
async def test_a_search_that_cannot_be_is_refused(query: Any, options: dict[str, Any], said: str) -> None:
    memory = memory_of()
    with pytest.raises(InvalidInputError, match=said):
        await both(memory, "search", query, **searching(**options))
    with pytest.raises(UnknownPreferenceError, match=WINE):
        memory.search("wine", options=SearchOptions(preferences=["blue sky"]))


CALLS: list[tuple[str, Callable[[EpicMemory], object]]] = [
    *(("filter", lambda _, operator=operator: Filter(operator, "k", 5)) for operator in ("in", "nin")),
    ("filter", lambda _: Filter("in", "k")),
    ("filter", lambda _: Filter.in_("k", None)),
    ("filter", lambda _: Filter.not_in("k", None)),
    ("filter", lambda _: Filter("and", parts=5)),
    ("filter", lambda _: Filter("or", parts=[Filter.exists("k"), 5])),
    ("filter", lambda _: Filter("not", parts=(Filter.exists("k"), Filter.exists("j")))),
    (r"such as a list, not dict", lambda _: EpicMemory({"diet": "I am vegan."})),
    (r"Item 0.*Write Item\(text=", lambda memory: memory.add([{"text": "Lentil soup."}])),
    (r'made by epic_memory.Settings\(budget="1 MB", ', lambda _: EpicMemory([WINE], settings={"budget": "1 MB"})),
    (r"EpicMemory\.open\(", lambda _: EpicMemory("me.epic")),
    (r"EpicMemory\.open\(", lambda _: EpicMemory(Path("notes/me.epic"))),
    (r"EpicMemory\(", lambda _: memory_at(":memory:", WINE)),
    ("", lambda _: EpicMemory.open(None)),
    ("The name of a file is needed", lambda _: EpicMemory.restore(3, "me.epic")),
    ("The name of a file is needed", lambda _: EpicMemory.restore("me.jsonl", None)),
    ("metadata must be", lambda memory: memory.facts.add("a", metadata=5)),
    ("user must be", lambda memory: memory.proposals.propose("hi", user=5)),
    ("chunker must be", lambda memory: add_conversation(memory, "user: hi", chunker=5)),
    ("allowance must be", lambda memory: memory.preferences.for_("x", allowance=None)),
    ("report must be", lambda memory: next(memory.judge(["a"], report=5))),
    (r"epic_memory\.Filter, not dict", lambda memory: memory.items({"n": 1})),
]


@pytest.mark.parametrize(("said", "call"), CALLS)
def test_what_is_of_a_wrong_kind_is_refused_with_what_to_write(
    said: str, call: Callable[[EpicMemory], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInputError) as caught:
        call(memory_of())
    assert re.search(said, str(caught.value), re.S)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.search(LONE),
        lambda memory: memory.search("wine", namespace=LONE),
        lambda memory: memory.search("wine", options=SearchOptions(preferences=[LONE])),
        lambda memory: memory.add([LONE]),
        lambda memory: memory.add([Item(text=WINE, id=LONE)]),
        lambda memory: memory.add([Item(text=WINE, metadata={LONE: 1})]),
        lambda memory: memory.add([Item(text=WINE, metadata={"k": [{"j": LONE}]})]),
        lambda memory: memory.preferences.add(LONE),
        lambda memory: memory.preferences.remove(LONE),
        lambda memory: memory.preferences.replace(WINE, LONE),
        lambda memory: memory.explain(LONE),
        lambda memory: QuerySteering(memory.encoder, [LONE]),
    ],
)
def test_a_lone_surrogate_is_refused(call: Callable[[EpicMemory], object]) -> None:
    memory = memory_of()
    with pytest.raises((InvalidInputError, UnknownPreferenceError, UnknownItemError)):
        call(memory)
    assert memory.stats().counts["items"] == 0 and WINE in memory.preferences
    memory.add([Item(text=WINE, metadata={"k": "v"})])
    assert memory.search("wine", filter=Filter.eq("k", LONE)) == []


@pytest.mark.parametrize("bad", [LONE, "a \x00 b"])
@pytest.mark.parametrize("decision", [*Decision, "raised"])
def test_what_a_verifier_says_is_cleaned(bad: str, decision: Decision | str) -> None:
    def answer(candidate: Candidate) -> Verdict:
        if decision == "raised":
            raise ValueError(bad)
        kept = keep(candidate)
        if decision is Decision.KEEP:
            return replace(kept, rationale=bad, alignments=(replace(kept.alignments[0], instruction=bad),))
        return replace(kept, rationale=bad, decision=decision, alignments=())

    memory = memory_of(verifier=Answering(answer))
    report = memory.add([Item(id="x", text=WINE)])
    assert report.undecided == (decision in ("raised", Decision.UNDECIDED))
    explanation = memory.explain("x")
    for text in [
        explanation.note,
        *(text for each in explanation.entries for text in (each.rationale, each.instruction)),
    ]:
        assert "\x00" not in text and text.encode() is not None
    assert all(each.instruction.startswith("a ") for each in explanation.entries)


def test_metadata_that_is_not_json_is_refused_before_verification() -> None:
    verifier, encoder = KeepAll(), HashEncoder()
    memory = memory_of(verifier=verifier, encoder=encoder)
    calls = encoder.calls
    for value in (NAN, float("inf"), object(), {1, 2}, b"bytes", [NAN], {"a": {3}}):
        with pytest.raises(InvalidInputError, match="Item 1"):
            memory.add([WINE, Item(text="another red wine", metadata={"k": value})])
        assert (verifier.asked, encoder.calls, len(memory)) == ([], calls, 0)
