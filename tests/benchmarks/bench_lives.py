"""What a memory answers on whole made-up lives: choices, facts, and silence, against dense retrieval and BM25.

Each life (`shared/tools/written/everyday_lives`) was written by somebody who saw no code: 14 preferences, 70 notes, and
40 questions. Of 20 *choices* one note suits the user and one goes against a preference that the question does not
mention, both in the question's words; seven *facts* stand in a note, for some of them by its title alone; three more
facts stand in a note that conflicts with a preference; ten everyday prompts are *small talk* that no note answers.
Lives a and b were looked at while this was built, c, d and e were only run.

The rows, k = 5:

- choices: the note that suits is the first hit; the one that conflicts is; the one that suits is found before the one
  that conflicts, or the latter is not found at all.
- facts: the note with the answer is the first hit, among the hits; and for the notes that conflict, among the hits.
- silence: prompts of small talk with no hit, and how many hits they get together.
- kept: of the notes that choices and facts need (what suits, or holds the answer) the share that a search without a
  threshold finds among five hits, and with it.

The columns: `dense` and `bm25` rank titles and texts; `memory` is an `EpicMemory` as it is by default, no model;
`judged` is one whose verifier replays the right verdicts that the life's writer gave, for all pairs; `store` is the
LangChain vector store over the same notes unjudged, and `store judged` over those with verdicts in their metadata.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import common  # noqa: F401  # puts shared/tools on the path
from epic_core import EpicMemory, Item
from epic_core.encoders import SentenceTransformerEncoder, default_encoder, embed
from epic_core.encoders.base import Encoder
from epic_core.types import Alignment, Candidate, Decision, Preference, Stance, Verdict
from epic_core.verification.base import BaseVerifier
from fitting import WRITTEN

LIVES = WRITTEN / "everyday_lives"
K = 5

Find = Callable[[str], list[str]]
"""The ids of the notes that a question finds, best first."""


class Life(NamedTuple):
    name: str
    preferences: list[str]
    items: list[Item]
    verdicts: dict[tuple[str, str], Alignment]
    questions: list[dict[str, Any]]


def life(path: Path) -> Life:
    record = json.loads(path.read_text(encoding="utf-8"))
    texts = {note["id"]: note["text"] for note in record["notes"]}
    return Life(
        name=path.stem,
        preferences=record["preferences"],
        items=[
            Item(id=note["id"], text=note["text"], metadata={"title": note["title"]} if note.get("title") else {})
            for note in record["notes"]
        ],
        verdicts={
            (texts[one["note"]], preference.id): Alignment(
                preference_id=preference.id,
                instruction=one["instruction"],
                stance=Stance(one["stance"]),
                confidence=0.95,
            )
            for one in record["verdicts"]
            for preference in [Preference(text=record["preferences"][one["preference"]])]
        },
        questions=record["questions"],
    )


class Replay(BaseVerifier):
    """A verifier that gives the verdicts of a life's writer."""

    name = "replay"

    def __init__(self, verdicts: dict[tuple[str, str], Alignment]) -> None:
        self.verdicts = verdicts

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        for one in candidates:
            yield self.verdict(one)

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for one in candidates:
            yield self.verdict(one)

    def verdict(self, candidate: Candidate) -> Verdict:
        pairs = [(candidate.item.text, preference.id) for preference in candidate.preferences]
        alignments = tuple(self.verdicts[pair] for pair in pairs if pair in self.verdicts)
        decision = Decision.KEEP if alignments else Decision.DISCARD
        return Verdict(decision=decision, rationale="as judged by the writer", alignments=alignments, confidence=0.95)


def titled(item: Item) -> str:
    title = item.metadata.get("title")
    return f"{title}\n{item.text}" if title else item.text


def dense(one: Life, encoder: Encoder) -> Find:
    vectors = embed(encoder, [titled(item) for item in one.items])

    def find(question: str) -> list[str]:
        order = np.argsort(-(vectors @ embed(encoder, [question])[0]), kind="stable")[:K]
        return [one.items[row].id for row in order]

    return find


def bm25(one: Life, encoder: Encoder) -> Find:
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize([titled(item) for item in one.items], show_progress=False), show_progress=False)

    def find(question: str) -> list[str]:
        rows, _ = index.retrieve(bm25s.tokenize(question, show_progress=False), k=K, show_progress=False)
        return [one.items[row].id for row in rows[0]]

    return find


def memory_of(one: Life, encoder: Encoder, *, judged: bool) -> EpicMemory:
    options: dict[str, Any] = {"verifier": Replay(one.verdicts), "tau": -1.0} if judged else {}
    memory = EpicMemory(one.preferences, encoder=encoder, **options)
    memory.add(one.items)
    return memory


def searched(memory: EpicMemory, **options: Any) -> Find:
    return lambda question: [hit.item.id for hit in memory.search(question, K, **options)]


def store(one: Life, encoder: Encoder, *, judged: bool) -> Find:
    from langchain_core.documents import Document

    from epic_langchain import EpicDocumentTransformer, EpicVectorStore

    documents = [Document(id=item.id, page_content=item.text, metadata=dict(item.metadata)) for item in one.items]
    if judged:
        memory = EpicMemory(one.preferences, encoder=encoder, verifier=Replay(one.verdicts), tau=-1.0)
        kept = {
            document.id: document for document in EpicDocumentTransformer(memory=memory).transform_documents(documents)
        }
        documents = [kept.get(document.id, document) for document in documents]
    made = EpicVectorStore(encoder, preferences=one.preferences)
    made.add_documents(documents)
    return lambda question: [str(document.id) for document in made.similarity_search(question, K)]


WAYS: dict[str, Callable[[Life, Encoder], Find]] = {
    "dense": dense,
    "bm25": bm25,
    "memory": lambda one, encoder: searched(memory_of(one, encoder, judged=False)),
    "judged": lambda one, encoder: searched(memory_of(one, encoder, judged=True)),
    "store": lambda one, encoder: store(one, encoder, judged=False),
    "store judged": lambda one, encoder: store(one, encoder, judged=True),
}
UNTHRESHOLDED: dict[str, Callable[[Life, Encoder], Find]] = {
    "memory": lambda one, encoder: searched(memory_of(one, encoder, judged=False), min_score=None),
    "judged": lambda one, encoder: searched(memory_of(one, encoder, judged=True), min_score=None),
}


def measured(one: Life, find: Find, unthresholded: Find) -> dict[str, int]:
    """Count what a way answers, by the names of the rows."""
    counts = dict.fromkeys(
        (
            "choices", "suits first", "conflicts first", "suits before", "facts", "fact first", "fact in five",
            "facts of conflicts", "fact of a conflict in five", "small talk", "silent", "hits of small talk",
            "needed", "kept",
        ),
        0,
    )  # fmt: skip
    for asked in one.questions:
        found = find(asked["question"])
        if asked["kind"] == "small_talk":
            counts["small talk"] += 1
            counts["silent"] += not found
            counts["hits of small talk"] += len(found)
            continue
        right = {asked["suits"]} if asked["kind"] == "choice" else set(asked["answer"])
        reachable = right & set(unthresholded(asked["question"]))
        counts["needed"] += bool(reachable)
        counts["kept"] += bool(reachable & set(found))
        if asked["kind"] == "choice":
            counts["choices"] += 1
            counts["suits first"] += found[:1] == [asked["suits"]]
            counts["conflicts first"] += found[:1] == [asked["conflicts"]]
            places = [found.index(note) if note in found else K for note in (asked["suits"], asked["conflicts"])]
            counts["suits before"] += places[0] < places[1]
            continue
        about_conflict = asked.get("about_conflict", False)
        counts["facts of conflicts" if about_conflict else "facts"] += 1
        if about_conflict:
            counts["fact of a conflict in five"] += bool(right & set(found))
        else:
            counts["fact first"] += bool(right & set(found[:1]))
            counts["fact in five"] += bool(right & set(found))
    return counts


def print_lives(lives: Sequence[Life], encoder: Encoder, ways: Sequence[str]) -> None:
    print(f"\n{encoder.name}: lives {', '.join(one.name for one in lives)}")
    columns: dict[str, dict[str, int]] = {}
    for way in ways:
        total: dict[str, int] = {}
        for one in lives:
            find = WAYS[way](one, encoder)
            free = UNTHRESHOLDED[way](one, encoder) if way in UNTHRESHOLDED else find
            for name, count in measured(one, find, free).items():
                total[name] = total.get(name, 0) + count
        columns[way] = total
    print(f"{'':28}" + "".join(f"{way:>14}" for way in ways))
    for name in next(iter(columns.values())):
        print(f"{name:28}" + "".join(f"{columns[way][name]:>14}" for way in ways))


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--lives", nargs="*", default=["a", "b", "c", "d", "e"], help="which lives (default: all)")
    made.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS), help="which columns")
    made.add_argument("--teacher", help="folder of all-MiniLM-L6-v2, to measure with it too")
    options = made.parse_args()
    lives = [life(LIVES / f"{name}.json") for name in options.lives]
    encoders: list[Encoder] = [default_encoder()]
    if options.teacher:
        encoders.append(SentenceTransformerEncoder(options.teacher))
    looked_at = [one for one in lives if one.name in ("a", "b")]
    only_run = [one for one in lives if one.name not in ("a", "b")]
    for encoder in encoders:
        for some in (looked_at, only_run):
            if some:
                print_lives(some, encoder, options.ways)


if __name__ == "__main__":
    main()
