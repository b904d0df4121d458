"""Steering searches of other people's stores: what is found, and what `SteeredRetriever` costs.

What is found, on PrefEval's multiple choice, with one store that holds the options of all cases. Of the first five
hits: "own" is the share of cases with one of their four options among them; "followed" with the option that follows the
preference before those that break it, or without them; "broken" how many are own options that break it. Each case is
asked with its preference alone, among ten, and ("own, unrelated") with ten of other topics only. How far which vector
goes to the liked side (steering.py) was chosen by the first half of the topics, and by the bundled demo. Then the same
with a haystack, and the bundled demo: how many of its labelled texts support and conflict among the first five.

What it costs: medians of calls in turn, over stores of 1,000 documents.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from common import Known, parse, parser, read_jsonl
from epic_memory.encoders import SentenceTransformerEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.steering import QuerySteering
from epic_memory.steering.vector_stores import SteeredSearch

K = 5
Found = Sequence[int]


class Store:
    """Texts, searched by vector, and the ways to search them that are compared."""

    def __init__(self, encoder: Known, texts: Sequence[str]) -> None:
        self.encoder = encoder
        self.texts = list(dict.fromkeys(texts))
        self.row = {text: row for row, text in enumerate(self.texts)}
        self.vectors = embed(encoder, self.texts)
        self.search = SteeredSearch(encoder)

    def nearest(self, vector: Sequence[float] | np.ndarray, count: int) -> list[int]:
        cosines = self.vectors @ np.asarray(vector, dtype=np.float32)
        best = np.argpartition(-cosines, min(count, len(cosines) - 1))[:count]
        return best[np.argsort(-cosines[best], kind="stable")].tolist()

    def ways(self) -> dict[str, Callable[[str, Sequence[str]], Found]]:
        """Each takes a question and preferences, and gives the rows of the first K hits."""
        return {
            "query alone": lambda q, p: self._searched("off", q, p),
            "paper (Eq. 7-8)": lambda q, p: self._searched("paper", q, p),
            "signed": lambda q, p: self._searched("signed", q, p),
            "the query's 4k by QuerySteering.score": lambda q, p: self._scored("off", q, p),
            "signed 4k by QuerySteering.score": lambda q, p: self._scored("signed", q, p),
        }

    def _searched(self, mode: Any, question: str, preferences: Sequence[str], count: int = K) -> list[int]:
        target = self.search.target(self.encoder.encode([question])[0].tolist(), tuple(preferences), mode)
        return [
            one.document for one in self.search.find(target, count, self.nearest, lambda row: (self.texts[row], {}))
        ]

    def _scored(self, mode: Any, question: str, preferences: Sequence[str]) -> Found:
        rows = np.array(self._searched(mode, question, preferences, 4 * K))
        steering = QuerySteering(self.encoder, preferences, "signed")
        scores = steering.score_texts(
            self.encoder.encode([question])[0], [self.texts[row] for row in rows], self.vectors[rows]
        )
        return rows[np.argsort(-scores, kind="stable")][:K].tolist()


class Case(NamedTuple):
    question: str
    options: list[str]
    alone: list[str]
    among_ten: list[str]
    unrelated: list[str]
    chosen_on: bool


def cases_of(records: Sequence[dict[str, Any]]) -> list[Case]:
    draw = random.Random(0)
    topics = sorted({record["topic"] for record in records})
    topic_of = {record["preference"]: record["topic"] for record in records}
    cases = []
    for record in records:
        own = record["preference"]
        others = [preference for preference in topic_of if preference != own]
        unrelated = [preference for preference, topic in topic_of.items() if topic != record["topic"]]
        cases.append(
            Case(
                record["question"],
                record["options"],
                [own],
                [own, *draw.sample(others, 9)],
                draw.sample(unrelated, 10),
                topics.index(record["topic"]) % 2 == 0,
            )
        )
    return cases


def judged(store: Store, case: Case, found: Found) -> tuple[float, float, float]:
    """own, followed, broken."""
    own = {store.row[option] for option in case.options}
    right = store.row[case.options[0]]
    hits = [row for row in found if row in own]
    return float(bool(hits)), float(hits[:1] == [right]), float(sum(row != right for row in hits))


def print_choices(store: Store, cases: Sequence[Case]) -> None:
    print(
        f"{len(store.texts)} texts" + " " * 29 + "alone: own followed broken   among ten: own followed broken"
        "   followed, first / other half of the topics: alone, among ten   own, unrelated"
    )
    halves = np.array([case.chosen_on for case in cases])
    for name, way in store.ways().items():
        alone, ten = (
            np.array([judged(store, case, way(case.question, getattr(case, which))) for case in cases])
            for which in ("alone", "among_ten")
        )
        unrelated = statistics.mean(judged(store, case, way(case.question, case.unrelated))[0] for case in cases)
        split = ", ".join(f"{found[halves, 1].mean():.3f} / {found[~halves, 1].mean():.3f}" for found in (alone, ten))
        means = "   ".join("{:.3f} {:.3f} {:.2f}".format(*found.mean(axis=0)) for found in (alone, ten))
        print(f"{name:40} {means}   {split}   {unrelated:.3f}", flush=True)


def print_small(encoder: Known, cases: Sequence[Case]) -> None:
    draw = random.Random(1)
    every = [option for case in cases for option in case.options]
    chosen = draw.sample(list(cases), 200)
    stores = [Store(encoder, [*case.options, *draw.sample(every, 8)]) for case in chosen]
    print("12 texts, of the four options: first hit one of them, of the first five, followed")
    for name in stores[0].ways():
        found = []
        for case, store in zip(chosen, stores, strict=True):
            hits = store.ways()[name](case.question, case.alone)
            own = {store.row[option] for option in case.options}
            followed = [row for row in hits if row in own][:1] == [store.row[case.options[0]]]
            found.append((hits[0] in own, sum(row in own for row in hits), followed))
        print("{:40} {:.2f} {:.2f} {:.2f}".format(name, *np.array(found, dtype=float).mean(axis=0)), flush=True)


def print_demo(encoder: Known) -> None:
    data = files("epic_memory") / "data"
    records = [json.loads(line) for line in (data / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    preferences, questions = (
        (data / name).read_text(encoding="utf-8").splitlines() for name in ("preferences.txt", "questions.txt")
    )
    key = [line.split("\t") for line in (data / "key.tsv").read_text(encoding="utf-8").splitlines()]
    text_of = {record["id"]: record["text"] for record in records}
    stance = {(text_of[item], int(number)): stance for item, number, stance in key}
    store = Store(encoder, list(text_of.values()))
    print(f"the bundled demo, {len(store.texts)} texts: of the first five, support / conflict")
    for name, way in store.ways().items():
        told = [
            [stance.get((store.texts[row], number)) for row in way(question, preferences)]
            for number, question in enumerate(questions, start=1)
        ]
        counts = [statistics.mean(one.count(what) for one in told) for what in ("supports", "conflicts")]
        print(f"{name:40} {counts[0]:.2f} / {counts[1]:.2f}")


def print_costs(texts: Sequence[str], preferences: Sequence[str], questions: Sequence[str]) -> None:
    import chromadb
    from langchain_chroma import Chroma
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import InMemoryVectorStore

    from epic_langchain import EpicEmbeddings
    from epic_langchain.steered_retriever import SteeredRetriever

    class Bare(BaseRetriever):
        """What LangChain itself takes for a call."""

        found: list[Document]

        def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:
            return self.found

    embeddings = EpicEmbeddings()
    documents = [Document(id=str(n), page_content=text, metadata={"n": n}) for n, text in enumerate(texts)]
    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
    stores: dict[str, Any] = {
        "InMemoryVectorStore": InMemoryVectorStore(embeddings),
        "Chroma": Chroma("bench_steered", embedding_function=embeddings, client=client),
    }
    for name, store in stores.items():
        store.add_documents(documents)
        steered = SteeredRetriever(vectorstore=store, preferences=preferences, k=K)
        bare = Bare(found=documents[:K])
        vectors = {question: embeddings.embed_query(question) for question in questions}
        calls: dict[str, Callable[[str], object]] = {
            "embedding": embeddings.embed_query,
            "bare": bare.invoke,
            "search": lambda q, store=store, vectors=vectors: store.similarity_search_by_vector(vectors[q], k=K),
            "steered": steered.invoke,
        }
        taken: dict[str, list[float]] = {call: [] for call in calls}
        for turn in range(101):
            for question in questions:
                for call, function in calls.items():
                    started = time.perf_counter()
                    function(question)
                    if turn:
                        taken[call].append(time.perf_counter() - started)
        ms = {call: 1e3 * statistics.median(seconds) for call, seconds in taken.items()}
        print(
            f"{name}: similarity_search_by_vector {ms['search']:.3f}, SteeredRetriever.invoke {ms['steered']:.3f},"
            f" embedding the query {ms['embedding']:.3f} ms:"
            f" {ms['steered'] - ms['search'] - ms['embedding']:.3f} ms more; of it LangChain's own {ms['bare']:.3f}"
        )


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--teacher", help="folder of all-MiniLM-L6-v2, to measure with it too")
    made.add_argument("--costs", action="store_true", help="only what it costs")
    options = parse(made)
    records = read_jsonl(options.data / "prefeval_mcq.jsonl")
    passages = [f"{r['title']}. {r['text']}" for r in read_jsonl(options.data / "wiki_passages.jsonl")]
    if not options.costs:
        answers = [record["text"] for record in read_jsonl(options.data / "assistant_answers.jsonl")]
        cases = cases_of(records)
        every = [option for case in cases for option in case.options]
        encoders: list[Encoder] = [default_encoder()]
        if options.teacher:
            encoders.append(SentenceTransformerEncoder(options.teacher))
        for encoder in map(Known, encoders):
            print(f"\n{encoder.name}, steering from {encoder.floor}")
            print_choices(Store(encoder, every), cases)
            print_choices(Store(encoder, every + passages + answers), cases)
            print_small(encoder, cases)
            print_demo(encoder)
        print()
    print_costs(passages[:1000], [r["preference"] for r in records[::47]], [r["question"] for r in records[::47]])


if __name__ == "__main__":
    main()
