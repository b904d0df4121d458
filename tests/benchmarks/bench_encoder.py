"""The static encoder against its teacher, each figure with a student fitted without what it is measured on.

Fits four students: each leaves out one STS year and one half of the passages. Prints the mean Spearman over
the STS sets as a share of the teacher's, the recall of the passages the teacher's coarse filter keeps, how
often the preference a question belongs to is the most similar of ten, and, for the shipped encoder, speed.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np

from common import parse, parser, personas, read_jsonl, spearman_by_set, unit
from epic_memory.encoders import StaticEncoder
from make_static_encoder import Teacher, student, token_ids
from static_texts import fitting_groups, read_passages, read_sts

YEARS = ("2012", "2013", "2014", "2015")
SHARES = (0.05, 0.1, 0.2, 0.5)
TEACHER_TAU = 0.3


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--teacher", required=True, help="folder of all-MiniLM-L6-v2")
    made.add_argument("--cache", type=Path, help="file (.npz) for the teacher's embeddings")
    options = parse(made)
    teacher = Teacher(options.teacher, options.cache)
    data = Data(options.data)
    expected = data.spearman(teacher.encode)
    print(f"teacher: mean Spearman over {len(expected)} STS sets {statistics.mean(expected.values()):.4f}")
    told = data.identified(teacher.encode)
    print(f"teacher: the right preference of ten is the most similar in {told:.3f}")

    features = teacher.token_features()
    measured: dict[str, float] = {}
    recalls, identified = [], []
    for position, year in enumerate(YEARS):
        half = np.arange(len(data.passages)) % 2 == position % 2
        groups = fitting_groups(
            options.data, teacher.words(), without_year=year, without_passages=np.flatnonzero(half).tolist()
        )
        vectors = student(teacher, features, groups)

        def encode(asked: list[str], vectors: np.ndarray = vectors) -> np.ndarray:
            bags = [vectors[ids].sum(axis=0) for ids in token_ids(teacher.tokenizer, asked)]
            return unit(np.stack(bags) + 1e-12)

        found = {name: value for name, value in data.spearman(encode).items() if name.startswith(year)}
        measured |= found
        recalls.append(data.recall(encode, teacher.encode, half))
        identified.append(data.identified(encode))
        share = statistics.mean(found.values()) / statistics.mean(expected[name] for name in found)
        print(
            f"student without {year}, {sum(map(len, groups))} texts:"
            f" {share:.3f} of the teacher's Spearman on that year;"
            f" recall {np.round(recalls[-1], 3).tolist()}; right preference {identified[-1]:.3f}",
            flush=True,
        )
    share = statistics.mean(measured.values()) / statistics.mean(expected.values())
    print(f"STS: mean Spearman {statistics.mean(measured.values()):.4f}, {share:.1%} of the teacher's (at least 94 %)")
    for at, recall in zip(SHARES, np.mean(recalls, axis=0), strict=True):
        wanted = {0.1: " (at least 0.85)", 0.2: " (at least 0.95)"}.get(at, "")
        print(f"recall of the teacher's kept passages when {at:.0%} pass: {recall:.3f}{wanted}")
    share = statistics.mean(identified) / told
    print(f"right preference of ten: {statistics.mean(identified):.3f}, {share:.1%} of the teacher's (at least 80 %)")
    _shipped(data)


def _shipped(data: Data) -> None:
    encoder = StaticEncoder()
    passages = [f"{title}. {text}" for title, text in data.passages]
    encoder.encode(passages[:500])
    speeds, queries = [], []
    for _ in range(5):
        started = time.perf_counter()
        encoder.encode(passages)
        speeds.append(len(passages) / (time.perf_counter() - started))
    for case in data.cases * 2:
        started = time.perf_counter()
        encoder.encode([case["question"]])
        queries.append(time.perf_counter() - started)
    print(
        f"shipped encoder: {statistics.median(speeds):.0f} passages a second (at least 5,000);"
        f" one query {statistics.median(queries) * 1e3:.3f} ms (at most 0.2)"
    )
    figures = data.spearman(encoder.encode)
    print(f"shipped encoder, fitted on these sentences too: mean Spearman {statistics.mean(figures.values()):.4f}")


class Data:
    """The sets, with what the figures need of them."""

    def __init__(self, folder: Path) -> None:
        self.sts = read_sts(folder)
        self.passages = read_passages(folder)
        self.cases = read_jsonl(folder / "prefeval_mcq.jsonl")
        self.personas = [[text for text, _ in persona] for persona in personas(folder, "PrefWiki")]

    def spearman(self, encode: object) -> dict[str, float]:
        """Set to Spearman's correlation of cosine and human score."""
        return spearman_by_set(encode, self.sts)

    def recall(self, encode: object, teach: object, half: np.ndarray) -> list[float]:
        """Of the (persona, passage) pairs the teacher keeps, the share among the student's best pairs."""
        texts = [f"{title}. {text}" for title, text in self.passages]
        preferences = sorted({text for persona in self.personas for text in persona})
        row = {text: position for position, text in enumerate(preferences)}
        kept, score = [], []
        taught = teach(texts)[half] @ teach(preferences).T
        learnt = encode(texts)[half] @ encode(preferences).T
        for persona in self.personas:
            columns = [row[text] for text in persona]
            kept.append(taught[:, columns].max(axis=1) >= TEACHER_TAU)
            score.append(learnt[:, columns].max(axis=1))
        keeps, scores = np.concatenate(kept), np.concatenate(score)
        return [float((scores[keeps] >= np.quantile(scores, 1 - share)).mean()) for share in SHARES]

    def identified(self, encode: object) -> float:
        """How often a case's own preference is nearest to its question, among it and nine others; ten draws."""
        preferences = encode([case["preference"] for case in self.cases])
        questions = encode([case["question"] for case in self.cases])
        cosines = questions @ preferences.T
        draw = np.random.default_rng(0)
        right = 0
        for _ in range(10):
            for case in range(len(self.cases)):
                others = [i for i in range(len(self.cases)) if i != case]
                right += cosines[case, case] > cosines[case, draw.choice(others, 9, replace=False)].max()
        return right / (10 * len(self.cases))


if __name__ == "__main__":
    main()
