"""What passes the coarse filter on whole made-up lives, and what filtering takes.

Of the pairs of a note and a preference that the writers of the lives (`shared/tools/written/everyday_lives`) marked,
the share that passes; of all pairs; and of the notes, those that pass under any preference: what a model has to judge.
With expansions by a model (replayed, as in `bench_lives.py`) and with those that the bundled library lends; with the
encoder's own tau, and with the thresholds that let nine tenths pass (`coarse_recall=0.9`, the default where a model
judges). These were fitted on lives a, b and c (`shared/tools/fit_coarse.py`); d and e were only run.

Then the time for 40,000 x 768 embeddings by 10 preferences, against the bare product and comparison.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Iterator, Sequence

import numpy as np

from bench_lives import Life, ReplayedModel, life
from common import Known, encoders, paired_seconds, unit, with_encoders
from epic_memory import EpicMemory, Settings
from epic_memory.encoders import Encoder
from epic_memory.pipeline.coarse_filter import coarse_filter
from epic_memory.types import Candidate, Decision, Verdict
from epic_memory.verification.base import BaseVerifier

FITTED, ONLY_RUN = "abc", "de"


class Passing(BaseVerifier):
    """A verifier that stands for a model, and writes down the pairs that it is asked to judge."""

    name = "passing"
    cached = True

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        for one in candidates:
            self.pairs |= {(one.item.text, preference.id) for preference in one.preferences}
            yield Verdict(decision=Decision.DISCARD, rationale="not judged here")

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for verdict in self.verify(candidates):
            yield verdict


def passing(one: Life, encoder: Encoder, recall: float | None, *, own: bool) -> set[tuple[str, str]]:
    """Return the pairs of a life, a note's text and a preference's id, that a memory would have judged."""
    verifier = Passing()
    expander = ReplayedModel(one) if own else None
    with EpicMemory(
        one.preferences, encoder=encoder, settings=Settings(verifier=verifier, expander=expander, coarse_recall=recall)
    ) as memory:
        memory.add(one.items)
    return verifier.pairs


def print_passing(encoder: Encoder) -> None:
    print(f"\n{encoder.name}, its tau {encoder.tau}")  # type: ignore[attr-defined]
    print(f"{'':44}{'of those that matter':>22}{'of all pairs':>14}{'of the notes':>14}")
    for names in (FITTED, ONLY_RUN):
        lives = [life(name) for name in names]
        for own in (False, True):
            for recall in (None, 0.9):
                found = [passing(one, encoder, recall, own=own) for one in lives]
                matters = sum(len(pairs & one.verdicts.keys()) for pairs, one in zip(found, lives, strict=True))
                whole = [len(one.items) * len(one.preferences) for one in lives]
                notes = sum(len({text for text, _ in pairs}) for pairs in found)
                shares = (
                    matters / sum(len(one.verdicts) for one in lives),
                    sum(map(len, found)) / sum(whole),
                    notes / sum(len(one.items) for one in lives),
                )
                threshold = "own tau" if recall is None else f"recall {recall}"
                name = f"lives {', '.join(names)}: {'by a model' if own else 'lent'}, {threshold}"
                print(f"{name:44}{shares[0]:>22.2f}{shares[1]:>14.2f}{shares[2]:>14.2f}", flush=True)


def print_time() -> None:
    random = np.random.default_rng(0)
    items = unit(random.standard_normal((40_000, 768), dtype=np.float32))
    preferences = unit(random.standard_normal((10, 768), dtype=np.float32))
    print()
    for tau in (0.05, 0.1):
        ours, bare, ratio = paired_seconds(
            lambda tau=tau: coarse_filter(items, preferences, tau),
            lambda tau=tau: (items @ preferences.T) >= np.float32(tau),
            runs=31,
        )
        passed = coarse_filter(items, preferences, tau).any(axis=1).mean()
        print(
            f"tau {tau}: {passed:6.2%} pass; coarse_filter {ours * 1e3:.2f} ms, product and comparison"
            f" {bare * 1e3:.2f} ms, ratio {ratio:.2f} (at most 1.5)"
        )


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    with_encoders(made)
    options = made.parse_args()
    for encoder in map(Known, encoders(options)):
        print_passing(encoder)
    print_time()


if __name__ == "__main__":
    main()
