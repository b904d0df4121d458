"""A preference that brings its aspects goes through the plugins: kept, stored, and told apart from one without."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode

from epic_langchain import EpicDocumentTransformer
from epic_langchain import SteeredRetriever as LangChainSteered
from epic_llamaindex import EpicNodePostprocessor, EpicRetriever, EpicTransform
from epic_memory import EpicMemory, Preference, Settings
from epic_memory.types.preferences import Aspects
from helpers import HashEncoder, KeepAll
from scripted import Scripted, aspects_for, verifier_of

TEXT = "I avoid hotels with casinos."
SAID = Aspects(liked=("quiet inns",), avoided=("slot machines",), firmness=1.0, scope="in Las Vegas")
GIVEN, PLAIN = Preference(text=TEXT, aspects=SAID), Preference(text=TEXT)


@pytest.mark.parametrize("component", [EpicTransform, EpicNodePostprocessor])
def test_components_of_llamaindex_store_it_and_are_told_apart(component: Any) -> None:
    made = component(preferences=[GIVEN])
    stored = json.loads(json.dumps(made.to_dict()))
    assert stored != json.loads(json.dumps(component(preferences=[PLAIN]).to_dict()))
    made.preferences = [Preference(text=TEXT, aspects={"avoided": ["noise"]})]
    assert made.to_dict() != stored


def test_a_memory_whose_aspects_change_changes_what_a_pipeline_caches() -> None:
    memory = EpicMemory([TEXT], encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    transform = EpicTransform(memory=memory)
    before = transform.to_dict()
    memory.preferences.set_aspects(TEXT, SAID)
    assert transform.to_dict() != before and json.dumps(transform.to_dict())


def test_transformers_and_retrievers_of_langchain_take_it() -> None:
    keep = EpicDocumentTransformer(preferences=[GIVEN])
    documents = [Document("A hotel in Las Vegas with a casino and slot machines.")]
    assert keep.invoke(documents) and keep.invoke(documents, preferences=[PLAIN])
    assert set(keep._prepared._made) == {(GIVEN,), (PLAIN,)}
    assert [made._memory.preferences for made in keep._prepared._made.values() if made._memory] == [[GIVEN], [PLAIN]]
    assert LangChainSteered.model_fields["preferences"] and hash((GIVEN,)) != hash((PLAIN,))


def test_ingestion_asks_for_no_aspects_and_a_memory_of_ones_own_does() -> None:
    lm = Scripted()
    verifier: Any = verifier_of(lm)
    transform = EpicTransform(preferences=["red wine"], llm=verifier, encoder=HashEncoder())
    assert len(transform([TextNode(text="a red wine")])) == 1
    assert lm.read == []
    retriever = EpicRetriever.from_defaults(
        preferences=["red wine"], nodes=[TextNode(text="a red wine")], llm=verifier, embed_model=HashEncoder()
    )
    assert lm.read == ["red wine"]
    (said,) = retriever.memory.preferences.aspects().values()
    assert list(said.liked) == json.loads(aspects_for("red wine"))["liked"]
