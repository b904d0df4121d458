"""Facts over twelve weeks: are updates, ends and repetitions recognised, and does a question find the current value.

    python tests/benchmarks/bench_edits.py [FILE ...] [--model]

Each file has one person a line: statements by week, each with what it should do to an earlier one, and questions with
the statement that answers them at that time. Of `lives_d.jsonl` only the half that was never looked at is run. Without
a language model; with --model one is asked about each fact: replayed, from what a strong one answered for each
statement of `lives_e.jsonl` without the labels (`answers_lives_e.jsonl`). The confusion matrix shows what should be
done (rows) and what was done at once; "other" is the right edit of a wrong statement. "proposed" are changes and ends
that wait for the user, who accepts the right ones here and rejects the others. A current fact is lost where the change
or end of something else took its place, or where it is taken for a repetition. Lives made of templates have the same
form: any file can be given.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import Replayed, read_jsonl
from epic_memory import EpicMemory, Settings
from epic_memory.lm.base import Schema
from epic_memory.lm.prompting import one_line, quoted
from fitting import WRITTEN

KINDS = ("insert", "replace", "duplicate", "end")
MADE = (*KINDS, "proposed", "other")


UNSEEN = "lives_e.jsonl"
ONLY_RUN = {"lives_d.jsonl": 20}
"""From which person on a file was only run, where its first part was looked at."""


class ReplayedModel(Replayed):
    """A language model that answers what a strong one said of each statement of one person.

    Args:
        texts: The statements.
        answers: For each, its "decision", the place of the statement that it is "about", or None, and the "questions"
            that it answers.
    """

    def __init__(self, texts: Sequence[str], answers: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self.texts, self.answers = texts, answers

    def answer(self, prompt: str, schema: Schema | None) -> dict[str, Any]:
        facts, statement = prompt.split("The new statement:")
        asked = max((text for text in self.texts if quoted(text) in statement), key=len)
        answer = self.answers[self.texts.index(asked)]
        numbers = {
            line.split(". ", 1)[1]: int(line[2:].split(".")[0]) for line in facts.splitlines() if line[:2] == "| "
        }
        number = next((numbers[one] for one in self._alike(answer["about"]) if one in numbers), 0)
        decided = {"decision": answer["decision"] if number else "new", "number": number}
        return {**decided, "questions": answer["questions"]}

    def _alike(self, about: int | None) -> list[str]:
        """Return a statement and those that the model took for repetitions of it, as a prompt shows them."""
        if about is None:
            return []
        same = [n for n, each in enumerate(self.answers) if each["decision"] == "same" and each["about"] == about]
        return [one_line(self.texts[n]) for n in (about, *same)]


class Life:
    """One person's statements, taken into a memory week by week.

    Args:
        record: As a line of the file has it.
        answers: What a model answers of each statement, if one is asked.
    """

    def __init__(self, record: dict[str, Any], answers: Sequence[dict[str, Any]] | None = None) -> None:
        self.statements, self.questions = record["statements"], record["questions"]
        texts = [statement["text"] for statement in self.statements]
        model = None if answers is None else ReplayedModel(texts, answers)
        self.memory = EpicMemory(
            ["I like good advice."] if model is None else [], settings=Settings(reserve=0, expander=model)
        )
        self.done: Counter[tuple[str, str]] = Counter()
        self.lost = self.wrongly_proposed = 0
        self._past: set[int] = set()

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
        (edit,) = self.memory.facts.add(statement["text"]).edits
        made: str = edit.kind
        old = None if edit.old is None else edit.old.text
        for proposal in self.memory.proposals:
            # Either of the two may be what is meant: the user may correct the text of a proposal.
            if self._same(proposal.old, statement["about"]):
                self.memory.proposals.accept(proposal)
                made, old = "proposed", proposal.old
            else:
                self.memory.proposals.reject(proposal)
                self.wrongly_proposed += 1
        same = self._same(old, statement["about"])
        right = made in (statement["does"], "proposed") and (statement["about"] is None or same)
        another = edit.kind in ("replace", "end") and not same
        unheld = edit.kind == "duplicate" and statement["does"] in ("insert", "replace")
        self.lost += (another and self._holds(old)) or unheld
        self.done[statement["does"], made if right or made != statement["does"] else "other"] += 1
        if statement["does"] in ("replace", "end"):
            self._past.add(statement["about"])

    def _holds(self, text: str | None) -> bool:
        """Tell whether a statement says what is neither changed nor over."""
        past = {text for place in self._past for text in self._texts(place)}
        return text is not None and text not in past

    def _texts(self, about: int) -> set[str]:
        """Return a statement and the others that say the same."""
        same = {one["text"] for one in self.statements if one["does"] == "duplicate" and one["about"] == about}
        return {self.statements[about]["text"]} | same

    def _same(self, old: str | None, about: int | None) -> bool:
        """Tell whether an edit was done to a statement, or to another that says the same."""
        return about is not None and old in self._texts(about)

    def _asked(self, question: dict[str, Any]) -> Counter[str]:
        found = [hit.item.text for hit in self.memory.search(question["question"], k=5)]
        stale = {self.statements[place]["text"] for place in question["stale"]}
        counts = Counter(asked=1, stale=bool(stale & set(found)))
        if question["answer"] is None:
            return counts + Counter(over=1)
        right = self._texts(question["answer"])
        held = bool(right & {fact.text for fact in self.memory.facts})
        first = bool(found) and found[0] in right
        return counts + Counter(answerable=1, first=first, five=bool(right & set(found)), held=held)


def print_file(path: Path, *, model: bool = False) -> None:
    """Print the figures of one file."""
    people = read_jsonl(path)[ONLY_RUN.get(path.name, 0) :]
    answers = read_jsonl(path.parent / f"answers_{path.name}") if model else [None] * len(people)
    lives = [Life(person, answered) for person, answered in zip(people, answers, strict=True)]
    asked, done = Counter[str](), Counter[tuple[str, str]]()
    for life in lives:
        asked += life.live()
        done += life.done
    print(f"{path.name}: {len(lives)} people, {sum(done.values())} statements, {asked['asked']} questions")
    print("    should be" + "".join(f"{kind:>11}" for kind in MADE))
    for kind in KINDS:
        print(f"    {kind:9}" + "".join(f"{done[kind, made]:11}" for made in MADE))
    total = max(1, asked["answerable"])
    print(
        f"    the current value first {asked['first'] / total:.3f}, among five {asked['five'] / total:.3f}, held"
        f" {asked['held'] / total:.3f} of {total}; a stale value among five {asked['stale'] / asked['asked']:.3f}"
        f" of {asked['asked']}; current facts lost {sum(life.lost for life in lives)},"
        f" wrongly proposed {sum(life.wrongly_proposed for life in lives)}"
    )


def main() -> None:
    if "--model" in sys.argv:
        print_file(WRITTEN / UNSEEN, model=True)
        return
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(WRITTEN.glob("lives_*.jsonl")):
        print_file(path)


if __name__ == "__main__":
    main()
