"""Arguments that a component of a plugin does not take: the error says what it takes in their place."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("langchain", reason="needs the extra agents")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

import epic_langchain
import epic_llamaindex
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from helpers import KeepAll
from tables import table

PLUGINS: dict[str, Any] = {"lc": epic_langchain, "li": epic_llamaindex}
LC: Any = epic_langchain
MEMORY = EpicMemory(["I avoid casinos."])


@pytest.mark.parametrize(
    ("plugin", "kind", "given", "told"),
    [
        *table(__file__, "an_argument_of_another_name_is_explained"),
        ("lc", "EpicRetriever", {"memory": MEMORY, "top_k": 3}, "takes no top_k=. Give k=."),
        ("lc", "EpicMemoryMiddleware", {"memory": MEMORY, "wibble": 1}, "takes no wibble=. It takes memory=, k=,"),
        ("li", "EpicRetriever", {"memory": MEMORY, "k": 3}, "takes no k=. Give similarity_top_k=."),
        (
            *("li", "EpicRetriever", {"memory": MEMORY, "similarity_cutoff": 0.3}),
            "takes no similarity_cutoff=. Give options=SearchOptions(min_score=...).",
        ),
    ],
)
def test_an_argument_of_another_name_is_explained(plugin: str, kind: str, given: dict[str, Any], told: str) -> None:
    pattern = re.escape(told).replace(r"\.\*", ".*")
    for error in (InvalidInputError, TypeError):
        with pytest.raises(error, match=f"^{kind} {pattern}"):
            getattr(PLUGINS[plugin], kind)(**given)


@pytest.mark.parametrize(("plugin", "kind", "first"), table(__file__, "what_has_to_be_named_is_named"))
def test_what_has_to_be_named_is_named(plugin: str, kind: str, first: str) -> None:
    told = re.escape(f"{kind} takes its arguments by name: {kind}({first}=...).")
    with pytest.raises(InvalidInputError, match=f"^{told}$"):
        getattr(PLUGINS[plugin], kind)(MEMORY)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("embedding_function", "Give embed_model=."),
        ("persist_dir", "Give path=."),
        ("model", "Give llm=."),
        ("k", "Give similarity_top_k=."),
        ("wibble", "It takes preferences=,"),
    ],
)
def test_an_argument_is_explained_where_a_memory_is_made(name: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^EpicRetriever.from_defaults takes no {name}=. {told}") as caught:
        epic_llamaindex.EpicRetriever.from_defaults(**{name: 1})
    assert isinstance(caught.value, TypeError)


def test_some_components_and_stores_are_made_otherwise() -> None:
    with pytest.raises(InvalidInputError, match=r"persist_directory=\. Give path=\."):
        LC.EpicVectorStore.from_texts(["a"], LC.EpicEmbeddings(), persist_directory="x")
    assert LC.EpicMemoryMiddleware(MEMORY).memory is MEMORY
    with pytest.raises(InvalidInputError, match=r"^EpicMemoryMiddleware .* by name, but for memory\.$"):
        LC.EpicMemoryMiddleware(MEMORY, 5)
    for given in (lambda: LC.EpicStore(MEMORY), lambda: LC.EpicVectorStore(path=MEMORY)):
        with pytest.raises(InvalidInputError, match="name of a file, not EpicMemory"):
            given()


class Keyed(KeepAll):
    """Shows its key."""

    def __repr__(self) -> str:
        return "Keyed(api_key='sk-1234')"


@pytest.mark.parametrize(
    ("plugin", "kind"),
    [
        *(("lc", name) for name in ("EpicDocumentTransformer", "SteeredRetriever", "EpicRetriever")),
        *(("li", name) for name in ("EpicTransform", "EpicNodePostprocessor")),
    ],
)
def test_nothing_that_is_shown_has_a_models_key(plugin: str, kind: str) -> None:
    make = getattr(PLUGINS[plugin], kind)
    for name in ("preferences", "llm", "settings", "memory"):
        with pytest.raises(ValueError) as raised:
            make(**{"preferences": ["wine"], name: [Keyed()]})
        assert "sk-1234" not in str(raised.value)
    if "Retriever" not in kind:
        with pytest.raises(ValueError) as raised:
            make(preferences=[""], llm=Keyed(), lm=Keyed())
        made = make(preferences=["wine"], llm=Keyed())
        assert "sk-1234" not in f"{raised.value} {made!r} {made} {made.to_json()}"
