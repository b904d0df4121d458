"""Data of an evaluation: personas with preferences and questions, a corpus, and what is known of its passages."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_eval.journal import read_lines
from epic_memory import Item
from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import WordChunker

SETS = ("PrefWiki", "PrefRQ", "PrefELI5", "PrefEval")
"""The four sets of the papers, in the order of their tables."""


@dataclass(frozen=True)
class Question:
    """A question, and the one preference that its answer has to follow."""

    text: str
    preference: str


@dataclass(frozen=True)
class Persona:
    """A user: preferences, and questions that each belong to one of them."""

    index: int
    preferences: tuple[str, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Dataset:
    """A named set of personas."""

    name: str
    personas: tuple[Persona, ...]


@dataclass(frozen=True)
class Case:
    """A multiple choice: of the options, the first follows the preference and the others break it."""

    preference: str
    question: str
    options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Everything that a run reads.

    Attributes:
        datasets: The sets, in order.
        corpus: The passages that every arm is given, in random order.
        cases: Preference to its multiple choices; their options are passages of the corpus.
        labels: Preference to the ids of passages of which a reader said what they mean for it, with the stance:
            "supports", "conflicts", "mixed", "neutral", or "" for a passage that has nothing to do with it.
        documents: How many passages are neither options nor labelled.
    """

    datasets: tuple[Dataset, ...]
    corpus: tuple[Item, ...]
    cases: Mapping[str, tuple[Case, ...]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    documents: int = 0


def read_dataset(path: str | Path, *, personas: int | None = None, questions: int | None = None) -> Dataset:
    """Read a set in the papers' form: `[{persona_index, preference_blocks: [{preference, queries: [{question}]}]}]`.

    Args:
        path: The JSON file; its name is the set's.
        personas: Only the first ones.
        questions: Of each preference, only the first ones.

    Raises:
        InvalidInputError: for a file of another form.
    """
    path = Path(path)
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        made = []
        for record in records[:personas]:
            blocks = record["preference_blocks"]
            asked = [
                Question(query["question"], block["preference"])
                for block in blocks
                for query in block["queries"][:questions]
            ]
            preferences = tuple(dict.fromkeys(block["preference"] for block in blocks))
            made.append(Persona(record["persona_index"], preferences, tuple(dict.fromkeys(asked))))
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidInputError(
            f"{path} is no list of personas, each with persona_index and preference_blocks: {error!r}."
        ) from None
    return Dataset(path.stem, tuple(made))


def read_passages(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield the chunks of a corpus with their document's id: JSON lines with `text`, and `id` and `title` if they have.

    Documents are cut as in the papers, into chunks of whole sentences and about 100 words; a title stands before the
    first chunk. A line that is `whole` is one chunk.
    """
    chunker = WordChunker()
    for number, record in enumerate(read_lines(path)):
        text = _text(path, record, "text")
        # The title of an answer is the question it was given to: what a user asks is no part of the corpus.
        title = f"{record['title']}. " if record.get("title") and "topic" not in record else ""
        name = str(record.get("id", f"{Path(path).stem}-{number}"))
        for chunk in (text,) if record.get("whole") else chunker.chunks(title + text):
            yield name, chunk


def read_cases(path: str | Path) -> list[Case]:
    """Read multiple choices: JSON lines with `preference`, `question` and `options`, of which the first follows."""
    cases = []
    for record in read_lines(path):
        options = record.get("options")
        if not isinstance(options, list) or len(options) < 2:
            raise InvalidInputError(f"{path}: every case needs at least two options.")
        cases.append(Case(_text(path, record, "preference"), _text(path, record, "question"), tuple(options)))
    return cases


def read_labels(path: str | Path) -> tuple[dict[str, dict[str, str]], set[str]]:
    """Read judged chunks: JSON lines with `chunk`, `preferences`, `alignments` of `preference` (number) and `stance`.

    Returns:
        Preference to chunk to stance, "" for a chunk that was found to have nothing to do with it; and the ids of the
        documents that the chunks were cut from.
    """
    labels: dict[str, dict[str, str]] = {}
    documents = set()
    for record in read_lines(path):
        stances = {alignment["preference"]: alignment["stance"] for alignment in record["alignments"]}
        documents.add(str(record.get("source", "")).split("#")[0])
        for number, preference in enumerate(record["preferences"]):
            labels.setdefault(preference, {})[_text(path, record, "chunk")] = stances.get(number, "")
    return labels, documents


def read_data(
    folder: str | Path,
    *,
    sets: Sequence[str] = SETS,
    personas: int | None = 3,
    questions: int | None = 1,
    passages: int | None = 3_000,
    seed: int = 0,
) -> Data:
    """Read a data folder as docs/data.md describes it.

    The corpus is a sample of the folder's passages (`*passages.jsonl`, `*answers.jsonl`), with the options of the cases
    of the chosen personas (`*mcq.jsonl`) and the chunks judged for them (`*labels.jsonl`) among them, shuffled.

    Args:
        folder: The folder, with the sets in `personas/NAME.json`.
        sets: Which sets.
        personas, questions: Only the first ones of each set, and of each preference; None for all.
        passages: How many of the other passages; None for all.
        seed: Of the sample and the order.

    Raises:
        InvalidInputError: for a folder or file that cannot be read, or without passages.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidInputError(f"{folder} is no folder with data (docs/data.md says what it holds).")
    datasets = tuple(
        read_dataset(folder / "personas" / f"{name}.json", personas=personas, questions=questions) for name in sets
    )
    wanted = {preference for dataset in datasets for persona in dataset.personas for preference in persona.preferences}
    cases: dict[str, tuple[Case, ...]] = {}
    for path in sorted(folder.glob("*mcq.jsonl")):
        for case in read_cases(path):
            if case.preference in wanted:
                cases[case.preference] = (*cases.get(case.preference, ()), case)
    labels: dict[str, dict[str, str]] = {}
    cut: set[str] = set()
    for path in sorted(folder.glob("*labels.jsonl")):
        judged, documents = read_labels(path)
        cut |= documents
        for preference in sorted(wanted & judged.keys()):
            labels.setdefault(preference, {}).update(judged[preference])
    known = [option for of in cases.values() for case in of for option in case.options]
    known += [chunk for of in labels.values() for chunk in of]
    # A document from which judged chunks were cut would bring them a second time.
    files = [*sorted(folder.glob("*passages.jsonl")), *sorted(folder.glob("*answers.jsonl"))]
    others = [chunk for path in files for name, chunk in read_passages(path) if name not in cut]
    if not others:
        raise InvalidInputError(f"{folder} holds no passages: a file *passages.jsonl with a `text` in each line.")
    chance = random.Random(seed)
    if passages is not None and passages < len(others):
        others = chance.sample(others, passages)
    texts = list(dict.fromkeys([*known, *others]))
    chance.shuffle(texts)
    return Data(
        datasets=datasets,
        corpus=tuple(Item(text=text) for text in texts),
        cases=cases,
        labels={
            preference: {Item(text=chunk).id: stance for chunk, stance in of.items()}
            for preference, of in labels.items()
        },
        documents=len(texts) - len(set(known)),
    )


def _text(path: str | Path, record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{path}: every line needs a text under {name!r}.")
    return value
