"""The labelled pairs that `epic eval prompts` asks a model about, `shared/epic_eval/data/pairs.jsonl`.

From the two made-up lives that were looked at (`written/everyday_lives`, a and b): every pair of a note and a
preference to which it matters, by its writer and by a strong language model alike, with the words that decide it by the
latter; and as many pairs that do not: each note that matters to no preference, and notes that matter to another one,
under the nearest preference that is left.

    python shared/tools/make_pairs.py
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import numpy as np

from epic_memory import Item
from epic_memory.encoders import default_encoder, embed
from fitting import WRITTEN

TO = WRITTEN.parents[1] / "epic_eval" / "data" / "pairs.jsonl"


def notes_of(name: str) -> list[dict[str, Any]]:
    """The notes of a life, each with its preferences, nearest first; those it does not matter to have no stance."""
    lives = WRITTEN / "everyday_lives"
    life, answers = (json.loads((lives / f"{each}{name}.json").read_text("utf-8")) for each in ("", "answers_"))
    right = {(one["note"], one["preference"]): one["stance"] for one in life["verdicts"]}
    labels: dict[str, dict[int, dict[str, str]]] = {}
    for one in answers["verdicts"]:
        assert right[one["note"], one["preference"]] == one["stance"], one
        label = {"stance": one["stance"], "evidence": one["evidence"]}
        labels.setdefault(one["note"], {})[one["preference"]] = label
    encoder, preferences = default_encoder(), life["preferences"]
    vectors = embed(encoder, preferences)
    made = []
    for note in life["notes"]:
        title = {"title": note["title"]} if note.get("title") else {}
        near = vectors @ embed(encoder, [Item(text=note["text"], metadata=title).content])[0]
        own = labels.get(note["id"], {})
        chosen = {**own, next(int(row) for row in np.argsort(-near) if int(row) not in own): {}}
        order = sorted(chosen, key=lambda row: -near[row])
        pairs = [{"preference": preferences[row], **chosen[row]} for row in order]
        made.append({**title, "text": note["text"], "pairs": pairs})
    return made


def matters(pair: dict[str, str]) -> bool:
    return "stance" in pair


def main() -> None:
    notes = [note for name in "ab" for note in notes_of(name)]
    # The order of a file tells nothing, so that the first part of it is a fair sample.
    notes.sort(key=lambda note: blake2b(note["text"].encode()).digest())
    counted = sum(matters(pair) for note in notes for pair in note["pairs"])
    spare = sum(len(note["pairs"]) for note in notes) - 2 * counted
    for note in notes:
        if spare and any(map(matters, note["pairs"])):
            note["pairs"] = [pair for pair in note["pairs"] if matters(pair)]
            spare -= 1
    lines = [json.dumps(note, ensure_ascii=False) + "\n" for note in notes]
    TO.write_text("".join(lines), encoding="utf-8")
    pairs = [pair for note in notes for pair in note["pairs"]]
    print(f"{TO}: {len(notes)} notes, {len(pairs)} pairs, {sum(map(matters, pairs))} of which matter")


if __name__ == "__main__":
    main()
