"""What a memory finds and says in nine languages: notes, choices, questions in English, and stances.

For each language somebody who saw no code wrote about a made-up person (`shared/tools/written/languages`): 60
preferences, 40 choices between a note that suits one of them and a note of the same kind that goes against it, 20 notes
with a question each and a note near it that is no answer, the same questions in English, and 30 texts near a preference
with their stance. The nine people have much in common, so the languages are no independent samples.

Each memory holds the language's preferences and all of its notes, 120, with its default settings. The columns:

- notes: of 20 questions, those whose note is the first hit; `among 3` those whose note is among the first three.
- English: the same, asked in English (for English itself, the same questions).
- choices: of 40, those whose suiting note stands before the conflicting one; `found` those with either among ten
  hits.
- inverted: of the texts that suit or conflict, those that are said to do the opposite; `right` those that are said
  to do what they do.

    python tests/benchmarks/bench_languages.py [--encoder NAME ...] [--llm NAME]
    python tests/benchmarks/bench_languages.py --only parallel [--encoder NAME ...]
    python tests/benchmarks/bench_languages.py --only speed [--encoder NAME ...]
    python tests/benchmarks/bench_languages.py --only turns [--encoder NAME ...]

`parallel` asks for the English one of 150 everyday sentences by its translation into each of 20 languages, by the
encoder alone. `speed` prints the median time of a question and how many notes are encoded in a second. `turns` counts
those of `written/languages/turns.jsonl` for which anything is found: only those of the kinds recall and choice need a
memory, and it seldom holds what they ask for.
"""

from __future__ import annotations

import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import encoders, read_jsonl, script_options
from epic_memory import EpicMemory, Item, Stance
from epic_memory.encoders import Encoder

CASES = Path(__file__).resolve().parents[2] / "shared" / "tools" / "written" / "languages"
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "ja", "zh")
STANCES = {"suits": Stance.SUPPORTS, "conflicts": Stance.CONFLICTS}


def found(memory: EpicMemory, question: str, k: int) -> list[str]:
    """Return the ids of what a question finds, best first."""
    return [hit.item.id for hit in memory.search(question, k=k)]


def memory_of(case: dict[str, Any], encoder: Encoder, llm: str | None) -> EpicMemory:
    """Return a memory of a language's preferences and notes."""
    memory = EpicMemory([one["text"] for one in case["preferences"]], encoder=encoder, llm=llm)
    memory.add(
        Item(id=f"{kind}{number}", text=text)
        for number, texts in enumerate([*case["notes"], *case["choices"]])
        for kind, text in texts.items()
        if kind in ("note", "distractor", "suits", "conflicts")
    )
    return memory


def row(case: dict[str, Any], encoder: Encoder, llm: str | None) -> list[int]:
    """Return the figures of one language."""
    preferences = [one["text"] for one in case["preferences"]]
    with memory_of(case, encoder, llm) as memory:
        own = [found(memory, note["question"], 3) for note in case["notes"]]
        english = [found(memory, one["question_en"], 1) for one in case["cross"]]
        choices = [found(memory, choice["question"], 10) for choice in case["choices"]]
    first = len(case["notes"])
    suits, either = 0, 0
    for number, hits in enumerate(choices, first):
        places = {kind: hits.index(kind + str(number)) for kind in STANCES if kind + str(number) in hits}
        either += bool(places)
        suits += "suits" in places and places["suits"] <= min(places.values())
    inverted, right = stances(case["near"], preferences, encoder, llm)
    return [
        sum(hits[:1] == [f"note{number}"] for number, hits in enumerate(own)),
        sum(f"note{number}" in hits for number, hits in enumerate(own)),
        sum(hits == [f"note{one['note']}"] for one, hits in zip(case["cross"], english, strict=True)),
        suits,
        either,
        inverted,
        right,
    ]


def stances(
    near: Sequence[dict[str, Any]], preferences: Sequence[str], encoder: Encoder, llm: str | None
) -> tuple[int, int]:
    """Return how many stances are the opposite of what they should be, and how many are right."""
    inverted = right = 0
    for one in near:
        if one["stance"] not in STANCES:
            continue
        with EpicMemory([preferences[one["preference"]]], encoder=encoder, llm=llm) as memory:
            (judged,) = memory.judge([one["text"]])
            given = [alignment.stance for alignment in judged.verdict.alignments]
        right += STANCES[one["stance"]] in given
        inverted += any(stance in given for name, stance in STANCES.items() if name != one["stance"])
    return inverted, right


def print_parallel(encoder: Encoder, languages: Sequence[str]) -> None:
    parallel = read_jsonl(CASES / "parallel.jsonl")
    english = encoder.encode([one["en"] for one in parallel])
    ranks = {}
    for language in parallel[0]:
        if language != "en":
            cosines = encoder.encode([one[language] for one in parallel]) @ english.T
            ranks[language] = (cosines > cosines.diagonal()[:, None]).sum(axis=1)
    ten = {language: float((rank < 10).mean()) for language, rank in ranks.items()}
    first = np.mean([rank < 1 for rank in ranks.values()])
    worst, mean = min(ten, key=ten.__getitem__), np.mean(list(ten.values()))
    print(
        f"{encoder.name}: recall at 1 {first:.3f}, at 10 {mean:.3f}, of the worst language, {worst}, {ten[worst]:.3f}"
    )


def print_speed(encoder: Encoder, languages: Sequence[str]) -> None:
    cases = [json.loads((CASES / f"{language}.json").read_text(encoding="utf-8")) for language in languages]
    questions = [note["question"] for case in cases for note in case["notes"]]
    notes = [note["note"] for case in cases for note in case["notes"]]
    encoder.encode([*notes[:8], *questions[:8]])
    taken, rates = [], []
    for question in questions:
        started = time.process_time()
        encoder.encode([question])
        taken.append(time.process_time() - started)
    # Other words for each round: what a tokenizer remembers would count for more than among notes that one has.
    for number in range(0, len(notes), 36):
        started = time.process_time()
        encoder.encode(notes[number : number + 36])
        rates.append(len(notes[number : number + 36]) / (time.process_time() - started))
    words = statistics.mean(len(note.split()) for note in notes)
    print(
        f"{encoder.name}: a question {statistics.median(taken) * 1e3:.2f} ms of the processor's time,"
        f" {statistics.median(rates):.0f} notes of {words:.0f} words a second of it"
    )


def print_turns(encoder: Encoder, languages: Sequence[str]) -> None:
    """Print of how many turns of each kind something is found in the memory of their language."""
    turns = read_jsonl(CASES / "turns.jsonl")
    asked, answered = Counter(turn["kind"] for turn in turns if turn["language"] in languages), Counter[str]()
    for language in languages:
        case = json.loads((CASES / f"{language}.json").read_text(encoding="utf-8"))
        with memory_of(case, encoder, None) as memory:
            for turn in turns:
                if turn["language"] == language:
                    answered[turn["kind"]] += bool(found(memory, turn["text"], 5))
    print(
        f"{encoder.name}: turns with a hit", *(f"{kind} {answered[kind]} of {asked[kind]}" for kind in asked), sep="  "
    )


def main() -> None:
    options = script_options(
        __doc__, encoders=True, llm=str, only=("parallel", "speed", "turns"), languages=list(LANGUAGES)
    )
    for encoder in encoders(options):
        if options.only:
            some = {"parallel": print_parallel, "speed": print_speed, "turns": print_turns}
            some[options.only](encoder, options.languages)
            continue
        print(f"\n{encoder.name}\n{'':10}notes of 20  among 3  English  choices of 40  found  inverted of 20  right")
        for language in options.languages:
            case = json.loads((CASES / f"{language}.json").read_text(encoding="utf-8"))
            notes, among, english, suits, either, inverted, right = row(case, encoder, options.llm)
            print(
                f"{language:10}{notes:11}{among:9}{english:9}{suits:15}{either:7}{inverted:16}{right:7}",
                flush=True,
            )


if __name__ == "__main__":
    main()
