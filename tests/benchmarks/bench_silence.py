"""Turns in which nothing of a memory matters, and turns in which something does: what is put before the model.

Ten lives (`shared/tools/written/silence`), each of 12 preferences, 40 notes and 150 turns, by two people who saw no
code. In 100 turns nothing that is kept matters: small talk, general knowledge, tasks for others, questions near the
topic of a preference or a note, facts of other people. In 50 turns one or two notes or preferences are needed. Lives
1 and 6 were looked at, the other eight were only run.

Every store holds a life's notes and preferences and is asked with each turn as it comes. Ours knows the preferences as
such, has default settings and no model, and is measured by its context, which lists preferences. The others take all as
texts, with one encoder for all (static): Chroma and FAISS give their usual five; LangMem's search tool, mem0
(`infer=False`) and LlamaIndex's VectorMemoryBlock what they give by default. What is not installed is left out (extra:
peers).

- silent turns: the share with anything injected, by kind of turn; words added.
- needed: the share of the notes, and of the preferences, that come; of these turns, how many have others beside.
- listed: how many preferences that do not matter come with a silent turn, and with one where something is needed.

"personal" is our context with `SearchOptions(min_score="personal")`. `--curve` prints what each share of what is needed
costs in turns that need nothing, for each encoder. By default the bounds of what is relevant move together, by the same
log-odds for notes and for preferences; of "personal" the bound moves from which a question asks for the user's own
matters. 0 is what is shipped.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import Known, encoders, panels, save_figure, script_options  # puts shared/tools on the path
from epic_memory import EpicMemory, SearchOptions
from epic_memory.context import ContextWeights
from epic_memory.encoders import Encoder
from epic_memory.pipeline.candidates import CandidateWeights
from epic_memory.steering.question_kind import QuestionWeights
from epic_memory.types.weights import StageWeights, used
from fitting import WRITTEN
from stores import PEERS, Peer

LIVES = WRITTEN / "silence"
LOOKED_AT = ("life_1", "life_6")
SILENT = ("small_talk", "general_knowledge", "for_others", "near_topic", "others_facts")
AIM = (0.02, 0.95)
PERSONAL = SearchOptions(min_score="personal")
# Log-odds by which bounds are moved.
MOVED = (-4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)
Search = Callable[[str], str]
"""Returns everything that is put before a model."""


def context(life: dict[str, Any], folder: Path) -> Search:
    memory = EpicMemory(life["preferences"])
    memory.add(life["notes"])
    return memory.context


def personal(life: dict[str, Any], folder: Path) -> Search:
    memory = EpicMemory(life["preferences"])
    memory.add(life["notes"])
    return partial(memory.context, options=PERSONAL)


def store(name: str, search: Callable[[Any, str], Sequence[str]]) -> Callable[[dict[str, Any], Path], Search]:
    def opened(life: dict[str, Any], folder: Path) -> Search:
        version(PEERS[name].package)
        peer: Peer = PEERS[name].make(folder)
        peer.add([*life["preferences"], *life["notes"]])
        return lambda turn: "\n".join(search(peer, turn))

    return opened


def five(peer: Peer, turn: str) -> Sequence[str]:
    return peer.search(turn)[:5]


def mem0(peer: Any, turn: str) -> Sequence[str]:
    return [each["memory"] for each in peer.memory.search(turn, filters={"user_id": "user"})["results"]]


def block(peer: Any, turn: str) -> Sequence[str]:
    peer._block.similarity_top_k = type(peer._block).model_fields["similarity_top_k"].default
    return list(peer.search(turn))


WAYS: dict[str, Callable[[dict[str, Any], Path], Search]] = {
    "epic-memory, context": context,
    "epic-memory, personal": personal,
    "FAISS flat, five": store("FAISS flat", five),
    "Chroma, five": store("Chroma", five),
    "LangMem, search tool": store("LangMem", lambda peer, turn: list(peer.search(turn))),
    "mem0, search": store("mem0, infer off", mem0),
    "VectorMemoryBlock": store("VectorMemoryBlock over Chroma", block),
}


class Turn(NamedTuple):
    """What a way puts before a model in one turn.

    Attributes:
        notes, preferences: Of those needed, how many come.
        beside: How many others come.
        listed: How many of these are preferences.
        words: How long all of it is.
    """

    kind: str
    notes: tuple[int, int]
    preferences: tuple[int, int]
    beside: int
    listed: int
    words: int


def asked(life: dict[str, Any], turn: dict[str, Any], search: Search) -> Turn:
    given = search(turn["text"])
    come = {
        kind: {number for number, text in enumerate(life[kind]) if text in given} for kind in ("notes", "preferences")
    }
    notes, preferences = set(turn["needs"]), set(turn["prefers"])
    beside = len(come["notes"] - notes) + len(come["preferences"] - preferences)
    return Turn(
        kind=turn["kind"],
        notes=(len(come["notes"] & notes), len(notes)),
        preferences=(len(come["preferences"] & preferences), len(preferences)),
        beside=beside,
        listed=len(come["preferences"] - preferences),
        words=len(given.split()),
    )


def of(turns: Sequence[tuple[int, int]]) -> float:
    come, needed = np.sum(turns, axis=0)
    return float(come / max(needed, 1))


def figures(turns: Sequence[Turn]) -> dict[str, float]:
    """Return the figures of one way, by the names of the rows."""
    silent, needed = [one for one in turns if one.kind in SILENT], [one for one in turns if one.kind not in SILENT]
    both = [pair for one in needed for pair in (one.notes, one.preferences)]
    return {
        "silent turns with anything": float(np.mean([one.words > 0 for one in silent])),
        **{f"    {kind}": float(np.mean([one.words > 0 for one in silent if one.kind == kind])) for kind in SILENT},
        "    words added": float(np.mean([one.words for one in silent])),
        "    preferences listed": float(np.mean([one.listed for one in silent])),
        "needed that come": of(both),
        "    notes": of([one.notes for one in needed]),
        "    preferences": of([one.preferences for one in needed]),
        "    turns with others beside": float(np.mean([one.beside > 0 for one in needed])),
        "    words added, needed": float(np.mean([one.words for one in needed])),
        "    others listed": float(np.mean([one.listed for one in needed])),
    }


def measured(lives: Sequence[dict[str, Any]], ways: Sequence[str]) -> dict[str, dict[str, float]]:
    made = {}
    for name in ways:
        turns: list[Turn] = []
        try:
            for life in lives:
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    search = WAYS[name](life, Path(folder))
                    turns += [asked(life, turn, search) for turn in life["turns"]]
        except (ImportError, PackageNotFoundError) as missing:
            print(f"{name}: not installed ({missing})")
            continue
        made[name] = figures(turns)
    return made


def moved_chance(chance: float, by: float) -> float:
    """Return a chance with its log-odds moved."""
    return 1.0 / (1.0 + (1.0 - chance) / chance * math.exp(-by))


def moved(by: float, options: SearchOptions) -> tuple[StageWeights, ...]:
    """Return the weights with bounds moved by log-odds: the question's of "personal", else of what is relevant."""
    if options.min_score == "personal":
        questions = QuestionWeights.shipped()
        return (replace(questions, own=moved_chance(questions.own, by)),)
    notes, preferences = CandidateWeights.shipped(), ContextWeights.shipped()
    least = moved_chance(preferences.least_chance, by)
    return replace(notes, needed=notes.needed + by), replace(preferences, least_chance=least)


def curve(lives: Sequence[dict[str, Any]], encoder: Encoder, options: SearchOptions) -> dict[float, dict[str, float]]:
    """Return the figures of our context with each of the bounds."""
    turns = {by: list[Turn]() for by in MOVED}
    for life in lives:
        memory = EpicMemory(life["preferences"], encoder=encoder)
        memory.add(life["notes"])
        for by in MOVED:
            with used(*moved(by, options)):
                turns[by] += [asked(life, turn, partial(memory.context, options=options)) for turn in life["turns"]]
    return {by: figures(some) for by, some in turns.items()}


def print_curves(lives: Sequence[dict[str, Any]], several: Sequence[Encoder]) -> None:
    shown = (
        "silent turns with anything",
        "needed that come",
        "    notes",
        "    preferences",
        "    words added",
        "    words added, needed",
    )
    for encoder in several:
        known = Known(encoder)
        for name, options in (("default", SearchOptions()), ("personal", PERSONAL)):
            found = curve(lives, known, options)
            print(f"\n{encoder.name}, {name}: bounds moved by, in log-odds")
            print(f"{'':30}" + "".join(f"{by:>8.1f}" for by in found))
            for row in shown:
                print(f"{row:30}" + "".join(f"{each[row]:>8.3f}" for each in found.values()), flush=True)


def draw(made: dict[str, dict[str, float]], path: Path) -> None:
    figure, ((axes,),) = panels(1, (6.4, 4.2))
    at: dict[tuple[float, float], list[str]] = {}
    for name, found in made.items():
        at.setdefault((found["silent turns with anything"], found["needed that come"]), []).append(name)
    for point, names in at.items():
        axes.plot(*point, "o", color="#0b6e4f" if names[0].startswith("epic") else "#6c757d")
        left = point[0] > 0.6
        axes.annotate(
            "; ".join(names),
            point,
            xytext=(-7 if left else 7, 0),
            textcoords="offset points",
            va="center",
            ha="right" if left else "left",
            fontsize=8,
        )
    axes.plot(*AIM, "*", color="#d1495b", markersize=11)
    axes.annotate("aim", AIM, xytext=(8, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set(
        xlabel="silent turns with anything injected",
        ylabel="needed notes and preferences that come",
        xlim=(-0.02, 1.04),
        ylim=(0.0, 1.04),
    )
    save_figure(figure, path)


def main() -> None:
    options = script_options(__doc__, encoders=True, ways=list(WAYS), plot=str, curve=False)
    lives = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(LIVES.glob("life_*.json"))}
    if options.curve:
        print_curves([life for name, life in lives.items() if name not in LOOKED_AT], encoders(options))
        return
    for looked_at in (True, False):
        some = [life for name, life in lives.items() if (name in LOOKED_AT) == looked_at]
        found = measured(some, options.ways)
        turns = sum(len(one["turns"]) for one in some)
        print(f"\n{'looked at' if looked_at else 'only run'}: {len(some)} lives, {turns} turns")
        for row in next(iter(found.values())):
            print(f"{row:30}" + "".join(f"{each[row]:>10.3f}" for each in found.values()))
        print(f"{'':30}" + "; ".join(found))
    if options.plot:
        draw(found, Path(options.plot))


if __name__ == "__main__":
    main()
