"""Facts over twelve weeks: are updates, ends and repetitions recognised, and does a question find the current value.

    python tests/benchmarks/bench_edits.py [FILE ...]

Each file has one person a line: statements by week, each with what it should do to an earlier one, and questions with
the statement that answers them at that time. Without a language model. The confusion matrix shows what should be done
(rows) and what was done; "other" is the right edit of a wrong statement. A current fact is lost where an insert, or the
change or end of something else, took its place. Lives made of templates have the same form: any file can be given.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from epic_core import EpicMemory

WRITTEN = Path(__file__).parents[2] / "shared" / "tools" / "written"
KINDS = ("insert", "replace", "duplicate", "end")


class Life:
    """One person's statements, taken into a memory week by week.

    Args:
        record: As a line of the file has it.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        self.statements, self.questions = record["statements"], record["questions"]
        self.memory = EpicMemory(["I like good advice."], reserve=0)
        self.done: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.lost = 0

    def live(self) -> Counter[str]:
        """Take everything in, and return the counts of the answers."""
        answers: Counter[str] = Counter()
        number = 0
        for week in range(1, 13):
            while number < len(self.statements) and self.statements[number]["week"] <= week:
                self._add(number)
                number += 1
            for question in self.questions:
                if question["week"] == week:
                    answers += self._asked(question)
        return answers

    def _add(self, number: int) -> None:
        statement = self.statements[number]
        (edit,) = self.memory.add_fact(statement["text"]).edits
        about = None if statement["about"] is None else self.statements[statement["about"]]["text"]
        right = edit.kind == statement["does"] and (about is None or self._same(edit.old, statement["about"]))
        self.lost += edit.kind in ("replace", "end") and not self._same(edit.old, statement["about"])
        self.done[statement["does"], edit.kind if right or edit.kind != statement["does"] else "other"] += 1
        if not right:
            old = "" if edit.old is None else f" [{edit.old.text}]"
            self.wrong.append(f"{statement['does']} -> {edit.kind}{old}: {statement['text']}  (about: {about})")

    def _same(self, old: Any, about: int | None) -> bool:
        """Tell whether an edit was done to a statement, or to another that says the same."""
        if about is None:
            return False
        texts = {self.statements[about]["text"]}
        texts |= {one["text"] for one in self.statements if one["does"] == "duplicate" and one["about"] == about}
        return old is not None and old.text in texts

    def _asked(self, question: dict[str, Any]) -> Counter[str]:
        found = [hit.item.text for hit in self.memory.search(question["question"], k=5)]
        stale = {self.statements[place]["text"] for place in question["stale"]}
        counts = Counter(asked=1, stale=bool(stale & set(found)))
        if question["answer"] is None:
            return counts + Counter(over=1)
        right = {self.statements[question["answer"]]["text"]}
        right |= {
            one["text"] for one in self.statements if one["does"] == "duplicate" and one["about"] == question["answer"]
        }
        held = bool(right & {fact.text for fact in self.memory.facts()})
        first = bool(found) and found[0] in right
        if not first:
            self.wrong.append(f"? {question['question']} -> {found[:2]} (answer: {right})")
        return counts + Counter(answerable=1, first=first, five=bool(right & set(found)), held=held)


def print_file(path: Path, *, shown: bool) -> None:
    """Print the figures of one file."""
    lives = [Life(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    answers, done = Counter[str](), Counter[tuple[str, str]]()
    for life in lives:
        answers += life.live()
        done += life.done
        for line in life.wrong if shown else ():
            print("   ", line)
    print(f"{path.name}: {len(lives)} people, {sum(done.values())} statements, {answers['asked']} questions")
    print("    should be" + "".join(f"{kind:>11}" for kind in (*KINDS, "other")))
    for kind in KINDS:
        print(f"    {kind:9}" + "".join(f"{done[kind, made]:11}" for made in (*KINDS, "other")))
    total = max(1, answers["answerable"])
    print(
        f"    the current value first {answers['first'] / total:.3f}, among five {answers['five'] / total:.3f}, held"
        f" {answers['held'] / total:.3f} of {total}; a stale value among five {answers['stale'] / answers['asked']:.3f}"
        f" of {answers['asked']}; current facts lost {sum(life.lost for life in lives)}"
    )


def main() -> None:
    given = [one for one in sys.argv[1:] if not one.startswith("-")]
    for path in map(Path, given) if given else sorted(WRITTEN.glob("lives_*.jsonl")):
        print_file(path, shown="--wrong" in sys.argv)


if __name__ == "__main__":
    main()
