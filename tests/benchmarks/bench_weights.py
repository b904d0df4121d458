"""What each weight of ranking, steering and evidence is worth: the figures with it, and with a neutral value instead.

    python tests/benchmarks/bench_weights.py [STAGE ...] [--write]

Most of these weights were set by hand. So that nobody has to believe in them, each is taken out in turn, the others as
they are, and the same is measured as without: of the made-up lives (`bench_lives.py`) the choices whose suiting note is
the first hit, those whose conflicting one is, the facts whose note is the first hit, and the prompts of small talk that
find nothing, for a memory without a model, with expansions and with verdicts; and of the choices of our own
(`bench_choices.py`) the right ones. Unseen are the lives c, d, e and a third of the choices. A neutral value
(`neutral.json`) says nothing (0 for what is added, a bound that nothing reaches); it is no fit. With --write the unseen
figures go into each stage's JSON, under "judged".
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench_choices import drawn, outcome, own_cases
from bench_lives import LOOKED_AT, WAYS, Counts, Life, life
from common import Known  # puts shared/tools on the path
from epic_memory.encoders import default_encoder
from epic_memory.pipeline.candidates import CandidateWeights
from epic_memory.pipeline.coarse_filter import CoarseWeights
from epic_memory.preferences.evidence import EvidenceWeights
from epic_memory.preferences.library import BorrowingWeights
from epic_memory.steering.question_kind import QuestionWeights
from epic_memory.steering.ranking import StanceWeights
from epic_memory.steering.relevance import RelevanceWeights
from epic_memory.steering.signed import SteeringWeights
from epic_memory.types.weights import StageWeights, used
from epic_memory.verification.features import VerificationWeights
from fitting import write_record

STAGES: tuple[type[StageWeights], ...] = (
    BorrowingWeights,
    CandidateWeights,
    CoarseWeights,
    EvidenceWeights,
    QuestionWeights,
    RelevanceWeights,
    StanceWeights,
    SteeringWeights,
    VerificationWeights,
)
# JSON has lists where the weights have tuples.
NEUTRAL: dict[str, dict[str, Any]] = {
    stage: {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for stage, values in json.loads(Path(__file__).with_name("neutral.json").read_text(encoding="utf-8")).items()
}
_COUNTED = ("suits first", "conflicts first", "fact first", "silent", "right one listed")
_LIVES = ("memory", "expansions", "verdicts")


class Judge:
    """Lives and choices, some of them unseen, and an encoder that remembers."""

    def __init__(self) -> None:
        lives = [life(name) for name in ("a", "b", "c", "d", "e")]
        seen, unseen = own_cases().values()
        self._lives = {
            "looked at": [one for one in lives if one.name in LOOKED_AT],
            "unseen": [one for one in lives if one.name not in LOOKED_AT],
        }
        self._cases = {"looked at": seen, "unseen": unseen}
        self._encoder = Known(default_encoder())

    def figures(self, which: str) -> dict[str, str]:
        """Return the figures of what was looked at, or of what is unseen: counts, each of how many."""
        found = {name: self._of_lives(name, self._lives[which]) for name in _LIVES}
        cases = self._cases[which]
        right = outcome(self._encoder, cases, drawn(cases, 0), "signed")
        return found | {"choices": f"{sum(right)} of {len(right)}"}

    def _of_lives(self, name: str, lives: list[Life]) -> str:
        counts = Counts()
        for one in lives:
            way = WAYS[name](one, self._encoder)
            counts.add(one, way)
            assert way.memory is not None
            way.memory.close()
        told = counts.rows | {"right one listed": sum(counts.listed_right)}
        return ", ".join(f"{row} {told[row]}" for row in _COUNTED)


def without(stage: type[StageWeights]) -> Iterator[tuple[str, StageWeights]]:
    """Yield each weight's name, and the stage's weights with a neutral value for it."""
    for name, neutral in NEUTRAL[stage.path().stem].items():
        yield name, replace(stage.shipped(), **{name: neutral})  # type: ignore[type-var]


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [stage.path().stem for stage in STAGES]
    made.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(names)} (default: all)")
    made.add_argument("--write", action="store_true", help="write the unseen figures into the stages' JSON")
    options = made.parse_args()
    judge = Judge()
    whole = {which: judge.figures(which) for which in ("looked at", "unseen")}
    for which, figures in whole.items():
        print(which, *(f"    {name:10} {told}" for name, told in figures.items()), sep="\n", flush=True)
    for stage in STAGES:
        if options.stages and stage.path().stem not in options.stages:
            continue
        judged: dict[str, Any] = {}
        for name, weights in without(stage):
            with used(weights):
                lacking = {which: judge.figures(which) for which in whole}
            changed = {
                which: {key: told for key, told in figures.items() if told != whole[which][key]}
                for which, figures in lacking.items()
            }
            judged[name] = changed["unseen"] or "no figure changes"
            print(f"{stage.path().stem}.{name} = {NEUTRAL[stage.path().stem][name]}")
            for which, figures in changed.items():
                print(*(f"    {which:10} {key:10} {told}" for key, told in figures.items()), sep="\n", flush=True)
        if options.write:
            write(stage, whole["unseen"], judged)


def write(stage: type[StageWeights], figures: dict[str, str], judged: dict[str, Any]) -> None:
    record = stage.record() | {
        "judged": {
            "by": "tests/benchmarks/bench_weights.py",
            "on": "written/everyday_lives c, d, e and the third of written/choices.jsonl that nobody had looked at",
            "figures": figures,
            "without": judged,
        }
    }
    write_record(stage, record)


if __name__ == "__main__":
    main()
