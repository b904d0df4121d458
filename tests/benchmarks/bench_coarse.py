"""What passes the coarse filter on whole made-up lives.

Of the pairs of a note and a preference that the writers of the lives (`shared/tools/written/everyday_lives`) marked,
the share that passes; of all pairs; and of the notes, those that pass under any preference: what a model has to judge.
With expansions by a model (replayed, as in `bench_lives.py`) and with those that the bundled library lends; with the
encoder's own tau, and with the thresholds that let nine tenths pass (`coarse_recall=0.9`, the default where a model
judges). These were fitted on lives a, b and c (`shared/tools/fit_coarse.py`); d and e were only run.
"""

from __future__ import annotations

from bench_lives import Life, ReplayedModel, life
from common import Judging, Known, encoders, script_options
from epic_memory import EpicMemory, Settings
from epic_memory.encoders import Encoder
from epic_memory.types import Candidate, Decision, Verdict

FITTED, ONLY_RUN = "abc", "de"


class Passing(Judging):
    """A verifier that stands for a model, and writes down the pairs that it is asked to judge."""

    name = "passing"
    cached = True

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()

    def verdict(self, candidate: Candidate) -> Verdict:
        self.pairs |= {(candidate.item.text, preference.id) for preference in candidate.preferences}
        return Verdict(decision=Decision.DISCARD, rationale="not judged here")


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


def main() -> None:
    options = script_options(__doc__, encoders=True)
    for encoder in map(Known, encoders(options)):
        print_passing(encoder)


if __name__ == "__main__":
    main()
