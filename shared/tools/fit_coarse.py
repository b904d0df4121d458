"""Fits the thresholds with which a share of what matters passes the coarse filter, for the bundled encoders.

    python shared/tools/fit_coarse.py [--write]

On three lives of `written/everyday_lives` (a, b, c), with the expansions that a strong language model wrote for their
preferences (`answers_*.json`), tau is chosen such that a share of the pairs of a note and a preference that the lives'
writers marked passes: for preferences with an expansion of their own, and for those that borrow one. Printed as well:
which share of these and of all pairs passes in two lives that had no part in it (d, e), and with the encoder's own tau.
With --write the thresholds go into the encoders' configurations.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from epic_memory import Item, Preference
from epic_memory.encoders import Encoder, MiniLMEncoder, default_encoder, embed
from epic_memory.encoders.minilm import has_minilm
from epic_memory.encoders.multilingual import MultilingualEncoder, installed_table
from epic_memory.encoders.static import BUNDLED
from epic_memory.pipeline.coarse_filter import Expanded, similarity
from epic_memory.preferences.library import borrowed
from epic_memory.types import Expansion, FloatArray
from fitting import WRITTEN

LIVES = WRITTEN / "everyday_lives"
FITTED, JUDGED = ("a", "b", "c"), ("d", "e")
RECALLS = (0.7, 0.8, 0.85, 0.9, 0.95)
SHARED = Path(__file__).parents[1]
CONFIGS = {
    "epic-static-v1": (BUNDLED / "config.json", "epic_recall_taus"),
    "epic-minilm-v1": (SHARED / "epic_minilm" / "epic_minilm" / "config.json", "recall_taus"),
    "epic-multilingual-v1": (SHARED / "epic_multilingual" / "epic_multilingual" / "config.json", "recall_taus"),
}


class Pairs(NamedTuple):
    """Pairs of a note and a preference: Sim(x, p), and whether the note matters under the preference."""

    similarities: FloatArray
    matters: FloatArray

    def passing(self, tau: float) -> tuple[float, float]:
        """Return which share of the pairs that matter passes, and of all."""
        passes = self.similarities >= np.float32(tau)
        return float(passes[self.matters > 0].mean()), float(passes.mean())

    def tau(self, recall: float) -> float:
        """Return the tau at which this share of the pairs that matter passes."""
        highest = np.sort(self.similarities[self.matters > 0])[::-1]
        return float(highest[int(np.ceil(recall * len(highest))) - 1])


def pairs(encoder: Encoder, lives: Sequence[str], *, own: bool) -> Pairs:
    """Return all pairs of some lives, with the preferences' own expansions or with borrowed ones."""
    similarities, matters = [], []
    for name in lives:
        record = json.loads((LIVES / f"{name}.json").read_text(encoding="utf-8"))
        items = [
            Item(id=note["id"], text=note["text"], metadata={"title": note["title"]} if note.get("title") else {})
            for note in record["notes"]
        ]
        expanded = [Expanded(*(embed(encoder, some) for some in texts)) for texts in _texts(name, record, own=own)]
        found = similarity(
            embed(encoder, [item.content for item in items]), embed(encoder, record["preferences"]), expanded
        )
        place = {item.id: number for number, item in enumerate(items)}
        marked = np.zeros(found.shape, dtype=np.float32)
        for verdict in record["verdicts"]:
            marked[place[verdict["note"]], verdict["preference"]] = 1.0
        similarities.append(found.ravel())
        matters.append(marked.ravel())
    return Pairs(np.concatenate(similarities), np.concatenate(matters))


def _texts(name: str, record: dict[str, list[str]], *, own: bool) -> list[tuple[list[str], list[str]]]:
    """Return phrases and questions of each preference, as `pipeline.coarse_filter.expanded_phrases` takes them."""
    preferences = record["preferences"]
    if own:
        answers = json.loads((LIVES / f"answers_{name}.json").read_text(encoding="utf-8"))["preferences"]
        return [([*one["follows"], *one["breaks"]], one["questions"]) for one in answers]
    lent: list[Expansion | None] = borrowed([Preference(text=text) for text in preferences])
    return [
        ([], []) if one is None else ([*one.follows, *one.breaks], [text])
        for one, text in zip(lent, preferences, strict=True)
    ]


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--write", action="store_true", help="write the thresholds into the encoders' configurations")
    options = made.parse_args()
    encoders: list[Encoder] = [default_encoder()]
    encoders += [MiniLMEncoder()] if has_minilm() else []
    encoders += [MultilingualEncoder()] if installed_table() else []
    for encoder in encoders:
        taus: dict[str, list[float]] = {str(recall): [] for recall in RECALLS}
        for own in (True, False):
            fitted, judged = (pairs(encoder, lives, own=own) for lives in (FITTED, JUDGED))
            print(f"{encoder.name}, {'own' if own else 'borrowed'} expansions")
            named = [(f"{recall:.2f}", round(fitted.tau(recall), 3)) for recall in RECALLS]
            for recall, tau in [*named, ("own tau", float(encoder.tau))]:  # type: ignore[attr-defined]
                found, share = judged.passing(tau)
                print(f"    {recall:8} tau {tau:.3f}: of unseen pairs that matter {found:.2f} pass, of all {share:.2f}")
            for recall, tau in named:
                taus[str(float(recall))].append(tau)
        if options.write:
            path, key = CONFIGS[encoder.name]
            config = json.loads(path.read_text(encoding="utf-8")) | {key: taus}
            path.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
