"""Nothing leaves the device, and importing the core brings in no framework."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OFFLINE = """
import socket

def refuse(*arguments, **options):
    raise AssertionError(f"a network connection was tried: {arguments}")

for owner, name in (
    (socket.socket, "connect"), (socket.socket, "connect_ex"), (socket.socket, "sendto"),
    (socket, "create_connection"), (socket, "getaddrinfo"), (socket, "gethostbyname"),
):
    setattr(owner, name, refuse)
"""

WORK = """
import sys
from epic_learn import add_conversation
from epic_memory import EpicMemory

path = sys.argv[1]
texts = ["A vegan stew of beans and squash.", "The hotel has a casino with slot machines.", "A treaty of 1648."]
with EpicMemory.open(path, ["I follow a strict vegan diet."]) as memory:
    report = memory.add(texts)
    assert report.seen == 3, report
    add_conversation(memory, [{"role": "user", "content": "I want a vegan dinner."}])
    memory.preferences.add("I avoid hotels with casinos.")
    memory.search("Where should I stay?")
    memory.context("What should I cook?")
    memory.stats()
with EpicMemory.open(path) as memory:
    assert memory.search("a vegan stew")
    memory.file.reencode(memory.encoder)
    memory.retry()
"""

ASYNC_WORK = """
import asyncio
from epic_memory import EpicMemory

async def work():
    with EpicMemory.open(f"{sys.argv[1]}.two", ["I follow a strict vegan diet."]) as memory:
        await memory.aadd(["A vegan stew of beans and squash."])
        await memory.asearch("What should I cook?")
        await memory.preferences.aadd("I avoid hotels with casinos.")

asyncio.run(work())
"""

GRAPH_WORK = """
from epic_graph import GraphMemory
from epic_memory import Settings
with GraphMemory.open(f"{sys.argv[1]}.three", ["I like red wine."], settings=Settings(tau=0.0)) as graph:
    graph.add(["Oscar Reed bought red wine in Berlin.", "Berlin lies on the Spree."])
    assert graph.search("Where is Oscar Reed?").entities
assert not any(name in sys.modules for name in ("epic_memory.lm", "httpx", "scipy", "igraph"))
"""

LANGCHAIN_WORK = """
from langchain_core.documents import Document
from epic_memory import EpicMemory
from epic_langchain import EpicDocumentTransformer, EpicRetriever, EpicVectorStore

preferences = ["I follow a strict vegan diet."]
documents = [Document("A vegan stew of beans and squash."), Document("A treaty of 1648.")]
kept = EpicDocumentTransformer(preferences=preferences).invoke(documents)
store = EpicVectorStore(preferences=preferences)
store.add_documents(kept)
assert store.as_retriever().invoke("What should I cook?")
retriever = EpicRetriever(memory=EpicMemory(preferences))
retriever.add_documents(documents)
assert retriever.invoke("What should I cook?")
"""

LLAMAINDEX_WORK = """
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from epic_llamaindex import EpicEmbedding, EpicNodePostprocessor, EpicRetriever, EpicTransform, SteeredRetriever

preferences = ["I follow a strict vegan diet."]
documents = [Document(text="A vegan stew of beans and squash."), Document(text="A treaty of 1648.")]
steps = [SentenceSplitter(), EpicTransform(preferences=preferences), EpicEmbedding()]
nodes = IngestionPipeline(transformations=steps).run(documents=documents)
index = VectorStoreIndex(nodes, embed_model=EpicEmbedding())
found = SteeredRetriever(index.as_retriever(), preferences=preferences).retrieve("What should I cook?")
assert EpicNodePostprocessor(preferences=preferences).postprocess_nodes(found, query_str="What should I cook?")
assert EpicRetriever.from_defaults(nodes=nodes, preferences=preferences).retrieve("What should I cook?")
"""


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_whole_life_of_a_memory_needs_no_network(tmp_path: Path) -> None:
    # No home, no caches: a model that is not in the package could only come from the network.
    home, folder = str(tmp_path / "home"), tmp_path / "work"
    folder.mkdir()
    code = f"import os; os.chdir({str(folder)!r})\n{OFFLINE}{WORK}{ASYNC_WORK}{GRAPH_WORK}"
    run(code, str(folder / "me.epic"), HOME=home, HF_HOME=home, XDG_CACHE_HOME=home)
    # Nothing is written beside the file.
    files = sorted(file.name for file in folder.iterdir())
    assert files == ["me.epic", "me.epic.three", "me.epic.two"] and not Path(home).exists()


@pytest.mark.parametrize(
    ("framework", "work"), [("langchain_core", LANGCHAIN_WORK), ("llama_index.core", LLAMAINDEX_WORK)]
)
def test_the_plugins_need_no_network(tmp_path: Path, framework: str, work: str) -> None:
    pytest.importorskip(framework)
    home = str(tmp_path / "home")
    run(OFFLINE + work, HOME=home, HF_HOME=home, XDG_CACHE_HOME=home)


def test_the_check_itself_notices_a_connection() -> None:
    code = OFFLINE + "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "network connection was tried" in done.stderr


def loaded(code: str) -> set[str]:
    """Top-level modules loaded by some code."""
    return set(run(f"{code}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})").stdout.split())


HEAVY = {"torch", "sentence_transformers", "transformers", "langchain_core", "llama_index", "langchain", "openai"}
HUB = {"huggingface_hub", "model2vec", "tokenizers"}
LAZY = {"faiss", "safetensors", "pydantic", "ollama", "httpx", "tqdm", "asyncio", *HUB}


def test_the_core_brings_in_no_framework_and_nothing_heavy() -> None:
    assert not loaded("import epic_memory") & (HEAVY | LAZY - {"asyncio"})
    code = "from epic_memory import EpicMemory, SearchOptions\nm = EpicMemory(['vegan'])"
    code += "\nm.add(['vegan stew'])\nm.search('vegan')"
    # FAISS is brought in by a search by instructions (Eq. 6), not by one whose texts are all kept.
    code += "\nm.search('vegan', options=SearchOptions.paper())"
    of_graph = "{name for name in sys.modules if name.startswith('epic_graph.')}"
    modules = loaded(f"{code}\nimport sys\nassert {of_graph} == {{'epic_graph.tables'}}")
    assert not modules & (HEAVY | HUB | {"scipy", "igraph", "networkx"})
    assert {"faiss", "safetensors"} <= modules


def test_every_public_name_can_be_imported() -> None:
    import epic_memory

    for name in epic_memory.__all__:
        assert getattr(epic_memory, name) is not None
    assert set(epic_memory.__all__) <= set(dir(epic_memory))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = epic_memory.nothing_like_it
