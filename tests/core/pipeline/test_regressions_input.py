"""What cannot be used is refused with a clear error, before anything is written or paid for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import (
    Decision,
    EpicMemory,
    Filter,
    Hit,
    Item,
    Preference,
    QuerySteering,
    SearchOptions,
    Settings,
    Verdict,
)
from epic_memory.encoders import default_encoder
from epic_memory.errors import InvalidInputError, NotCopiedError, UnknownItemError, UnknownPreferenceError
from epic_memory.storage.store import Store
from epic_memory.types import Candidate
from helpers import Answering, HashEncoder, KeepAll, keep, memory_of

WINE = "red wine"
LONE = "a \ud800 b"
NAN = float("nan")


# text that no file can hold


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
        lambda memory: EpicMemory([WINE], encoder=HashEncoder(), settings=Settings(namespace=LONE)),
        lambda memory: QuerySteering(memory.encoder, [LONE]),
    ],
)
def test_a_lone_surrogate_is_refused(call: Callable[[EpicMemory], object]) -> None:
    memory = memory_of()
    with pytest.raises((InvalidInputError, UnknownPreferenceError, UnknownItemError)):
        call(memory)
    assert memory.stats().counts["items"] == 0
    assert [preference.text for preference in memory.preferences] == [WINE]


def test_a_filter_with_a_lone_surrogate_matches_nothing() -> None:
    memory = memory_of()
    memory.add([Item(text=WINE, metadata={"k": "v"})])
    assert memory.search("wine", filter=Filter.eq("k", LONE)) == []


@pytest.mark.parametrize("bad", [LONE, "a \x00 b"])
def test_what_a_verifier_writes_is_cleaned(bad: str) -> None:
    def answer(candidate: Candidate) -> Verdict:
        kept = keep(candidate)
        (alignment,) = kept.alignments
        return replace(kept, rationale=bad, alignments=(replace(alignment, instruction=bad),))

    memory = memory_of(verifier=Answering(answer))
    assert memory.add([Item(id="x", text=WINE)]).kept == 1
    (entry,) = memory.explain("x").entries
    for text in (entry.rationale, entry.instruction):
        assert "\x00" not in text
        assert text.encode().startswith(b"a ")


@pytest.mark.parametrize("decision", [Decision.UNDECIDED, Decision.DISCARD])
def test_the_rationale_of_what_is_not_kept_is_cleaned(decision: Decision) -> None:
    memory = memory_of(verifier=Answering(lambda _: Verdict(decision=decision, rationale=LONE)))
    report = memory.add([WINE])
    assert (report.kept, report.discarded + report.undecided) == (0, 1)


# paths


def test_memory_in_colons_is_a_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Store(":memory:").close()
    assert [file.name for file in tmp_path.iterdir()] == [":memory:"]


# encoders and steering


def test_a_long_run_of_spaces_does_not_hide_the_text_after_it() -> None:
    text = "I follow a strict vegan diet."
    vectors = default_encoder().encode([text, " " * 9000 + text])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


def test_one_string_is_one_preference_that_steers() -> None:
    encoder = HashEncoder()
    assert QuerySteering(encoder, "one string").preferences == (Preference(text="one string"),)
    assert QuerySteering(encoder, Preference(text="one")).preferences == (Preference(text="one"),)


# arguments of a memory


def test_a_tau_may_be_a_number_of_numpy() -> None:
    memory = memory_of(tau=np.float32(0.5))
    assert type(memory.tau) is float
    assert memory.tau == 0.5


@pytest.mark.parametrize("value", [NAN, float("inf"), object(), {1, 2}, b"bytes", [NAN], {"a": {3}}])
def test_metadata_that_is_not_json_is_refused_before_verification(value: Any) -> None:
    verifier, encoder = KeepAll(), HashEncoder()
    memory = memory_of(verifier=verifier, encoder=encoder)
    calls = encoder.calls
    with pytest.raises(InvalidInputError, match="Item 1"):
        memory.add([WINE, Item(text="another red wine", metadata={"k": value})])
    assert (verifier.asked, encoder.calls, len(memory)) == ([], calls, 0)


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5)])
def test_scores_of_a_fallback_become_floats(number: Any) -> None:
    found = ["a", ("b", number), (Item(text="c"), number), Hit(item=Item(text="d"), score=number)]
    hits = memory_of(fallback=lambda query, k: found).search("something else")
    assert [type(hit.score) for hit in hits] == [float] * 4
    assert [hit.score for hit in hits] == [0.0, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Filter("in", "k", 5),
        lambda: Filter("nin", "k", 5),
        lambda: Filter("in", "k"),
        lambda: Filter.in_("k", None),
        lambda: Filter.not_in("k", None),
        lambda: Filter("and", parts=5),  # type: ignore[arg-type]
        lambda: Filter("or", parts=[Filter.exists("k"), 5]),  # type: ignore[arg-type,list-item]
        lambda: Filter("not", parts=(Filter.exists("k"), Filter.exists("j"))),
    ],
)
def test_a_filter_of_a_wrong_shape_is_refused(make: Callable[[], Filter]) -> None:
    with pytest.raises(InvalidInputError, match="filter"):
        make()


# LangChain


def test_the_message_of_a_failing_verifier_is_cleaned() -> None:
    def fail(candidate: Candidate) -> Verdict:
        raise ValueError(LONE)

    memory = memory_of(verifier=Answering(fail))
    assert memory.add([Item(id="x", text=WINE)]).undecided == 1
    assert memory.explain("x").note.encode()


def test_mappings_are_neither_preferences_nor_items() -> None:
    with pytest.raises(InvalidInputError, match=r"such as a list, not dict"):
        EpicMemory({"diet": "I am vegan."})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"Item 0.*Write Item\(text="):
        EpicMemory(["I am vegan."]).add([{"text": "Lentil soup."}])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["coarse", "fine", "must_exist", "read_only", "reencode"])
@pytest.mark.parametrize("value", ["no", None, 0])
def test_a_switch_is_true_or_false(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} must be True or False"):
        Settings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["aspects", "expansions"])
def test_settings_refuse_who_reads_preferences_at_once(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} must be one of auto, "):
        Settings(**{name: "someone"})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"min_score": 0.3}, SearchOptions])
def test_an_error_about_options_says_what_to_write(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"made by epic_memory.SearchOptions\(min_score=0.3, "):
        memory_of().search("grapes", options=wrong)


def test_an_error_about_settings_says_what_to_write() -> None:
    with pytest.raises(InvalidInputError, match=r'made by epic_memory.Settings\(budget="1 MB", '):
        EpicMemory([WINE], settings={"budget": "1 MB"})  # type: ignore[arg-type]


def test_options_refuse_what_is_no_preference_at_once() -> None:
    with pytest.raises(InvalidInputError, match="A preference is a text or a Preference, not int"):
        SearchOptions(preferences=[WINE, 3])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["me.epic", Path("notes/me.epic")])
def test_the_name_of_a_file_is_no_preference(name: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"EpicMemory\.open\("):
        EpicMemory(name)


@pytest.mark.parametrize(("read", "written"), [(3, "me.epic"), ("me.jsonl", None)])
def test_import_needs_the_names_of_files(read: Any, written: Any) -> None:
    with pytest.raises(InvalidInputError, match="The name of a file is needed"):
        EpicMemory.restore(read, written)


def test_a_preference_is_found_among_those_held_by_its_text_id_or_as_such() -> None:
    with memory_of() as memory:
        held: Container[object] = memory.preferences
        (wine,) = memory.preferences
        for same in (WINE, f" {WINE.upper()} ", wine.id, wine):  # another case is the same preference
            assert same in held
        for other in ("white wine", "", LONE, "a\0b", 3, None):
            assert other not in held


@pytest.mark.parametrize("group", ["preferences", "facts", "proposals", "file"])
def test_what_shows_an_open_memory_says_why_it_is_not_copied(group: str) -> None:
    with memory_of() as memory:
        shown = getattr(memory, group)
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(NotCopiedError, match=r"EpicMemory\.open\(path\)"):
                copied(shown)
