"""A tiny data folder of our own, in the form that docs/data.md describes."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import jsonl
from tables import table

VEGAN = "I follow a vegan diet and avoid all meat."
TRAINS = "I prefer trains and refuse to fly."
QUIET = "I like quiet places and avoid crowds."
_PREFERENCES = (VEGAN, TRAINS, QUIET)
_QUESTIONS = {
    VEGAN: "What should I cook for dinner tonight?",
    TRAINS: "How should I travel to Vienna?",
    QUIET: "Where should I spend the weekend?",
}
OPTIONS = {VEGAN: table(__file__, "VEGAN"), TRAINS: table(__file__, "TRAINS")}
"""Options by preference; the first of each follows it."""
_SUBJECTS = ("bridges", "beetles", "poets", "volcanoes", "looms", "tides", "maps", "bells")


def tiny_data(folder: Path, *, personas: int = 2) -> Path:
    """Writes the folder: two sets, multiple choices, labels and a haystack."""
    (folder / "personas").mkdir(parents=True)
    blocks = [{"preference": p, "queries": [{"question": _QUESTIONS[p]}]} for p in _PREFERENCES]
    people = [{"persona_index": number, "preference_blocks": blocks[: 3 - number % 2]} for number in range(personas)]
    for name in ("PrefWiki", "PrefRQ"):
        (folder / "personas" / f"{name}.json").write_text(json.dumps(people), encoding="utf-8")
    jsonl(
        folder / "mcq.jsonl",
        *({"preference": p, "question": _QUESTIONS[p], "options": options} for p, options in OPTIONS.items()),
    )
    chunk = "The heath is a quiet place without crowds, even on a weekend."
    jsonl(
        folder / "labels.jsonl",
        {
            "source": "doc-0#0",
            "chunk": chunk,
            "preferences": [QUIET, VEGAN],
            "alignments": [{"preference": 0, "stance": "supports"}],
        },
    )
    with (folder / "labels.jsonl").open("a", encoding="utf-8") as file:
        for number, preference in enumerate((VEGAN, TRAINS)):
            chunk = f"A page that says nothing of it, number {number}."
            label = {"source": "none", "chunk": chunk, "preferences": [preference], "alignments": []}
            file.write(json.dumps(label) + "\n")
    jsonl(
        folder / "passages.jsonl",
        *(
            {"id": f"doc-{n}", "title": subject, "text": f"This text number {n} is about old {subject} and their use."}
            for n, subject in enumerate(_SUBJECTS * 3)
        ),
    )
    return folder
