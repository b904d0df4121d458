"""Benchmark of proposals from conversations: precision, recall and kinds on labelled turns, and hostile turns obeyed.

    python tests/benchmarks/bench_proposals.py [FOLDER] [--turns turns_b.jsonl] [--model] [--left-out]

With --model a language model reads the turns as well: replayed, from the answers that a strong one gave to the real
prompt for each turn of `turns_e.jsonl`, without the labels (`answers_turns_e.jsonl`).

A proposal is right if its turn is labelled with one of its kind whose quote shares at least half of the words of the
shorter of the two, and if it expires where the label says that it is temporary. With --left-out each file is read by
weights fitted without it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import Replayed, read_jsonl
from epic_learn import cues
from epic_learn.types import Proposal
from epic_memory import EpicMemory
from epic_memory.lm.base import Schema
from epic_memory.lm.prompting import quoted
from epic_memory.types import Preference
from fitting import WRITTEN

UNSEEN = "turns_e.jsonl"


class ReplayedModel(Replayed):
    """A language model that answers with what a strong one said of the turn that stands in the prompt."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.answers = {quoted(each["turn"]): each["proposals"] for each in read_jsonl(path)}

    def answer(self, prompt: str, schema: Schema | None) -> dict[str, Any]:
        # The first line of a turn follows its number and speaker.
        shown = [turn for turn in self.answers if turn.removeprefix("| ") in prompt]
        return {"proposals": self.answers[max(shown, key=len)]}


def memory_with(known: list[str], expected: list[dict[str, Any]]) -> EpicMemory:
    """Return a memory that knows some statements, as facts if the label changes a fact."""
    facts = any(each["kind"].endswith("fact") for each in expected)
    memory = EpicMemory([] if facts else [Preference(text=text) for text in known])
    for text in known if facts else ():
        memory.facts.add(text)
    return memory


def words(text: str) -> set[str]:
    return set(text.casefold().replace("\u2019", "'").split())


def is_right(proposal: Proposal, label: dict[str, Any], *, kind: bool = True) -> bool:
    one, other = words(proposal.quote), words(label["quote"])
    near = len(one & other) >= 0.5 * min(len(one), len(other))
    temporary = (proposal.expires_at is not None) == label["temporary"]
    return near and (not kind or (proposal.kind == label["kind"] and temporary))


def measure(path: Path, lm: ReplayedModel | None) -> None:
    rows = read_jsonl(path)
    made = right = near = wanted = traps = 0
    for row in rows:
        with memory_with(row["known"], row["expect"]) as memory:
            proposals = memory.proposals.propose([{"role": "user", "content": row["turn"]}], lm=lm)
        open_labels = list(row["expect"])
        wanted += len(open_labels)
        for proposal in proposals:
            assert proposal.quote in row["turn"]
            made += 1
            near += any(is_right(proposal, label, kind=False) for label in row["expect"])
            hit = next((label for label in open_labels if is_right(proposal, label)), None)
            if hit is not None:
                open_labels.remove(hit)
                right += 1
        traps += row["kind"] in ("trap", "nothing") and bool(proposals)
    print(f"{path.name}: {len(rows)} turns, {made} proposals, {wanted} labelled")
    print(f"  precision {right / max(made, 1):.3f}   ({near / max(made, 1):.3f} whatever the kind)")
    print(f"  recall    {right / max(wanted, 1):.3f}")
    print(f"  traps and nothings with a proposal: {traps}")


def obeyed(path: Path) -> None:
    """Count hostile turns that yield anything that their labels do not allow."""
    rows, wrong = read_jsonl(path), 0
    for row in rows:
        with EpicMemory(["I like green tea."]) as memory:
            proposals = memory.proposals.propose([{"role": "user", "content": row["turn"]}])
        wrong += any(not any(is_right(each, label) for label in row.get("expect", ())) for each in proposals)
    print(f"{path.name}: {wrong} of {len(rows)} hostile turns obeyed")


def leave_out(name: str) -> None:
    """Read by weights that were fitted without a file."""
    from fit_cues import FITTED, fitted, rows_of

    weights = fitted([row for other in FITTED if f"{other}.jsonl" != name for row in rows_of(other)])
    single = {feature: row.astype("float32") for feature, row in weights.items()}
    cues._weights = lambda: single  # type: ignore[assignment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=WRITTEN)
    parser.add_argument("--turns", action="append", help="a file of labelled turns (repeatable); default: all of them")
    parser.add_argument("--model", action="store_true", help="with a strong model's answers; of turns_e.jsonl only")
    parser.add_argument("--left-out", action="store_true", help="read each file by weights fitted without it")
    options = parser.parse_args()
    if options.model:
        measure(options.folder / UNSEEN, ReplayedModel(options.folder / f"answers_{UNSEEN}"))
        return
    for name in options.turns or sorted(file.name for file in options.folder.glob("turns_*.jsonl")):
        if options.left_out:
            leave_out(name)
        measure(options.folder / name, None)
    obeyed(options.folder / "hostile.jsonl")


if __name__ == "__main__":
    main()
