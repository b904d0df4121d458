"""Document compressor that drops the sentences which neither the question nor a preference needs."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager, Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field
from typing_extensions import override

from epic_memory.runtime.effects import arun, run
from epic_plugins.compression import DROPPED, Compressed, compressed
from epic_plugins.copies import OverMemory
from epic_plugins.wrong_arguments import explained


@explained()
class EpicCompressor(OverMemory, BaseDocumentCompressor):
    """Compressor of any retriever's documents to what the question, or a preference of the memory, needs.

        compressor = EpicCompressor(memory=memory)
        documents = compressor.compress_documents(retriever.invoke(question), question)

    Whole sentences go or stay, and none is rewritten; a document of which nothing is needed goes. The others come back
    as copies with their ids, in order, and `epic_dropped_sentences` in their metadata. Callbacks are told what went by
    the custom event "epic_compressed". No language model is asked.

    Attributes:
        memory: Whose preferences and encoder are used.
        relevant: The cosine with the question from which a sentence is needed; None for the encoder's own.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    relevant: float | None = Field(default=None, ge=-1.0, le=1.0)

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return the documents without the sentences that nothing needs."""
        made = run(compressed(self.memory, query, [each.page_content for each in documents], self.relevant))
        CallbackManager.configure(callbacks).on_custom_event("epic_compressed", _counts(documents, made))
        return _documents(documents, made)

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return the documents as `compress_documents` does, without blocking the event loop."""
        made = await arun(compressed(self.memory, query, [each.page_content for each in documents], self.relevant))
        manager = AsyncCallbackManager.configure(callbacks)
        await manager.on_custom_event("epic_compressed", _counts(documents, made))
        return _documents(documents, made)


def _documents(documents: Sequence[Document], made: Sequence[Compressed]) -> list[Document]:
    return [
        documents[each.place].model_copy(
            update={
                "page_content": each.text,
                "metadata": {**documents[each.place].metadata, DROPPED: each.dropped},
            }
        )
        for each in made
    ]


def _counts(documents: Sequence[Document], made: Sequence[Compressed]) -> dict[str, int]:
    return {
        "documents": len(documents),
        "dropped_documents": len(documents) - len(made),
        "characters": sum(len(each.page_content) for each in documents),
        "kept_characters": sum(len(each.text) for each in made),
    }
