"""Instances of the real HippoRAG 2: its classes, its graph, its files; a real embedding; a scripted language model.

with LMServer(Script({...})) as server:
    hipporag = instance(tmp_path, server, monkeypatch)
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from epic_memory.encoders import default_encoder
from lm_servers import Json, LMServer, Reply

# What hipporag imports, and uses only for servers and models of other kinds than those here: gigabytes, some of them.
_UNUSED = {
    "boto3": (),
    "botocore": (),
    "botocore.exceptions": ("ClientError",),
    "gritlm": ("GritLM",),
    "litellm": (),
    "vllm": ("LLM", "SamplingParams"),
}


def imported() -> Any:
    """The module of the real HippoRAG; skips the tests where it is not installed."""
    if importlib.util.find_spec("hipporag") is None:
        pytest.skip("needs hipporag, installed without its pins", allow_module_level=True)
    for name, classes in _UNUSED.items():
        if name in sys.modules or ("." not in name and importlib.util.find_spec(name) is not None):
            continue
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        for one in classes:
            setattr(module, one, type(one, (Exception,), {}))
        sys.modules[name] = module
    return importlib.import_module("hipporag.HippoRAG")


_encoder = lru_cache(maxsize=1)(default_encoder)


class Embedding:
    """The embedded static encoder in the shape of HippoRAG's embedding models; counts what it embeds.

    Args:
        fails: Texts that contain this word cannot be embedded.
        zero: Texts that contain this word have an embedding of zeros.
    """

    def __init__(self, global_config: Any = None, embedding_model_name: str = "") -> None:
        self.encoder = _encoder()
        self.embedded: list[str] = []
        self.fails = self.zero = "\0"

    def batch_encode(self, texts: str | Sequence[str], **kwargs: Any) -> Any:
        texts = [texts] if isinstance(texts, str) else list(texts)
        self.embedded += texts
        if any(self.fails in text for text in texts):
            raise RuntimeError("the embedding model is gone")
        instruction = kwargs.get("instruction", "")
        # As a model with instructions has it: facts and passages are searched with different vectors.
        vectors = self.encoder.encode(texts) + (0.1 * self.encoder.encode([instruction]) if instruction else 0.0)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        for row, text in enumerate(texts):
            if self.zero in text:
                vectors[row] = 0.0
        return vectors.astype(np.float32)


class Script:
    """Answers what HippoRAG asks its model: to extract, to choose facts, to answer a question.

    Args:
        triples: What is extracted from the passages that contain a key, as subject, relation and object.

    Attributes:
        chosen: Which of the facts it is shown the model chooses.
        shown: The facts it was shown, for each question.
        raw: Answers to extractions in place of `triples`, by a word of the passage.
        extracted: The passages it was asked to extract from, those asked about twice (names, then facts) once.
        read: What it was given to answer questions with.
    """

    def __init__(self, triples: Mapping[str, Iterable[Sequence[str]]]) -> None:
        self.triples = {key: [list(one) for one in found] for key, found in triples.items()}
        self.chosen: Callable[[list[list[str]]], list[list[str]]] = lambda facts: facts
        self.raw: dict[str, str | Reply] = {}
        self.shown: list[list[list[str]]] = []
        self.extracted: list[str] = []
        self.read: list[str] = []

    def __call__(self, request: Json) -> str | Reply:
        messages = request["messages"]
        system, asked = str(messages[0]["content"]), str(messages[-1]["content"])
        if "fact_before_filter" in asked:
            found = re.search(r"\[\[ ## fact_before_filter ## \]\]\n(.*?)\n", asked)
            assert found is not None
            self.shown.append(json.loads(found.group(1))["fact"])
            facts = self.chosen(self.shown[-1])
            return f"[[ ## fact_after_filter ## ]]\n{json.dumps({'fact': facts})}\n\n[[ ## completed ## ]]"
        if "named entities" in system or "RDF" in system:
            return self._extract(asked, names="RDF" not in system)
        self.read.append(asked)
        return "Thought: it says so. Answer: as it says"

    def _extract(self, asked: str, *, names: bool) -> str | Reply:
        if names:
            self.extracted.append(asked)
        for word, answer in self.raw.items():
            if word in asked:
                return answer
        found = [one for word, triples in self.triples.items() if word in asked for one in triples]
        if names:
            ends = dict.fromkeys(end for subject, _, object_ in found for end in (subject, object_))
            return json.dumps({"named_entities": list(ends)})
        return json.dumps({"triples": found})


def instance(folder: Path, server: LMServer, monkeypatch: pytest.MonkeyPatch, **config: Any) -> Any:
    """A HippoRAG instance in a folder, with the embedding above and the server's model."""
    module = imported()
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setattr(module, "_get_embedding_model_class", lambda **_: Embedding)
    settings = module.BaseConfig(
        save_dir=str(folder),
        llm_name="tiny",
        llm_base_url=server.base_url,
        max_retry_attempts=1,
        **{"embedding_model_name": "static", **config},
    )
    made = module.HippoRAG(global_config=settings)
    made.llm_model.max_retries = 1
    return made
