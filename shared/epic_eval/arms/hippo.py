"""HippoRAG 2 by its own package, with any language model and encoder, alone or behind EPIC's stages (Table 14)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from epic_eval.arms.base import BaseArm, BuildCost, Passage, Retrieved, Vectors, build_cost
from epic_eval.arms.epic import PAPER, verified
from epic_eval.arms.writing import Writer
from epic_graph.hipporag import EpicHippoRAG
from epic_memory import EpicMemory, Item
from epic_memory.encoders import Encoder, embed
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel, Message
from epic_memory.types.modes import Mode


class HippoRAG(BaseArm):
    """A HippoRAG 2 instance; with stages, its graph holds only what a memory keeps.

    Args:
        name: As tables show it.
        encoder: In the place of its embedding model.
        lm: In the place of its language model, for extraction and for the choice of facts.
        coarse, fine, steering: EPIC's stages; the model verifies.
    """

    def __init__(
        self,
        name: str,
        encoder: Encoder,
        lm: LanguageModel,
        *,
        coarse: bool = False,
        fine: bool = False,
        steering: Mode = "off",
    ) -> None:
        self.name = name
        self.encoder = encoder
        self.personal = coarse or fine
        self._model = _Model(lm)
        self._settings = replace(PAPER, coarse=coarse, fine=fine, steering=steering)
        if fine:
            self._settings = verified(self._settings, lm)

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Offer the corpus to a memory, and let HippoRAG index what it keeps."""
        self._folder = folder
        graph = _instance(folder / "hipporag", self._model, self.encoder)
        known = preferences if self.personal else ()
        memory = EpicMemory.open(folder / "memory.epic", known, encoder=self.encoder, settings=self._settings)
        self._rag = EpicHippoRAG(graph, memory)
        started = self.clock()
        report = self._rag.index(corpus)
        return build_cost(report.memory, self.clock() - started, report.passages)

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Search as HippoRAG does; the query's encoding is a part of it."""
        started = self.clock()
        hits = self._rag.search(question, k)
        passages = tuple(Passage(hit.item.id, hit.text, tuple(hit.instructions)) for hit in hits)
        return Retrieved(passages=passages, search=self.clock() - started)

    def bytes(self) -> dict[str, int]:
        """Return the bytes of the memory's file, of the embeddings, and of the rest of HippoRAG's folder."""
        parts = {"documents": 0, "embeddings": 0, "graph": 0}
        for path in self._folder.rglob("*"):
            if path.is_file():
                kind = "embeddings" if "embeddings" in str(path.relative_to(self._folder)) else "graph"
                parts["documents" if path.parent == self._folder else kind] += path.stat().st_size
        return {**parts, "total": sum(parts.values())}

    def close(self) -> None:
        """Close the memory's file."""
        self._rag.memory.close()


class _Model(Writer):
    """A language model as HippoRAG asks its own."""

    llm_config = None

    def infer(self, messages: Sequence[dict[str, Any]], **options: Any) -> tuple[str, dict[str, Any], bool]:
        """Return an answer, what is known of it, and that it is from no cache."""
        (answer,) = self.complete([[Message(m["role"], m["content"]) for m in messages]], 2_048)
        counts = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
        return answer.text, {**counts, "finish_reason": "length" if answer.cut else "stop"}, False


class _Embedding:
    """An encoder as HippoRAG asks its own embedding model; its instructions are for other models."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def batch_encode(self, texts: str | Sequence[str], **options: Any) -> Vectors:
        """Return unit vectors, shape `(n, d)`."""
        return np.asarray(embed(self.encoder, [texts] if isinstance(texts, str) else list(texts)))


def why_missing() -> str:
    """Return why HippoRAG's package cannot be used, or an empty text."""
    try:
        importlib.import_module("hipporag.HippoRAG")
    except ImportError as error:
        return (
            f"HippoRAG cannot be imported ({error}). docs/graph_rag.md says how it is installed; the arms named after"
            " `graph` need no package."
        )
    return ""


def _instance(folder: Path, model: _Model, encoder: Encoder) -> Any:
    if reason := why_missing():
        raise InvalidInputError(reason)
    module = importlib.import_module("hipporag.HippoRAG")
    settings = module.BaseConfig(save_dir=str(folder), llm_name="model", embedding_model_name="encoder")
    with ExitStack() as stack:
        # Its constructor knows only the models of its own list.
        stack.enter_context(patch.object(module, "_get_llm_class", lambda config: model))
        stack.enter_context(
            patch.object(module, "_get_embedding_model_class", lambda **name: lambda **given: _Embedding(encoder))
        )
        return module.HippoRAG(global_config=settings)
