"""Nodes that the ingestion step has seen, judged anew: what changes in an index is what an index made anew has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode

from epic_core.errors import InvalidInputError, LMUnavailableError, NoPreferencesError, UndecidedError
from epic_llamaindex.embeddings import EpicEmbedding
from epic_llamaindex.seen import Reprocessed
from epic_llamaindex.transform import EpicTransform
from helpers import HashEncoder
from llamaindex_models import ScriptedEmbedding
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, verifier_of

SKY = "blue sky"
NOTHING = Reprocessed(gone=[], kept=[])
Again = Callable[..., Awaitable[Reprocessed]]


async def _reprocess(keep: EpicTransform, *nodes: Any) -> Reprocessed:
    return keep.reprocess(*nodes)


async def _areprocess(keep: EpicTransform, *nodes: Any) -> Reprocessed:
    return await keep.areprocess(*nodes)


@pytest.fixture(params=["reprocess", "areprocess"])
def again(request: pytest.FixtureRequest) -> Again:
    """Judges anew with or without blocking the event loop."""
    return _reprocess if request.param == "reprocess" else _areprocess


def step(lm: Scripted | None = None, **options: Any) -> EpicTransform:
    """A step whose model decides by what is said in the text."""
    lm = Scripted() if lm is None else lm
    return EpicTransform(**{"preferences": [WINE], "encoder": HashEncoder(), "llm": verifier_of(lm), **options})


def document(name: str, *texts: str, version: str = "1", ids: str = "") -> list[TextNode]:
    """The nodes of a document, each linked with the next; `ids` makes other ids of them."""
    nodes = [
        TextNode(text=text, id_=f"{name}{ids}{n}", start_char_idx=10 * n, end_char_idx=10 * n + len(text))
        for n, text in enumerate(texts)
    ]
    for place, node in enumerate(nodes):
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=name, hash=version)
        if place:
            node.relationships[NodeRelationship.PREVIOUS] = nodes[place - 1].as_related_node_info()
        if place + 1 < len(nodes):
            node.relationships[NodeRelationship.NEXT] = nodes[place + 1].as_related_node_info()
    return nodes


def ids(nodes: Sequence[BaseNode]) -> list[str]:
    return [node.node_id for node in nodes]


def index_of(nodes: Sequence[BaseNode]) -> VectorStoreIndex:
    return VectorStoreIndex(list(nodes), embed_model=EpicEmbedding())


def applied(changed: Reprocessed, index: VectorStoreIndex) -> None:
    """What a user does with it; of what is not there, a document store would raise an error."""
    there = index.index_struct.nodes_dict
    index.delete_nodes([one for one in changed.gone if one in there], delete_from_docstore=True)
    index.insert_nodes(changed.kept)


def contents(index: VectorStoreIndex) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """All that is in an index: nodes with metadata and links, and embeddings."""
    docs = {
        key: {name: value for name, value in node.to_dict().items() if name != "embedding"}
        for key, node in index.docstore.docs.items()
    }
    vectors = index.vector_store.data.embedding_dict  # type: ignore[attr-defined]
    assert set(docs) == set(vectors) == set(index.index_struct.nodes_dict)
    return docs, vectors


def assert_equal(index: VectorStoreIndex, nodes: Sequence[BaseNode]) -> None:
    """An index holds what one has that is made of these nodes."""
    found, wanted = contents(index), contents(index_of(nodes))
    assert found[0] == wanted[0]
    for key, vector in wanted[1].items():
        assert found[1][key] == pytest.approx(vector, abs=1e-4)


ONE = document("one", "red wine", "blue sky", BOTH, f"{BOTH} nowine", "night train")
TWO = document("two", "blue sky", "red wine in the blue sky", "an engine", "red wine nowine")


async def test_what_is_kept_by_a_new_preference_is_told(again: Again) -> None:
    keep = step()
    found = keep([*ONE, *TWO])
    assert ids(found) == ["one0", "one2", "two1"]
    assert await again(keep) == NOTHING
    keep.preferences = [WINE, TRAIN]
    changed = await again(keep)
    # one2 has more guidance; one0 has other neighbours.
    assert ids(changed.kept) == ["one2", "one3", "one4"] and changed.gone == ["one2"]
    assert changed.kept == step(preferences=[WINE, TRAIN])([*ONE, *TWO])[1:4]
    assert await again(keep) == NOTHING
    keep.preferences = [TRAIN]
    changed = await again(keep)
    assert changed.gone == ["one0", "one2", "two1"]
    assert ids(changed.kept) == ["one2"]
    assert keep.report.seen == 9


async def test_a_document_store_skips_and_reprocess_does_not_ask_again(again: Again) -> None:
    lm = Scripted()
    keep = step(lm)
    keep([*ONE, *TWO])
    lm.asked.clear()
    keep.preferences = [WINE, TRAIN]
    await again(keep)
    assert lm.asked and {asked.preferences for asked in lm.asked} == {(TRAIN,)}


CHANGES = st.lists(
    st.one_of(
        st.lists(st.sampled_from([WINE, TRAIN, SKY]), min_size=1, unique=True),
        st.sampled_from([{"tau": 0.6}, {"tau": None}, {"annotate": False}, {"annotate": True}, {"fine": False}]),
        st.just("two"),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=30, deadline=None)
@given(changes=CHANGES, embedded=st.booleans(), twice=st.booleans())
@pytest.mark.slow
def test_an_index_that_is_changed_equals_one_made_anew(changes: list[Any], embedded: bool, twice: bool) -> None:
    options: dict[str, Any] = {"embed_model": EpicEmbedding()} if embedded else {}
    keep = step(**options)
    index, seen = index_of(keep(ONE)), list(ONE)
    for change in changes:
        if change == "two":
            if TWO[0] in seen:
                continue
            seen += TWO
            index.insert_nodes(keep(TWO))
        elif isinstance(change, dict):
            ((name, value),) = change.items()
            setattr(keep, name, value)
        else:
            keep.preferences = change
        if twice and change != changes[-1]:
            continue
        applied(keep.reprocess(), index)
        fresh = step(**{**options, **{name: getattr(keep, name) for name in keep.model_fields_set - {"llm"}}})
        assert_equal(index, fresh(seen))


async def test_another_embedding_model_changes_all_embeddings(again: Again) -> None:
    keep = step(embed_model=EpicEmbedding(), annotate=False)
    found = keep(ONE)
    keep.embed_model = ScriptedEmbedding()
    changed = await again(keep)
    assert changed.gone == ids(found) == ids(changed.kept)
    assert {len(node.embedding) for node in changed.kept} == {96}


async def test_another_instruction_changes_an_embedding_that_is_not_annotated(again: Again) -> None:
    keep = step(preferences=[WINE], embed_model=EpicEmbedding(), annotate=False)
    (found,) = keep([TextNode(text=BOTH, id_="a")])
    keep.preferences = [TRAIN]
    changed = await again(keep)
    assert changed.gone == ["a"]
    assert changed.kept[0].metadata == found.metadata and changed.kept[0].embedding != found.embedding


# undecided


@pytest.fixture(autouse=True)
def never_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does not answer some questions is asked the others."""
    monkeypatch.setattr("epic_core.lm.retries._ITEMS_UNTIL_DOWN", 1000)


def stalls(asked: Asked) -> None:
    raise LMUnavailableError("It stalled.")


async def test_a_model_that_fails_changes_nothing_yet(again: Again) -> None:
    lm = Scripted()
    keep = step(lm)
    index = index_of(keep([*ONE, *TWO]))
    keep.preferences = [WINE, TRAIN]
    lm.hook = stalls
    with pytest.raises(UndecidedError):
        await again(keep)
    lm.hook = None
    applied(await again(keep), index)
    assert_equal(index, step(preferences=[WINE, TRAIN])([*ONE, *TWO]))
    assert await again(keep) == NOTHING


async def test_what_was_undecided_is_given_when_it_is_decided(again: Again) -> None:
    """As where a document store knows the documents already, and the pipeline would skip them."""
    lm = Scripted(stalls)
    keep = step(lm)
    with pytest.raises(UndecidedError, match=r"reprocess\(\) gives their nodes"):
        keep([*ONE, *TWO])
    lm.hook = None
    changed = await again(keep)
    assert changed == Reprocessed(gone=[], kept=step()([*ONE, *TWO]))


async def test_links_close_around_what_was_skipped(again: Again) -> None:
    lm = Scripted(lambda asked: stalls(asked) if asked.chunk == BOTH else None)
    keep = step(lm, on_undecided="skip", preferences=[WINE, TRAIN])
    index = index_of(keep([*ONE, *TWO]))
    assert len(index.docstore.docs) == 4
    lm.hook = None
    applied(await again(keep), index)
    assert_equal(index, step(preferences=[WINE, TRAIN])([*ONE, *TWO]))


async def test_what_is_in_the_index_stays_there_while_it_is_undecided(again: Again) -> None:
    lm = Scripted()
    keep = step(lm, on_undecided="skip")
    keep([*ONE, *TWO])
    keep.preferences = [TRAIN]
    lm.hook = stalls
    changed = await again(keep)
    assert set(changed.gone) == {"one0", "two1"} and changed.kept == []
    assert {"one2"} < set(ids(keep.undecided))


# the ledger


async def test_what_was_forgotten_is_told_of(again: Again, caplog: pytest.LogCaptureFixture) -> None:
    keep = step(ledger=3)
    keep([*ONE, *TWO])
    (told,) = keep.report.warnings
    assert told.startswith("6 nodes are no longer remembered") and "reprocess(nodes)" in told
    keep.preferences = [TRAIN]
    with caplog.at_level(logging.WARNING, "epic_llamaindex"):
        changed = await again(keep)
    assert changed.gone == ["two1"]
    assert [one for one in caplog.messages if "6 nodes that were seen are not among these" in one]
    # Those of which nothing is known may be in the index.
    changed = await again(keep, ONE)
    assert changed.gone == ids(ONE) and ids(changed.kept) == ["one2", "one3", "one4"]


async def test_no_more_than_the_ledgers_size_is_remembered(again: Again) -> None:
    keep = step(ledger=100)
    for n in range(30):
        keep(document(f"d{n}", *["red wine"] * 10))
    keep.ledger = 20
    keep.preferences = [TRAIN]
    assert (await again(keep)).gone == [f"d{n}{m}" for n in (28, 29) for m in range(10)]
    quiet = step(ledger=0)
    quiet(ONE)
    assert quiet.report.warnings == []
    quiet.preferences = [TRAIN]
    assert await again(quiet) == NOTHING and quiet.report.warnings


async def test_nodes_of_another_version_take_the_place_of_the_old(again: Again) -> None:
    keep = step()
    keep(document("one", "red wine", "red wine too"))
    keep(document("one", "red wine", version="2", ids="-"))
    keep.preferences = [TRAIN]
    assert (await again(keep)).gone == ["one-0"]


async def test_nodes_that_come_again_with_other_ids_take_the_place_of_the_old(again: Again) -> None:
    keep = step()
    for round_ in "abc":
        keep(document("one", "red wine", "blue sky", ids=round_))
    keep.preferences = [SKY]
    changed = await again(keep)
    assert changed.gone == ["onec0"] and ids(changed.kept) == ["onec1"]


async def test_the_same_text_twice_in_a_document_is_two_nodes(again: Again) -> None:
    keep = step()
    nodes = document("one", "red wine", "red wine")
    keep(nodes[:1])
    keep(nodes[1:])
    keep.preferences = [TRAIN]
    assert (await again(keep)).gone == ["one0", "one1"]


async def test_the_same_id_with_another_text(again: Again) -> None:
    keep = step()
    keep([TextNode(text="red wine", id_="a", metadata={"n": 1})])
    changed = await again(keep, [TextNode(text="Red wine", id_="a", metadata={"n": 1})])
    assert changed.gone == ["a"] and [node.get_content() for node in changed.kept] == ["Red wine"]


async def test_given_nodes_that_a_cache_answered_for(again: Again) -> None:
    other, keep = step(), step()
    index = index_of(other(ONE))
    keep.preferences = [WINE, TRAIN]
    changed = await again(keep, ONE)
    applied(changed, index)
    assert_equal(index, step(preferences=[WINE, TRAIN])(ONE))
    assert await again(keep) == NOTHING
    assert await again(keep, ONE) == NOTHING


async def test_what_is_remembered_is_as_it_came(again: Again) -> None:
    nodes = [TextNode(text=BOTH, id_="a", metadata={"authors": ["Ann"]}, embedding=[0.5])]
    keep = step()
    (found,) = keep(nodes)
    nodes[0].metadata["authors"].append("Bob")
    nodes[0].set_content("changed")
    found.metadata.clear()
    keep.preferences = [TRAIN]
    (again_found,) = (await again(keep)).kept
    assert again_found.get_content() == BOTH and again_found.metadata["authors"] == ["Ann"]
    again_found.metadata["authors"].clear()
    keep.preferences = [WINE]
    (last,) = (await again(keep)).kept
    assert last.metadata["authors"] == ["Ann"]


async def test_what_came_out_was_not_changed_by_its_caller(again: Again) -> None:
    keep = step()
    (found,) = keep([TextNode(text="red wine", id_="a")])
    found.metadata["summary"] = "by a later step"
    assert await again(keep) == NOTHING


async def test_nothing_seen_is_nothing_changed(again: Again) -> None:
    assert await again(step()) == NOTHING
    assert await again(step(), []) == NOTHING


async def test_what_cannot_be_judged_anew(again: Again) -> None:
    with pytest.raises(InvalidInputError, match="Give several nodes in a list, not str"):
        await again(step(), "red wine")
    keep = step()
    keep(ONE)
    keep.preferences = []
    with pytest.raises(NoPreferencesError):
        await again(keep)
    keep.preferences = [WINE]
    assert await again(keep) == NOTHING


def test_two_threads_judge_anew_at_once() -> None:
    keep = step()
    keep([*ONE, *TWO])
    keep.preferences = [WINE, TRAIN]

    async def both() -> list[Reprocessed]:
        return list(await asyncio.gather(asyncio.to_thread(keep.reprocess), asyncio.to_thread(keep.reprocess)))

    changes = asyncio.run(both())
    kept = {one for changed in changes for one in ids(changed.kept)}
    assert kept == {"one2", "one3", "one4"}
    assert keep.reprocess() == NOTHING
