"""Judging for many people without Ray: as the memory of each would judge, and what fails is told."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from epic_memory import Candidate, EpicMemory, Item, Preference, Settings, Verdict
from epic_memory.encoders import encoder_of
from epic_memory.errors import InvalidInputError, MissingExtraError
from epic_memory.lm import lm_of
from epic_memory.pipeline.coarse_filter import coarse_filter
from epic_memory.types import Expansion
from epic_scale import EpicProcessorConfig, build, coarse
from epic_scale.coarse import CoarseFilter
from epic_scale.judging import Judge
from epic_scale.people import People
from epic_scale.writing import KnownVectors, verdict_of
from helpers import FakeVerifier, HashEncoder, KeepAll, keep
from lm_servers import LMServer
from scripted import read_prompt

PEOPLE = {
    "ann": ["I am vegan.", "I love quiet hikes in the mountains."],
    "ben": ["I avoid horror films.", "I am vegan.", "I prefer budget hotels."],
}
TEXTS = [
    "A vegan restaurant in Lisbon with a daily menu of lentils and beans.",
    "The steam engine was improved by James Watt.",
    "A mountain trail through silent forest, far from the crowds.",
    "A slasher film about a haunted house, full of horror.",
    "A hostel near the station with cheap rooms for travellers.",
    "Steak house with the best beef in town, and no vegetables.",
]


def judge(settings: Settings = Settings(), people: dict[str, list[str]] = PEOPLE) -> Judge:
    encoder = encoder_of("static")
    return Judge(People.of(people, encoder, settings=settings), encoder, settings=settings)


def test_everybody_is_judged_as_by_a_memory_of_their_own() -> None:
    items = [Item(text=text) for text in TEXTS * 2]
    found = judge().judge(items)
    for user, preferences in PEOPLE.items():
        with EpicMemory(preferences, encoder="static") as memory:
            for one, judgements in zip(memory.judge(items), found, strict=True):
                mine = [each for each in judgements if each.user == user]
                assert any(each.keep for each in mine) is one.kept
                if one.kept:
                    told = {(each.preference_id, each.instruction) for each in one.verdict.alignments}
                    assert {(Preference.of(each.preference or "").id, each.instruction) for each in mine} == told
                    assert verdict_of(mine).decision is one.verdict.decision
    assert sum(each.keep for judgements in found for each in judgements) >= 6
    assert [each.user for each in found[1]] == [None]
    assert judge().judge([]) == []


@pytest.mark.parametrize("language", [None, "en"])
def test_guidance_is_in_the_language_of_the_settings(language: str | None) -> None:
    settings, wanted = Settings(language=language, tau=-1.0, verifier=None), "Ich mag keine Hotels mit Casino."
    with EpicMemory([wanted], settings=settings) as memory:
        (judged,) = memory.judge([wanted])
    (told,) = [each.instruction for each in judged.verdict.alignments]
    ((mine,),) = judge(settings, {"ann": [wanted]}).judge([Item(text=wanted)])
    assert mine.instruction == told and told.startswith("Vor" if language is None else "Check")


@pytest.mark.parametrize("block", [1, 700, 1 << 24])
def test_the_bound_lets_everything_through_that_the_filter_does(monkeypatch: pytest.MonkeyPatch, block: int) -> None:

    monkeypatch.setattr(coarse, "_BLOCK", block)
    encoder = encoder_of("static")
    people = People.of(PEOPLE, encoder)
    assert any(len(one.phrases) for one in people.expanded)
    embeddings = encoder.encode(TEXTS)
    exact = coarse_filter(embeddings, people.vectors, people.taus, expanded=people.expanded)
    passing = list(CoarseFilter(people).passing(embeddings))
    assert {(row, place) for row, place in np.argwhere(exact).tolist()} <= {
        pair for rows, places in passing for pair in zip(rows, places, strict=True)
    }
    rows, places = CoarseFilter(people).pairs(TEXTS, embeddings)
    assert [*zip(places, rows, strict=True)] == sorted(map(tuple, np.argwhere(exact.T).tolist()))


def test_what_names_what_breaks_a_preference_passes() -> None:
    named = Preference.of("I like tea")
    expansion = Expansion(questions=("What to drink?",), follows=("green tea",), breaks=("cold brew",), source="model")
    people = People.of({"ann": [named.text]}, HashEncoder())
    people.preferences[0] = Preference(id=named.id, text=named.text, expansion=expansion)
    texts = ["nothing at all", "we had a cold brew at noon and talked for long of many other things"]
    rows, places = CoarseFilter(people).pairs(texts, HashEncoder().encode(texts))
    assert rows.tolist() == [1] and places.tolist() == [0]


def test_an_encoder_that_fails_is_an_error_of_each_chunk() -> None:
    class Broken(HashEncoder):
        def encode(self, texts: Sequence[str]) -> np.ndarray:
            if "stone" in texts[0]:
                raise OSError("no route to host")
            return super().encode(texts)

    encoder = Broken()
    broken = Judge(People.of(PEOPLE, encoder), encoder)
    assert [one[0].error for one in broken.judge([Item(text="stone"), Item(text="I am vegan")])] == [
        "OSError: no route to host"
    ] * 2
    assert broken.judge([Item(text="I am vegan")])[0][0].error == ""


def test_a_verifier_that_fails_leaves_the_others_verdicts() -> None:
    class Half(FakeVerifier):
        def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
            yield keep(candidates[0])
            raise OSError("no route to host")

    found = judge(Settings(verifier=Half())).judge([Item(text=text) for text in (TEXTS[0], TEXTS[2])])
    pairs = [one for judgements in found for one in judgements]
    # It is asked once for both who are vegan.
    assert {one.user for one in pairs if one.keep} == {"ann", "ben"}
    assert {one.error for one in pairs if not one.keep} == {"OSError: no route to host"}
    (waiting,) = {verdict_of([one]).decision.value for one in pairs if not one.keep}
    assert waiting == "Undecided"


def test_a_model_is_made_by_who_asks_it() -> None:
    def answer(request: dict[str, Any]) -> str:
        answers = [
            {"chunk": number, "decision": "Keep", "evidence": "it is", "preferences": [named]}
            for number, (first, *_) in enumerate(read_prompt(request["messages"]).under, start=1)
            for named in [{"preference": first, "stance": "supports", "instruction": "Use it."}]
        ]
        return json.dumps({"answers": answers})

    settings = Settings(aspects="parser")
    with LMServer(answer, models=["qwen3:4b"]) as server:
        llm = pickle.loads(pickle.dumps(partial(lm_of, "ollama:qwen3:4b", url=server.url)))
        encoder = encoder_of("static")
        found = Judge(People.of(PEOPLE, encoder, llm, settings), encoder, llm, settings).judge([Item(text=TEXTS[0])])
        assert server.calls
    assert {(one.user, one.instruction, one.keep) for one in found[0]} == {
        (user, "Use it.", True) for user in {one.user for one in found[0]}
    }
    assert {one.user for one in found[0]} >= {"ann"}


def test_what_was_embedded_before_is_not_embedded_again() -> None:
    asked = HashEncoder()
    encoder = KnownVectors(asked)
    encoder.known = {"tea": HashEncoder().encode(["tea"])[0]}
    assert np.array_equal(encoder.encode(["rye", "tea", "rye"]), HashEncoder().encode(["rye", "tea", "rye"]))
    assert dict(asked.texts) == {"rye": 1} and encoder.encode([]).shape == (0, asked.dimension)


@pytest.mark.parametrize("people", [{"ann": []}, {"": ["I am vegan."]}, {"ann": "I am vegan."}], ids=repr)
def test_people_without_a_name_or_preferences_are_refused(people: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidInputError):
        People.of(people, HashEncoder())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"concurrency": 0}, "concurrency"),
        ({"settings": Settings(coarse=False, verifier=KeepAll())}, "coarse"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        EpicProcessorConfig(preferences=PEOPLE, **options)  # type: ignore[arg-type]


def test_without_ray_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'epic-memory\[ray\]'"):
        build("corpus.jsonl", PEOPLE, str(tmp_path))
