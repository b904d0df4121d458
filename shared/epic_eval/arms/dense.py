"""Dense arms: passages by their embeddings, whole or in codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from epic_eval.arms.base import BaseArm, BuildCost, Passage, Retrieved, with_total, write_documents
from epic_memory import Item
from epic_memory.encoders import Encoder, embed


class Dense(BaseArm):
    """Passages by the embeddings of their texts.

    Args:
        name: As tables show it.
        encoder: Encodes passages and questions.
        index: "flat" (float32, exact), or "rabitq" (FAISS, one bit a component).
    """

    def __init__(self, name: str, encoder: Encoder, *, index: Literal["flat", "rabitq"] = "flat") -> None:
        self.name = name
        self.encoder = encoder
        self.index = index

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Build and save the index."""
        import faiss

        vectors = embed(self.encoder, [item.text for item in corpus])
        started = self.clock()
        self.corpus = corpus
        self._index: Any
        if self.index == "rabitq":
            self._index = faiss.IndexRaBitQ(vectors.shape[1], faiss.METRIC_INNER_PRODUCT)
            self._index.qb = 0
            self._index.train(vectors)
        else:
            self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(vectors)
        path = folder / "index.faiss"
        faiss.write_index(self._index, str(path))
        taken = self.clock() - started
        self._bytes = with_total(documents=write_documents(folder, corpus), index=path.stat().st_size)
        return BuildCost(seconds={"index": taken}, held=len(corpus))

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Return the passages nearest to the question."""
        started = self.clock()
        query = embed(self.encoder, [question])
        encoded = self.clock()
        rows = self._index.search(query, min(k, len(self.corpus)))[1][0]
        found = [self.corpus[int(row)] for row in rows if row >= 0]
        return Retrieved(
            passages=tuple(Passage(item.id, item.text) for item in found),
            encoding=encoded - started,
            search=self.clock() - encoded,
        )

    def bytes(self) -> dict[str, int]:
        """Return the bytes of texts and index."""
        return self._bytes
