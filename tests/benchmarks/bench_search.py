"""`search` over 1,000 entries, everything included.

With --teacher, against the published way with MiniLM: it encodes the query, then every preference, then the chosen
preference again, for every query.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from common import passages, personas, script_options, seconds_of
from epic_memory import EpicMemory, Settings
from epic_memory.encoders import SentenceTransformerEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.verification import EmbeddedVerifier


def main() -> None:
    options = script_options(__doc__, data=True, teacher=str)
    persona = personas(options.data, "PrefWiki")[0]
    preferences = [preference for preference, _ in persona]
    questions = [question for _, asked in persona for question in asked]
    encoder = default_encoder()
    # A threshold of zero keeps every pair that the coarse filter lets through: entries for the clock only.
    memory = EpicMemory(preferences, settings=Settings(tau=0.1, verifier=EmbeddedVerifier(encoder, threshold=0.0)))
    for text in passages(options.data):
        if memory.stats().counts["entries"] >= 1000:
            break
        memory.add(text)
    print(f"{memory.stats().counts['entries']} entries, {len(preferences)} preferences, {len(questions)} questions")
    # One after the other, not question by question: a forward pass of MiniLM leaves no cache to the next search.
    ours = [seconds_of(lambda q=q: memory.search(q, k=5)) for _ in range(4) for q in questions]
    print(f"search median {statistics.median(ours) * 1e3:.3f} ms")
    if options.teacher:
        print_published(SentenceTransformerEncoder(options.teacher), memory, preferences, questions, ours)


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
        f" times faster: {statistics.median(theirs) / statistics.median(ours):.0f}"
    )


if __name__ == "__main__":
    main()
