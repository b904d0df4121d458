"""How vectors and texts are kept: bytes of each code, and what a search loses by it.

The entries of personas built from the data, all their questions as queries, steered as in the paper and not at all. For
each code: bytes a vector, scales included, and recall@5 against float32, the mean over the queries of the share of the
five nearest by float32 that are among the five nearest by the code. The query stays float32. A code with ranges that
are learnt (FAISS's) learns them from the very entries it codes, and their bytes are said apart: a file that grows would
have to keep them, and learn them anew. Then texts: plain, all compressed, compressed where it is worth it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common import parse, parser, personas, sources, unit
from epic_memory import EpicMemory
from epic_memory.storage import codecs as codes
from epic_memory.storage.codecs import deflated

K = 5
# The personas of PrefEval are those of PrefWiki, with other questions.
SETS = ("PrefWiki", "PrefRQ", "PrefELI5")


@dataclass
class State:
    """The entries of a persona, and its questions.

    Attributes:
        vectors: E(i_x(p)) as float32, shape `(n, d)`.
        plain, steered: The questions' vectors, shape `(q, d)`.
        texts: The items' texts, and the entries' instructions.
    """

    vectors: np.ndarray
    plain: np.ndarray
    steered: np.ndarray
    texts: list[str]


def states(data: Any, count: int) -> Iterator[State]:
    """The first personas of each set."""
    items = list(sources(data))
    for name in SETS:
        for persona in personas(data, name)[:count]:
            preferences = list(dict.fromkeys(preference for preference, _ in persona))
            memory = EpicMemory(preferences)
            memory.add(items)
            held = list(memory._session.store.items.all("default"))
            instructions = [entry.instruction for item in held for entry in memory.explain(item.id).entries]
            encoder = memory.encoder
            plain = encoder.encode([question for _, asked in persona for question in asked])
            near = encoder.encode(preferences)
            yield State(
                vectors=encoder.encode(instructions),
                plain=plain,
                steered=unit(plain + near[(plain @ near.T).argmax(axis=1)]),
                texts=[item.text for item in held],
            )


Coded = tuple[float, float, np.ndarray]


def half(vectors: np.ndarray) -> Coded:
    """Sixteen bits, without a scale."""
    return 2.0 * vectors.shape[1], 0.0, vectors.astype(np.float16).astype(np.float32)


def eight(block: int | None) -> Callable[[np.ndarray], Coded]:
    """Eight bits a component; a scale for each vector, which reading does not need, or in float16 for each block."""

    def coded(vectors: np.ndarray) -> Coded:
        count, dimension = vectors.shape
        width = dimension if block is None else block
        blocks = vectors.reshape(count, dimension // width, width)
        scales = np.abs(blocks).max(axis=2, keepdims=True) / 127.0
        if block is not None:
            scales = scales.astype(np.float16).astype(np.float32)
        scales[scales == 0.0] = 1.0
        read = np.clip(np.rint(blocks / scales), -127, 127) * scales
        octets = dimension + (0 if block is None else 2 * dimension // block)
        return float(octets), 0.0, unit(read.reshape(count, dimension))

    return coded


def ten(vectors: np.ndarray) -> Coded:
    """What the file keeps."""
    packed = codes.packed(vectors)
    return float(len(packed[0])), 0.0, codes.unpacked(packed, vectors.shape[1])


def scalar(kind: str) -> Callable[[np.ndarray], Coded]:
    """FAISS's ScalarQuantizer: a range for each component, learnt."""

    def coded(vectors: np.ndarray) -> Coded:
        import faiss

        made = faiss.ScalarQuantizer(vectors.shape[1], getattr(faiss.ScalarQuantizer, kind))
        made.train(vectors)
        return float(made.code_size), 4.0 * made.trained.size(), made.decode(made.compute_codes(vectors))

    return coded


def ways() -> dict[str, Callable[[np.ndarray], Coded]]:
    """Name to what keeps vectors that way: bytes a vector, bytes for all, the vectors as read."""
    return {
        "float32": lambda vectors: (4.0 * vectors.shape[1], 0.0, vectors),
        "float16": half,
        "10 bit (ours)": ten,
        "int8, a scale a vector": eight(None),
        "int8, a scale each 32": eight(32),
        "int8, a scale each 16": eight(16),
        "FAISS SQ 8 bit": scalar("QT_8bit"),
        "FAISS SQ 6 bit": scalar("QT_6bit"),
        "FAISS SQ 4 bit": scalar("QT_4bit"),
    }


def nearest(vectors: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The rows of the K nearest, of equals the first; shape `(q, K)`."""
    return np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :K]


def recall(found: np.ndarray, wanted: np.ndarray) -> list[float]:
    """For each query, the share of what was wanted that was found."""
    return [len(set(a.tolist()) & set(b.tolist())) / K for a, b in zip(found, wanted, strict=True)]


def rabitq(state: State, queries: np.ndarray, bits: int) -> tuple[float, float, np.ndarray] | None:
    """FAISS's RaBitQ: the estimate is part of the search, so it is searched as it is. None where FAISS has none."""
    import faiss

    if not hasattr(faiss, "IndexRaBitQ"):
        return None
    dimension = state.vectors.shape[1]
    try:
        index = (
            faiss.IndexRaBitQ(dimension, faiss.METRIC_INNER_PRODUCT)
            if bits == 1
            else faiss.IndexRaBitQ(dimension, faiss.METRIC_INNER_PRODUCT, bits)
        )
    except TypeError:
        return None  # an older FAISS knows one bit only
    index.qb = 0
    index.train(state.vectors)
    index.add(state.vectors)
    return float(index.code_size), 4.0 * dimension, index.search(queries, K)[1]


def vectors(found: Sequence[State]) -> None:
    """The table of codes."""
    questions = sum(len(state.plain) for state in found)
    sizes = [len(state.vectors) for state in found]
    print(
        f"{len(found)} personas, {min(sizes)} to {max(sizes)} entries of {found[0].vectors.shape[1]} dimensions,"
        f" {questions} questions\n"
    )
    print(
        f"{'code':26} {'bytes':>7} {'to f32':>7} {'learnt':>7} {'steered':>9} {'lowest':>7} {'plain':>9} {'error':>8}"
    )
    wanted = [(nearest(state.vectors, state.steered), nearest(state.vectors, state.plain)) for state in found]
    whole = 4.0 * found[0].vectors.shape[1]

    def row(name: str, octets: float, learnt: float, steered: list[float], plain: list[float], error: float) -> None:
        said = f"{error:8.4f}" if np.isfinite(error) else f"{'-':>8}"
        print(
            f"{name:26} {octets:7.0f} {octets / whole:7.3f} {learnt:7.0f} {np.mean(steered):9.4f} {min(steered):7.1f}"
            f" {np.mean(plain):9.4f} {said}"
        )

    for name, way in ways().items():
        steered, plain, errors = [], [], []
        for state, (a, b) in zip(found, wanted, strict=True):
            octets, learnt, read = way(state.vectors)
            steered += recall(nearest(read, state.steered), a)
            plain += recall(nearest(read, state.plain), b)
            errors.append(float(np.abs(state.steered @ (read - state.vectors).T).max()))
        row(name, octets, learnt, steered, plain, max(errors))
    for bits in (1, 4, 8):
        steered, plain = [], []
        for state, (a, b) in zip(found, wanted, strict=True):
            first, second = rabitq(state, state.steered, bits), rabitq(state, state.plain, bits)
            if first is None or second is None:
                break
            octets, learnt, rows = first
            steered += recall(rows, a)
            plain += recall(second[2], b)
        if steered:
            row(f"FAISS RaBitQ {bits} bit", octets, learnt, steered, plain, float("nan"))
        else:
            print(f"FAISS RaBitQ {bits} bit: not in this FAISS")
    print(f"  steered, plain: recall@{K}; lowest: of one steered question; error: the largest of a steered cosine")


def texts(found: Sequence[State]) -> None:
    """Texts plain and compressed: bytes."""
    every = list(dict.fromkeys(text for state in found for text in state.texts))
    raw = sum(len(text.encode()) for text in every)
    chosen = [deflated(text) for text in every]
    print(f"\n{len(every)} texts of {raw / len(every):.0f} bytes;", end=" ")
    print(f"{sum(isinstance(one, bytes) for one in chosen)} of them are worth compressing")
    always = sum(len(zlib.compress(text.encode(), 9)) for text in every)
    worth = sum(len(one) if isinstance(one, bytes) else len(one.encode()) for one in chosen)
    for name, octets in (("plain", raw), ("zlib, all", always), ("zlib, worth it (ours)", worth)):
        print(f"{name:26} {octets:10} {octets / raw:9.3f}")


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--personas", type=int, default=3, help="of each set")
    options = parse(made)
    found = list(states(options.data, options.personas))
    vectors(found)
    texts(found)


if __name__ == "__main__":
    main()
