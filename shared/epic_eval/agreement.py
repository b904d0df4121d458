"""Agreement of a judge with labelled answers of our own: how far it can be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from epic_eval.judge import CHECKS, Check, Judge, Judgement, Says, outcome_of
from epic_eval.metrics import Estimate, estimate


@dataclass(frozen=True)
class Labelled:
    """An answer of our own with what a judge should say of it."""

    judgement: Judgement
    checks: Mapping[Check, Says]


_ERRORS: dict[str, Mapping[Check, Says]] = {
    "correct": {"acknowledge": "yes", "hallucinate": "no", "violate": "no", "helpful": "yes"},
    "unhelpful": {"acknowledge": "no", "hallucinate": "no", "violate": "no", "helpful": "no"},
    "inconsistent": {"acknowledge": "yes", "hallucinate": "no", "violate": "yes", "helpful": "yes"},
    "hallucinated": {"acknowledge": "yes", "hallucinate": "yes", "violate": "yes", "helpful": "yes"},
    "preference_unaware": {"acknowledge": "no", "hallucinate": "no", "violate": "yes", "helpful": "yes"},
}


def labelled_set(scenes: int | None = None) -> list[Labelled]:
    """Return the answers that a judge is measured by: of each of our 40 scenes, one answer for each outcome.

    Args:
        scenes: Only the first ones.
    """
    made = []
    lines = (files("epic_eval") / "data" / "agreement.jsonl").read_text(encoding="utf-8").splitlines()
    for scene in map(json.loads, lines[:scenes]):
        for found, checks in _ERRORS.items():
            says = dict(checks)
            if found == "correct" and not scene["acknowledges"]:
                says["acknowledge"] = "no"
            made.append(Labelled(Judgement(scene["preference"], scene["question"], scene[found]), says))
    return made


def agreement(judge: Judge, labelled: Sequence[Labelled] | None = None) -> dict[str, Estimate]:
    """Return how often the judge is right about the labelled answers: "correct or not", and each check.

    Answers that it was never asked about are left out; what it could not say counts as wrong. The intervals are over
    scenes.
    """
    rows: dict[str, list[tuple[object, float]]] = {}
    for each in labelled_set() if labelled is None else labelled:
        if not judge.asked(each.judgement):
            continue
        found = judge.judged(each.judgement)
        right = outcome_of(each.checks) == "correct"
        said = found.outcome
        decided = said != "undecided" and found.complete
        scene = each.judgement.preference
        rows.setdefault("correct or not", []).append((scene, float(decided and (said == "correct") == right)))
        for check in CHECKS:
            if check != "hallucinate" or each.checks["acknowledge"] == "yes":
                rows.setdefault(check, []).append((scene, float(found.checks[check] == each.checks[check])))
    made = {name: estimate(values) for name, values in rows.items()}
    return {name: mean for name, mean in made.items() if mean is not None}
