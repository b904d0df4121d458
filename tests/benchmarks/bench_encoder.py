"""The static encoder against its teacher on SemEval STS, by students fitted without what they are measured on.

Fits four students: each leaves out one STS year and one half of the passages. Prints the mean Spearman over the STS
sets as a share of the teacher's.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np

from common import script_options, unit
from make_static_encoder import Teacher, student, token_ids
from static_texts import fitting_groups, read_passages, read_sts

YEARS = ("2012", "2013", "2014", "2015")


def spearman(vectors: np.ndarray, pairs: np.ndarray, scores: list[float]) -> float:
    """Spearman's correlation of cosine and human score, for rows of two places in `vectors`."""
    cosines = (vectors[pairs[:, 0]] * vectors[pairs[:, 1]]).sum(axis=1)
    return float(np.corrcoef(ranks(cosines), ranks(np.array(scores)))[0, 1])


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value, of equals their mean."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def main() -> None:
    options = script_options(__doc__, data=True, teacher=..., cache=Path)
    teacher, rows = Teacher(options.teacher, options.cache), read_sts(options.data)
    sentences = sorted({sentence for _, _, *pair in rows for sentence in pair})
    place = {sentence: number for number, sentence in enumerate(sentences)}
    by_set: dict[str, list[tuple[float, int, int]]] = {}
    for name, score, one, other in rows:
        by_set.setdefault(name, []).append((score, place[one], place[other]))

    def measured(vectors: np.ndarray) -> dict[str, float]:
        columns = {name: list(zip(*of, strict=True)) for name, of in by_set.items()}
        return {name: spearman(vectors, np.array([a, b]).T, list(s)) for name, (s, a, b) in columns.items()}

    expected = measured(teacher.encode(sentences))
    print(f"teacher: mean Spearman over {len(expected)} STS sets {statistics.mean(expected.values()):.4f}")
    features, unseen = teacher.token_features(), dict[str, float]()
    for position, year in enumerate(YEARS):
        half = np.flatnonzero(np.arange(len(read_passages(options.data))) % 2 == position % 2).tolist()
        groups = fitting_groups(options.data, teacher.words(), without_year=year, without_passages=half)
        vectors = student(teacher, features, groups)
        bags = [vectors[ids].sum(axis=0) for ids in token_ids(teacher.tokenizer, sentences)]
        found = {name: value for name, value in measured(unit(np.stack(bags) + 1e-12)).items() if name[:4] == year}
        unseen |= found
        share = statistics.mean(found.values()) / statistics.mean(expected[name] for name in found)
        print(f"student without {year}, {sum(map(len, groups))} texts: {share:.3f} of the teacher's", flush=True)
    share = statistics.mean(unseen.values()) / statistics.mean(expected.values())
    print(f"STS: mean Spearman {statistics.mean(unseen.values()):.4f}, {share:.1%} of the teacher's (at least 94 %)")


if __name__ == "__main__":
    main()
