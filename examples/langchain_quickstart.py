"""A folder of notes becomes an index that follows one user's preferences, in LangChain.

python examples/langchain_quickstart.py    # needs epic-memory[langchain], nothing else: no server, no download

With the line marked below changed, a model on Ollama decides what is kept, and answers.
"""

from __future__ import annotations

import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from epic_langchain import EpicDocumentTransformer, EpicEmbeddings, EpicRetriever, EpicVectorStore
from epic_memory import EpicMemory

SAMPLE = files("epic_memory") / "data"
PREFERENCES = (SAMPLE / "preferences.txt").read_text(encoding="utf-8").splitlines()
QUESTION = "What dessert could I bring to Oscar's birthday dinner?"

llm: Any = None  # on Ollama: from langchain_ollama import ChatOllama; llm = ChatOllama(model="qwen3:4b", temperature=0)


def documents() -> list[Document]:
    """The user's notes and clippings, as a loader would give them."""
    records = map(json.loads, (SAMPLE / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    return [Document(id=r["id"], page_content=r["text"], metadata={"title": r["title"]}) for r in records]


def main(folder: Path) -> None:
    # 1. A step of any ingestion: the coarse filter and fine verification. What comes out carries its guidance.
    keep = EpicDocumentTransformer(preferences=PREFERENCES, llm=llm)
    kept = keep.invoke(documents())
    print(keep.report)
    first = kept[0].metadata
    print(f"\n{first['title']!r} was kept for {first['epic_preference']!r}: {first['epic_stance']}")
    print(f"  {first['epic_instruction']}\n")

    # 2. A vector store in one file, found by those instructions, steered by the preferences.
    with EpicVectorStore(EpicEmbeddings(), path=folder / "notes.vectors", preferences=PREFERENCES) as store:
        store.add_documents(kept)
        for document, score in store.similarity_search_with_score(QUESTION, k=3):
            print(f"{score:.2f} {document.metadata['title']}: {document.metadata['epic_stance']}")

    # 3. Or all of it at once: a memory, and its retriever in a chain.
    with EpicMemory.open(folder / "notes.epic", PREFERENCES) as memory:
        retriever = EpicRetriever(memory=memory, k=3, guidance="text")
        retriever.add_documents(documents())
        prompt = ChatPromptTemplate.from_template("Use what is known:\n\n{context}\n\nQuestion: {question}")

        def asked(question: str) -> dict[str, str]:
            return {"question": question, "context": "\n\n".join(d.page_content for d in retriever.invoke(question))}

        print(f"\nWhat a model is asked:\n{prompt.invoke(asked(QUESTION)).to_string()}")
        if llm is not None:
            print((prompt | llm | StrOutputParser()).invoke(asked(QUESTION)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
