"""Fit of what a question needs: which items are relevant to it, which preferences matter to it, or none at all.

    python shared/tools/fit_silence.py [--only preferences]

The lives of `written/silence/fit_*.json` say of each turn which notes and preferences a good answer needs; two in three
turns need none. Kinds of questions are told by weights that never saw the life (`fit_question_kind.py`; a fourth of the
lives is left out at a time), and what is printed comes from weights that never saw it either: for several shares of
what is needed that come, how many turns that need nothing get something all the same. Written are the weights of all
lives, and the bounds at which `NOTES` and `PREFERENCES` of what is needed come.
With `--only preferences` the weights of notes stay as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from epic_memory import EpicMemory, SearchOptions
from epic_memory.context import ContextWeights
from epic_memory.encoders import default_encoder, embed
from epic_memory.pipeline.candidates import RELEVANT, CandidateWeights, least_topic
from epic_memory.preferences.evidence import embed_aspects
from epic_memory.runtime.effects import run
from epic_memory.steering.question_kind import QuestionKind
from epic_memory.steering.relevance import (
    MATTERS,
    Nearness,
    RelevanceWeights,
    default_relevant,
    encoding_samples,
    nearness,
)
from epic_memory.types import FloatArray
from epic_memory.types.weights import used
from fit_question_kind import FITTED, chances, fit, lives_to_fit, turns_of
from fitting import Array, Linear, logistic, write_weights, written

SCRIPT = "shared/tools/fit_silence.py"
ON = "written/silence/fit_*.json"
NOTES, PREFERENCES = 0.75, 0.7
SHOWN = 8
FOLDS = 4
RIDGE = 1.0


class Turn(NamedTuple):
    """A turn, with its best notes and all preferences, and whether each is needed."""

    life: int
    is_silent: bool
    kind: QuestionKind
    query: FloatArray
    topics: FloatArray
    vectors: FloatArray  # of the notes
    notes: Array  # their features
    notes_needed: Array
    preferences: Array  # the features of preferences, once it is known which notes are relevant
    preferences_needed: Array
    missed: int  # needed notes that are not among the best


def turns_seen(number: int, life: dict[str, Any], kinds: Sequence[QuestionKind]) -> list[Turn]:
    """The turns of a life whose questions are of these kinds."""
    memory = EpicMemory(preferences=life["preferences"])
    memory.add(life["notes"])
    places = {text: place for place, text in enumerate(life["notes"])}
    every = SearchOptions(min_score=None, steering="off", stance_policy="any")
    seen = []
    for turn, kind in zip(life["turns"], kinds, strict=True):
        hits = memory.search(turn["text"], SHOWN, options=every)
        topics = np.array([hit.score for hit in hits])
        seen.append(
            Turn(
                life=number,
                is_silent=turn["kind"] != "needed",
                kind=kind,
                query=hits.query,
                topics=topics,
                vectors=np.stack(hits.vectors),
                notes=notes_features(topics - default_relevant(default_encoder()), kind),
                notes_needed=np.array([places[hit.text] in turn["needs"] for hit in hits], dtype=float),
                preferences=np.empty((0, len(MATTERS))),
                preferences_needed=np.isin(np.arange(len(life["preferences"])), turn["prefers"]).astype(float),
                missed=len(set(turn["needs"]) - {places[hit.text] for hit in hits}),
            )
        )
    return seen


def with_preferences(lives: Sequence[dict[str, Any]], turns: Sequence[Turn]) -> list[Turn]:
    """The turns with the features of preferences, whose nearness depends on the notes that are relevant."""
    encoder = default_encoder()
    near_to = [
        Nearness(
            embed(encoder, life["preferences"]),
            embed_aspects(encoder, life["preferences"]),
            run(encoding_samples(encoder)),
        )
        for life in lives
    ]
    found = []
    for turn in turns:
        least = least_topic(encoder, turn.topics, len(lives[turn.life]["notes"]), "auto", turn.kind)
        near = nearness(turn.query, near_to[turn.life], turn.vectors[turn.topics >= least])
        found.append(turn._replace(preferences=preferences_features(near, turn.kind)))
    return found


def notes_features(topics: Array, kind: QuestionKind) -> Array:
    """`RELEVANT` of each topic, shape `(n, len(RELEVANT))`."""
    odds = [np.full(len(topics), one) for one in kind.odds.values()]
    return np.stack([topics, topics.max(initial=0.0) - topics, *odds], axis=1)


def preferences_features(near: Array, kind: QuestionKind) -> Array:
    """`MATTERS` of each preference, shape `(m, len(MATTERS))`."""
    odds = [np.full(len(near), one) for one in kind.all_odds.values()]
    return np.stack([near, near.max() - near, *odds, kind.choice * near], axis=1)


def fitted(turns: Sequence[Turn], features: str) -> Linear:
    """Fit what is needed by the features of notes or preferences."""
    found = np.concatenate([getattr(turn, features) for turn in turns])
    needed = np.concatenate([getattr(turn, f"{features}_needed") for turn in turns])
    return logistic(found, needed, np.ones(len(found)), RIDGE)


def bound(odds: Sequence[Array], turns: Sequence[Turn], features: str, share: float) -> float:
    """The log-odds from which a share of what is needed comes."""
    needed = [getattr(turn, f"{features}_needed").astype(bool) for turn in turns]
    right = np.sort(np.concatenate([one[such] for one, such in zip(odds, needed, strict=True)]))[::-1]
    whole = len(right) + (sum(turn.missed for turn in turns) if features == "notes" else 0)
    return float(right[min(len(right), round(share * whole)) - 1])


def shown(odds: Sequence[Array], turns: Sequence[Turn], features: str, least: float) -> dict[str, float]:
    """Return what comes from a bound on: to turns that need nothing, and unneeded to others."""
    silent = np.array([turn.is_silent for turn in turns])
    counts = np.array([(one >= least).sum() for one in odds])
    needed = [getattr(turn, f"{features}_needed").astype(bool) for turn in turns]
    right = np.array([(one[such] >= least).sum() for one, such in zip(odds, needed, strict=True)])
    return {
        "turns that need none and get some": round(float((counts[silent] > 0).mean()), 3),
        "unneeded a turn that needs some": round(float((counts - right)[~silent].mean()), 2),
    }


def judged(turns: Sequence[Turn], features: str, share: float) -> dict[str, Any]:
    """Print what comes at several bounds, of weights that never saw the life; return that at one."""
    lives = sorted({turn.life for turn in turns})
    left_out = {one: fitted([turn for turn in turns if turn.life != one], features) for one in lives}
    odds = [left_out[turn.life](getattr(turn, features)) for turn in turns]
    for other in (0.6, 0.7, 0.75, 0.8, 0.85):
        print(features, f"{other:.2f} come", shown(odds, turns, features, bound(odds, turns, features, other)))
    return {"share that comes": share, **shown(odds, turns, features, bound(odds, turns, features, share))}


def weights_of(linear: Linear, names: Sequence[str]) -> dict[str, float]:
    """Name the weights."""
    return {
        name: round(float(one), 3) for name, one in zip((*names, "bias"), (*linear.weights, linear.bias), strict=True)
    }


def turns_left_out(lives: Sequence[dict[str, Any]]) -> list[Turn]:
    """The turns of all lives, whose kinds are told by weights that never saw the life."""
    plain = [one for name in FITTED for one in written(name)]
    turns: list[Turn] = []
    for fold in range(FOLDS):
        kinds = fit([*plain, *chain(*(turns_of(life) for number, life in enumerate(lives) if number % FOLDS != fold))])
        for number in range(fold, len(lives), FOLDS):
            found = chances(kinds.odds([turn["text"] for turn in lives[number]["turns"]]))
            turns += turns_seen(number, lives[number], [QuestionKind(*one) for one in found.tolist()])
        print(f"fold {fold + 1} of {FOLDS} read", flush=True)
    return turns


def write_notes(turns: Sequence[Turn]) -> CandidateWeights:
    """Fit which notes are needed, write the weights and return them."""
    notes = judged(turns, "notes", NOTES)
    whole = fitted(turns, "notes")
    least = bound([whole(turn.notes) for turn in turns], turns, "notes", NOTES)
    relevant = {"relevant": weights_of(whole, RELEVANT), "needed": round(least, 3)}
    write_weights(CandidateWeights, SCRIPT, relevant, on=ON, judged=notes)
    return replace(CandidateWeights.shipped(), **relevant)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--only", choices=["preferences"], help="leave the weights of notes as they are")
    lives, only = list(lives_to_fit()), made.parse_args().only
    turns = turns_left_out(lives)
    with used(CandidateWeights.shipped() if only else write_notes(turns)):
        turns = with_preferences(lives, turns)
    preferences = judged(turns, "preferences", PREFERENCES)
    whole = fitted(turns, "preferences")
    least = bound([whole(turn.preferences) for turn in turns], turns, "preferences", PREFERENCES)
    write_weights(RelevanceWeights, SCRIPT, {"matters": weights_of(whole, MATTERS)}, on=ON, judged=preferences)
    chance = round(float(1.0 / (1.0 + np.exp(-least))), 4)
    write_weights(ContextWeights, SCRIPT, {"least_chance": chance}, on=ON, judged=preferences)


if __name__ == "__main__":
    main()
