"""`search` over 1,000 entries, everything included, and what steering and stances add to it.

With --teacher, against the published way with MiniLM: it encodes the query, then every preference, then the chosen
preference again, for every query.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from common import parse, parser, personas, read_jsonl
from epic_memory import EpicMemory, SearchOptions, Settings
from epic_memory.encoders import SentenceTransformerEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.verification import EmbeddedVerifier


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--teacher", help="folder of all-MiniLM-L6-v2")
    options = parse(made)
    persona = personas(options.data, "PrefWiki")[0]
    preferences = [preference for preference, _ in persona]
    questions = [question for _, asked in persona for question in asked]
    texts = [f"{r['title']}. {r['text']}" for r in read_jsonl(options.data / "wiki_passages.jsonl")]

    encoder = default_encoder()
    # A threshold of zero keeps every pair that the coarse filter lets through: entries for the clock only.
    memory = EpicMemory(preferences, settings=Settings(tau=0.1, verifier=EmbeddedVerifier(encoder, threshold=0.0)))
    for text in texts:
        if memory.stats().counts["entries"] >= 1000:
            break
        memory.add(text)
    print(f"{memory.stats().counts['entries']} entries, {len(preferences)} preferences, {len(questions)} questions")

    ours: dict[str, list[float]] = {mode: [] for mode in ("off", "paper", "signed")}
    parts: dict[str, list[float]] = {}
    # One after the other, not question by question: a forward pass of MiniLM leaves no cache to the next search.
    for _ in range(4):
        for mode, taken in ours.items():
            for question in questions:
                started = time.perf_counter()
                hits = memory.search(question, k=5, options=SearchOptions(steering=mode))
                taken.append(time.perf_counter() - started)
                if mode == "signed":
                    for part, seconds in hits.timings.items():
                        parts.setdefault(part, []).append(seconds)
    added = []
    for _ in range(4):
        for question in questions:
            started = time.perf_counter()
            memory.search(question, k=5)
            middle = time.perf_counter()
            memory.search(question, k=5, options=SearchOptions(steering="off", stance_policy="any"))
            added.append(2 * middle - started - time.perf_counter())
    for mode, taken in ours.items():
        print(f"search, {mode:6} median {statistics.median(taken) * 1e3:.3f} ms (at most 0.6)")
    print("of it: " + ", ".join(f"{part} {statistics.median(s) * 1e3:.3f} ms" for part, s in parts.items()))
    print(f"steering and stances add {statistics.median(added) * 1e3:.3f} ms (median of pairs of calls; at most 0.2)")
    if options.teacher:
        print_published(SentenceTransformerEncoder(options.teacher), memory, preferences, questions, ours["signed"])


def print_published(
    published: Encoder, memory: EpicMemory, preferences: list[str], questions: list[str], ours: list[float]
) -> None:
    index = memory._session.space().index
    vectors = np.random.default_rng(0).standard_normal((len(index), published.dimension), dtype=np.float32)
    theirs = []
    for question in questions:
        started = time.perf_counter()
        query = embed(published, [question])[0]
        every = [embed(published, [preference])[0] for preference in preferences]
        star = preferences[int(np.argmax([vector @ query for vector in every]))]
        steered = query + embed(published, [star])[0]
        np.argsort(-(vectors @ (steered / np.linalg.norm(steered))))[:5]
        theirs.append(time.perf_counter() - started)
    print(
        f"published way  median {statistics.median(theirs) * 1e3:.1f} ms;"
        f" times faster: {statistics.median(theirs) / statistics.median(ours):.0f} (at least 250)"
    )


if __name__ == "__main__":
    main()
