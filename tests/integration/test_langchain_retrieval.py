"""The LangChain retriever: documents with their guidance, the same sync and async."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from epic_memory import SearchOptions, Settings

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from pydantic import ValidationError

from chat_models import Words
from epic_langchain import EpicEmbeddings, EpicRetriever
from epic_langchain.models import LangChainEncoder
from epic_memory import EpicMemory, Item, Stance
from epic_memory.context import format_hit, format_preferences
from epic_memory.encoders.static import StaticEncoder
from epic_memory.errors import EncoderMismatchError, InvalidInputError, StoreError, UnknownPreferenceError
from helpers import HashEncoder, KeepAll, both
from scripted import BOTH, TRAIN, WINE

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
ITEMS = [
    Item(id="stew", text="A vegan stew for a strict vegan diet.", metadata={"kind": "food", "year": 2020}),
    Item(id="curry", text="A vegan curry, good for any vegan diet.", metadata={"kind": "food", "year": 2024}),
    Item(id="casino", text="The hotels of the strip have casinos.", metadata={"kind": "hotel", "year": 2024}),
    Item(id="hotel", text="Quiet hotels without casinos in the old town.", metadata={"kind": "hotel", "year": 2019}),
    Item(id="poker", text="Hotels with casinos hold poker nights.", metadata={"kind": "hotel", "year": 2021}),
    Item(id="soup", text="Vegan soup fits a strict diet.", metadata={"kind": "food", "year": 2022}),
]
QUERY = "Where should I stay, are there hotels with casinos?"


def generous() -> StaticEncoder:
    """The embedded encoder, to which nothing is too far from a query: filters and counts are tested with one query."""
    encoder = StaticEncoder()
    encoder.relevant = -1.0
    return encoder


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    memory = EpicMemory(PREFERENCES, settings=Settings(fine=True, tau=0.0), encoder=generous())
    memory.add(ITEMS)
    assert len(memory) >= 5
    return memory


@pytest.fixture
def retriever(memory: EpicMemory) -> EpicRetriever:
    return EpicRetriever(memory=memory, k=4)


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def test_invoke_gives_the_memorys_hits_in_order(retriever: EpicRetriever, memory: EpicMemory) -> None:
    documents = retriever.invoke(QUERY)
    hits = memory.search(QUERY, 4)
    assert all(isinstance(document, Document) for document in documents)
    assert ids(documents) == [hit.item.id for hit in hits]
    assert [document.page_content for document in documents] == [hit.item.text for hit in hits]
    assert [document.metadata["epic_score"] for document in documents] == [hit.score for hit in hits]


def test_documents_carry_flat_guidance_and_their_own_metadata(retriever: EpicRetriever) -> None:
    first = retriever.invoke(QUERY)[0]
    own = next(item.metadata for item in ITEMS if item.id == first.id)
    assert {key: first.metadata[key] for key in own} == own
    assert first.metadata["epic_preference"] == PREFERENCES[1]
    assert first.metadata["epic_stance"] in {"supports", "conflicts", "mixed", "neutral"}
    assert first.metadata["epic_instruction"] and first.metadata["epic_rationale"]
    assert first.metadata["epic_tier"] == "memory"
    assert all(key.startswith("epic_") for key in first.metadata.keys() - own.keys())
    assert all(type(value) in {str, int, float} for value in first.metadata.values())


def test_a_memory_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        EpicRetriever(memory=3)
    with pytest.raises(ValidationError):
        EpicRetriever()
    with pytest.raises(StoreError, match="There is no memory at"):
        EpicRetriever(memory=tmp_path / "me.epic")


@pytest.mark.parametrize("named", [str, Path])
def test_a_memory_is_opened_by_the_name_of_its_file(tmp_path: Path, named: type) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES, settings=Settings(tau=0.0)) as memory:
        memory.add(ITEMS)
        expected = EpicRetriever(memory=memory).invoke(QUERY)
    retriever = EpicRetriever(memory=named(path))
    assert retriever.invoke(QUERY) == expected
    retriever.memory.close()


WRONG_CALLS: list[tuple[type[Exception], str, str, dict[str, Any]]] = [
    (TypeError, "top_k", QUERY, {"top_k": 3}),
    *((InvalidInputError, "query", query, {}) for query in ("", "  ")),
    *((InvalidInputError, "k must be", QUERY, {"k": k}) for k in (0, -1)),
    *(
        (InvalidInputError, "[Ff]ilter", QUERY, {"filter": wrong})
        for wrong in ({"year": {"$near": 2020}}, {"year": {}}, {3: 3}, [("year", 2020)], "year > 2020")
    ),
]


@pytest.mark.parametrize(("error", "what", "query", "options"), WRONG_CALLS)
async def test_a_call_that_cannot_be_is_an_error(
    retriever: EpicRetriever, error: type[Exception], what: str, query: str, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=what):
        await both(retriever, "invoke", query, **options)
    if error is InvalidInputError:
        with pytest.raises(error, match=what):
            await retriever.ainvoke(query, {"configurable": {f"epic_{name}": value for name, value in options.items()}})


def test_hits_of_a_fallback_have_no_guidance() -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(fallback=lambda query, k: ["An engine needs oil."]))
    (document,) = EpicRetriever(memory=memory).invoke("zebra xylophone quantum")
    assert document.page_content == "An engine needs oil."
    assert document.metadata == {"epic_score": 0.0, "epic_tier": "fallback"}


def test_hits_of_the_light_say_so() -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(tau=1.0))
    memory.add(ITEMS[:1])
    assert EpicRetriever(memory=memory).invoke("stew")[0].metadata["epic_tier"] == "light"


# guidance in the text


async def test_text_with_guidance_is_what_the_memory_shows(memory: EpicMemory) -> None:
    retriever = EpicRetriever(memory=memory, k=4, guidance="text")
    documents = retriever.invoke(QUERY)
    # A retriever gives as many documents as it finds; a context leaves out those that answer much worse than the first.
    shown = "\n\n".join(document.page_content for document in documents)
    assert shown == memory.context(QUERY, 4, options=SearchOptions(min_score=memory.encoder.relevant))
    assert shown.startswith(memory.context(QUERY, 4))
    hits = memory.search(QUERY, 4)
    opening = f"{format_preferences(hits)}\n\n"
    assert opening == f"The user's preferences, the most relevant first:\n- {PREFERENCES[1]}\n\n"
    for number, (document, hit) in enumerate(zip(documents, hits, strict=True), start=1):
        shown = format_hit(number, hit)
        assert document.page_content == (opening + shown if number == 1 else shown)
        assert shown.startswith(f"Document {number}:\nInterpretation Guidance:\n- ")
    assert await retriever.ainvoke(QUERY) == documents


def test_metadata_is_the_same_with_guidance_in_the_text(memory: EpicMemory) -> None:
    plain, guided = (EpicRetriever(memory=memory, k=4, guidance=guidance) for guidance in ("metadata", "text"))
    assert [(one.id, one.metadata) for one in plain.invoke(QUERY)] == [
        (one.id, one.metadata) for one in guided.invoke(QUERY)
    ]


def test_several_preferences_are_one_documents_guidance() -> None:
    memory = EpicMemory(
        [WINE, TRAIN], encoder=HashEncoder(), settings=Settings(verifier=KeepAll({"wine": Stance.SUPPORTS}))
    )
    memory.add([Item(id="a", text=BOTH)])
    (document,) = EpicRetriever(memory=memory).invoke("red wine")
    (hit,) = memory.search("red wine")
    assert document.metadata["epic_instruction"] == "\n".join(hit.instructions)
    known = json.loads(document.metadata["epic_alignments"])
    assert [one["preference"] for one in known] == hit.preferences and set(hit.preferences) == {WINE, TRAIN}


# options of a call


async def test_preferences_of_a_call_choose_among_those_that_are_held(
    retriever: EpicRetriever, memory: EpicMemory
) -> None:
    found = retriever.invoke(QUERY, k=9, preferences=[PREFERENCES[0]])
    assert set(ids(found)) == {"stew", "curry", "soup"}
    assert [one.metadata["epic_score"] for one in found] == [
        hit.score for hit in memory.search(QUERY, 9, options=SearchOptions(preferences=[PREFERENCES[0]]))
    ]
    assert (
        await retriever.ainvoke(QUERY, {"configurable": {"epic_preferences": [PREFERENCES[0]], "epic_k": 9}}) == found
    )
    with pytest.raises(UnknownPreferenceError):
        retriever.invoke(QUERY, preferences=["I love the sea."])


async def test_options_in_the_config_hold_unless_the_call_says_otherwise(retriever: EpicRetriever) -> None:
    config: Any = {
        "configurable": {
            "epic_k": 2,
            "epic_filter": {"kind": "hotel"},
            "thread_id": "7",
            "top_k": 9,
            "epic_namespace": None,
        }
    }
    assert set(ids(retriever.invoke(QUERY, config))) <= {"casino", "hotel", "poker"}
    for options, count in (({}, 2), ({"k": 1}, 1), ({"k": 3}, 3), ({"k": 9, "filter": {"kind": "food"}}, 3)):
        found = retriever.invoke(QUERY, config, **options)
        assert len(found) == count and found == await retriever.ainvoke(QUERY, config, **options)
        assert found == retriever.with_config(config).invoke(QUERY, **options)
        assert found == retriever.bind(**options).invoke(QUERY, config)
    assert len(retriever.invoke(QUERY)) == 4


def test_fields_can_be_made_configurable(retriever: EpicRetriever) -> None:
    configurable = retriever.configurable_fields(guidance=ConfigurableField(id="guidance"))
    first = configurable.invoke(QUERY, {"configurable": {"guidance": "text", "epic_k": 1}})
    assert len(first) == 1 and "Document 1:\n" in first[0].page_content
    assert configurable.invoke(QUERY) == retriever.invoke(QUERY)


def test_two_users_in_one_file_have_one_retriever(tmp_path: Path) -> None:
    path, encoder = tmp_path / "all.epic", generous()
    for user, items in (("ann", ITEMS[:3]), ("bob", ITEMS[3:])):
        with EpicMemory.open(path, PREFERENCES, settings=Settings(namespace=user, tau=0.0), encoder=encoder) as memory:
            memory.add(items)
    retriever = EpicRetriever(memory=path, k=9, embeddings=encoder)
    configs: Any = [{"configurable": {"epic_namespace": user}} for user in ("ann", "bob", "eve")] * 5
    found = [set(ids(one)) for one in retriever.batch([QUERY] * len(configs), configs)]
    assert found == [{"stew", "curry", "casino"}, {"hotel", "poker", "soup"}, set()] * 5
    retriever.memory.close()


# what it is made of


def test_embeddings_open_a_file_that_was_made_with_them(tmp_path: Path) -> None:
    path, words = tmp_path / "me.epic", Words()
    with EpicMemory.open(
        path, [WINE], encoder=LangChainEncoder(words), settings=Settings(verifier=KeepAll())
    ) as memory:
        memory.add([Item(id="a", text="red wine")])
    retriever = EpicRetriever(memory=path, embeddings=words)
    assert ids(retriever.invoke("red wine")) == ["a"]
    with pytest.raises(EncoderMismatchError, match="langchain:Words"):
        EpicRetriever(memory=path)
    # Of a memory that is open already they are its own.
    assert ids(EpicRetriever(memory=retriever.memory, embeddings=words).invoke("red wine")) == ["a"]
    with pytest.raises(ValidationError, match="embeddings"):
        EpicRetriever(memory=retriever.memory, embeddings=EpicEmbeddings())
    with pytest.raises(ValidationError, match="LangChain Embeddings"):
        EpicRetriever(memory=path, embeddings="all-minilm")
    retriever.memory.close()


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": -1}, {"k": "many"}, {"guidance": "both"}, {"kk": 3}])
def test_arguments_that_cannot_be_are_errors(wrong: dict[str, Any], memory: EpicMemory) -> None:
    with pytest.raises((ValidationError, InvalidInputError), match=next(iter(wrong))):
        EpicRetriever(memory=memory, **wrong)


async def test_nothing_blocks_the_event_loop() -> None:
    encoder = HashEncoder()
    memory = EpicMemory([WINE], encoder=encoder, settings=Settings(verifier=KeepAll()))
    memory.add(["red wine"])
    encoder.sync_threads.clear()
    assert len(await EpicRetriever(memory=memory).ainvoke("red wine")) == 1
    assert encoder.sync_threads == set()


def test_what_comes_out_is_the_callers(memory: EpicMemory, retriever: EpicRetriever) -> None:
    own = EpicMemory([WINE], encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    own.add([Item(id="a", text="red wine", metadata={"authors": ["Ann"]})])
    retriever = EpicRetriever(memory=own)
    (found,) = retriever.invoke("red wine")
    found.metadata["authors"].append("Eve")
    assert retriever.invoke("red wine")[0].metadata["authors"] == ["Ann"]


def test_traces_name_the_store(retriever: EpicRetriever) -> None:
    assert retriever._get_ls_params()["ls_vector_store_provider"] == "epic"


def test_a_missing_package_names_the_extra() -> None:
    code = "import sys; sys.modules['langchain_core'] = None; import epic_langchain"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'epic-memory[langchain]'" in done.stderr.splitlines()[-1]


def test_it_imports_no_more_than_it_needs_and_not_the_other_plugin() -> None:
    code = (
        "import sys, epic_langchain; graph = [name for name in sys.modules if 'graph' in name.split('.')[1:2]]\n"
        "from epic_langchain import EpicDocumentTransformer, EpicRetriever\n"
        "heavy = {'langgraph', 'langchain', 'langchain_tests', 'langchain_community', 'langchain_classic', 'torch'}\n"
        "heavy |= {'llama_index', 'epic_llamaindex'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}), graph)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"
