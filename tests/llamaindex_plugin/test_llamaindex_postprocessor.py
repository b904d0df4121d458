"""`EpicNodePostprocessor`: nodes that some retriever found, in the order of the user's preferences."""

from __future__ import annotations

import copy
import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_memory import Settings
from helpers import settled

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document, ImageNode, IndexNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from pydantic import ValidationError

from epic_llamaindex.models import LlamaIndexLM
from epic_llamaindex.nodes import node_of
from epic_llamaindex.postprocessor import EpicNodePostprocessor
from epic_memory import EpicMemory, Preference, Stance
from epic_memory.errors import EncoderError, InvalidInputError, LMSetupError, LMUnavailableError, ReadOnlyError
from epic_memory.steering.relevance import SAMPLES
from epic_memory.verification import LMVerifier
from helpers import AlteredEncoder, DiscardAll, HashEncoder, KeepAll
from llamaindex_models import ScriptedEmbedding, ScriptedLLM, heard
from scripted import answer_to, instruction_for, read_prompt
from tables import table

VEGAN = "I follow a strict vegan diet."
QUERY = "What shall I cook for dinner?"
STEW = "A rich beef stew for cold evenings, with red wine."
SOUP = "Lentil soup is a vegan dish that cooks in half an hour."
STEAM = "The history of the steam engine begins in 1712."
TOFU = "Tofu and vegetables fried in a wok make a quick vegan dinner."


def found(*texts: str, score: float | None = 0.5) -> list[NodeWithScore]:
    """Nodes as a retriever finds them, numbered by their ids."""
    return [NodeWithScore(node=TextNode(text=text, id_=f"n{number}"), score=score) for number, text in enumerate(texts)]


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


def stances(nodes: Sequence[NodeWithScore]) -> list[str | None]:
    return [node.node.metadata.get("epic_stance") for node in nodes]


async def both(
    make: Callable[[], EpicNodePostprocessor], nodes: list[NodeWithScore], query: str | None = QUERY
) -> list[NodeWithScore]:
    """Return the nodes that come out of both ways to call it, the same; nothing that was given is changed."""
    before = copy.deepcopy([node.to_dict() for node in nodes])
    bundle = None if query is None else QueryBundle(query)
    out = make().postprocess_nodes(nodes, bundle)
    other = await make().apostprocess_nodes(nodes, bundle)
    assert [node.to_dict() for node in out] == [node.to_dict() for node in other]
    assert [node.to_dict() for node in nodes] == before
    assert bundle is None or bundle == QueryBundle(query)
    return out


def hashed(verifier: object = None, preferences: Any = "red wine", **options: Any) -> EpicNodePostprocessor:
    """With an encoder that counts words, in whose space similarities are known."""
    encoder = options.pop("embed_model", None) or HashEncoder()
    given = {"preferences": preferences, "embed_model": encoder, "llm": verifier or KeepAll(), **options}
    return EpicNodePostprocessor(**settled(**given))


# what comes out


async def test_nodes_are_ranked_and_say_how_they_suit_the_user() -> None:
    out = await both(lambda: EpicNodePostprocessor(preferences=[VEGAN]), found(STEW, SOUP, STEAM, TOFU))
    assert ids(out) == ["n3", "n1", "n0", "n2"]
    scores = [node.score for node in out]
    assert scores == sorted(scores, key=lambda score: -(score or 0.0)) and all(type(score) is float for score in scores)
    best = out[0].node
    assert best.metadata["epic_preference"] == VEGAN and best.metadata["epic_stance"] == "supports"
    assert [told["preference"] for told in json.loads(best.metadata["epic_alignments"])] == [VEGAN]
    assert best.get_content(MetadataMode.LLM) == best.get_content(MetadataMode.EMBED) == TOFU
    assert set(best.metadata) == set(best.excluded_llm_metadata_keys) == set(best.excluded_embed_metadata_keys)
    assert out[-1].node.metadata == {}


async def test_stances_rule_the_order() -> None:
    """The query and the preference are the same words, so that every mode has the same q~."""
    texts = ["red wine well", "red wine bad", "red wine half", "red wine so", "red wine nothing"]
    said = {"bad": Stance.CONFLICTS, "half": Stance.MIXED, "so": Stance.NEUTRAL}
    for mode in ("signed", "paper", "off"):
        out = await both(lambda mode=mode: hashed(KeepAll(said), steering=mode), found(*texts), "red wine")  # type: ignore[misc]
        assert ids(out) == ["n0", "n4", "n3", "n2", "n1"]
        scores = [node.score or 0.0 for node in out]
        assert scores == sorted(scores, reverse=True)


def test_what_comes_out_shares_nothing_that_can_be_changed() -> None:
    nodes = found("red wine", "steam")
    for node in nodes:
        node.node.metadata = {"list": [1]}
    for node in hashed().postprocess_nodes(nodes, query_str="wine"):
        node.node.metadata["list"].append(2)
        node.node.metadata["more"] = 3
        node.node.excluded_llm_metadata_keys.append("x")
    assert all(node.node.metadata == {"list": [1]} and not node.node.excluded_llm_metadata_keys for node in nodes)


async def test_the_query_is_steered() -> None:
    nodes = found("tea", "red wine tea")
    assert ids(await both(lambda: hashed(DiscardAll(), steering="off"), nodes, "wine tea")) == ["n1", "n0"]
    nodes = found("wine tea", "red wine tea")
    assert ids(await both(lambda: hashed(DiscardAll(), steering="off"), nodes, "wine tea")) == ["n0", "n1"]
    assert ids(await both(lambda: hashed(DiscardAll(), steering="paper"), nodes, "wine tea")) == ["n1", "n0"]
    nodes = found("A hotel with a large casino.", "A hotel with a quiet garden.")
    for mode, first in (("off", "n0"), ("paper", "n0"), ("signed", "n1")):
        out = await both(
            lambda mode=mode: EpicNodePostprocessor(  # type: ignore[misc]
                preferences="I avoid hotels with casinos.", llm=DiscardAll(), settings=Settings(steering=mode)
            ),
            nodes,
            "Recommend a hotel.",
        )
        assert out[0].node_id == first


@pytest.mark.parametrize(
    ("keep", "left"), [("all", ["n0", "n1", "n2", "n3", "n4"]), ("relevant", ["n0", "n1", "n2"]), ("supports", ["n0"])]
)
async def test_what_does_not_suit_can_be_left_out(keep: str, left: list[str]) -> None:
    nodes = found("red wine", "red wine bad", "red wine half", "steam engine", "other things")
    said = {"bad": Stance.CONFLICTS, "half": Stance.MIXED}
    out = await both(lambda: hashed(KeepAll(said), keep=keep), nodes, "red wine")
    assert sorted(ids(out)) == left


async def test_only_the_best_come_out() -> None:
    nodes = found(STEW, SOUP, STEAM, TOFU)
    assert ids(await both(lambda: EpicNodePostprocessor(preferences=[VEGAN], top_n=2), nodes)) == ["n3", "n1"]


async def test_without_reranking_order_and_scores_stay() -> None:
    nodes = found("green hills", "red wine from Spain", "steam engine", "red wine", score=None)
    nodes[1].score = 0.25
    out = await both(lambda: hashed(rerank=False, keep="relevant"), nodes, "red wine")
    assert ids(out) == ["n1", "n3"] and [node.score for node in out] == [0.25, None]
    assert stances(out) == ["supports", "supports"]
    encoder = HashEncoder()
    hashed(rerank=False, embed_model=encoder).postprocess_nodes(found("red wine"), query_str="what to drink")
    assert encoder.texts["what to drink"] == 0


@pytest.mark.parametrize("query", [None, "", " \n"], ids=["none", "empty", "blank"])
async def test_without_a_query_stances_decide_then_similarity_then_the_order_given(query: str | None) -> None:
    nodes = found("a", "red wine bad", "red wine from Spain", "b", "red wine", "c")
    out = await both(lambda: hashed(KeepAll({"bad": Stance.CONFLICTS})), nodes, query)
    assert ids(out) == ["n4", "n2", "n0", "n3", "n5", "n1"]
    assert [node.score for node in out] == [0.5] * 6


# what there may be among the nodes


async def test_no_nodes() -> None:
    assert await both(lambda: EpicNodePostprocessor(preferences=[VEGAN]), []) == []
    assert await both(lambda: EpicNodePostprocessor(preferences=[VEGAN]), [], None) == []


async def test_nodes_without_text_come_last_as_they_are() -> None:
    image = ImageNode(
        image_url="http://127.0.0.1/a.png", id_="image", metadata={"epic_stance": "conflicts", "of": ["a"]}
    )
    nodes = [NodeWithScore(node=image, score=0.9), NodeWithScore(node=TextNode(text=" ", id_="blank")), *found(STEAM)]
    for keep in ("all", "supports"):
        out = await both(
            lambda keep=keep: EpicNodePostprocessor(preferences=[VEGAN], keep=keep, guidance="text"),  # type: ignore[misc]
            nodes,
        )
        assert ids(out) == (["n0", "image", "blank"] if keep == "all" else ["image", "blank"])
        assert out[-2].score == 0.9 and out[-2].node.metadata == image.metadata and out[-1].score is None
        assert out[-2].node.get_content() == "" and out[-2].node is not image
    stay = EpicNodePostprocessor(preferences=[VEGAN], rerank=False)
    assert ids(await both(lambda: stay, nodes)) == ["image", "blank", "n0"]


async def test_all_kinds_of_nodes_with_text_are_judged() -> None:
    nodes = [
        NodeWithScore(node=Document(text="red wine", id_="document")),
        NodeWithScore(node=IndexNode(text="red wine from Spain", id_="index", index_id="x")),
        NodeWithScore(node=ImageNode(text="red wine", id_="captioned")),
    ]
    out = await both(lambda: hashed(guidance="text"), nodes, "red wine")
    assert stances(out) == ["supports"] * 3
    assert [type(node.node) for node in out] == [Document, ImageNode, IndexNode]
    assert all(node.node.get_content().startswith(f"Document {n}:\n") for n, node in enumerate(out, start=1))


async def test_characters_that_no_memory_takes_do_not_matter() -> None:
    nodes = found("red wine\x00", "red wine from Spain\ud800", STEAM)
    out = hashed().postprocess_nodes(nodes, query_str="red wine\x00")
    assert ids(out) == ["n0", "n1", "n2"] and stances(out) == ["supports", "supports", None]
    assert out[0].text == "red wine\x00"


async def test_guidance_that_is_there_stands() -> None:
    """Verdicts from when a node was stored are not asked for again."""
    verifier = KeepAll({"": Stance.SUPPORTS})
    stored = hashed(KeepAll({"bad": Stance.CONFLICTS}), ["red wine", "old books"]).postprocess_nodes(
        found("red wine bad", "old books"), query_str="x"
    )
    nodes = [*stored, *found("red wine")]
    out = hashed(verifier, ["red wine"]).postprocess_nodes(nodes, query_str="red wine")
    assert [text for text, _ in verifier.asked] == ["red wine"]
    told = {node.text: node.node.metadata for node in out}
    assert told["red wine bad"] == {node.text: node.node.metadata for node in stored}["red wine bad"]
    assert told["old books"] == {}  # under another preference only: judged again, and it is for none
    assert [node.text for node in out] == ["red wine", "red wine bad", "old books"]


async def test_guidance_under_preferences_that_are_not_the_users_is_taken_off() -> None:
    stored = hashed(preferences=["red wine", "old books"]).postprocess_nodes(
        found("red wine and old books"), query_str="x"
    )
    stored[0].node.metadata["epic_steered_by"] = "red wine"
    (node,) = hashed(preferences=["old books"]).postprocess_nodes(stored, query_str="old books")
    assert node.node.metadata["epic_preference"] == "old books" and node.node.metadata["epic_steered_by"] == "red wine"
    assert [told["preference"] for told in json.loads(node.node.metadata["epic_alignments"])] == ["old books"]


@pytest.mark.parametrize(
    "alignments",
    [*table(__file__, "guidance_that_cannot_be_read_is_written_anew"), "[" * 100_000],
    ids=lambda value: str(value)[:80],
)
def test_guidance_that_cannot_be_read_is_written_anew(alignments: Any) -> None:
    nodes = found("red wine")
    nodes[0].node.metadata = {"epic_alignments": alignments, "epic_stance": "conflicts", "own": 1}
    (node,) = hashed(guidance="text").postprocess_nodes(nodes, query_str="red wine")
    assert node.node.metadata["epic_stance"] == "supports" and node.node.metadata["own"] == 1


# guidance in texts


def written(*texts: str, **options: Any) -> list[NodeWithScore]:
    """Nodes with guidance in their texts."""
    return hashed(guidance="text", **options).postprocess_nodes(found(*texts), query_str="red wine")


async def test_guidance_that_is_in_a_text_is_written_anew() -> None:
    verifier, texts = KeepAll(), ["red wine", "red wine Content: z", "steam engine", "\nContent:\nred wine"]
    first = written(*texts)
    assert {node.node_id: node.node.metadata["epic_content"] for node in first} == {
        f"n{number}": text for number, text in enumerate(texts)
    }
    for guidance in ("text", "metadata"):
        again = await both(lambda guidance=guidance: hashed(guidance=guidance), first[::-1], "red wine")  # type: ignore[misc]
        assert [node.to_dict() for node in again] == [node.to_dict() for node in first]
        # Under another preference, judged by what it was, and without what was said under the first.
        (other,) = hashed(verifier, "steam", guidance=guidance, keep="relevant").postprocess_nodes(first)
        assert (
            other.text
            == "Document 1:\nInterpretation Guidance:\n- Think of steam: steam engine\nContent:\nsteam engine"
        )
    assert {text for text, _ in verifier.asked} <= {"steam engine"}
    shown = {*first[0].node.excluded_llm_metadata_keys} & {*first[0].node.excluded_embed_metadata_keys}
    assert set(first[0].node.metadata) <= shown


async def test_guidance_that_a_retriever_wrote_is_written_anew() -> None:
    memory = EpicMemory(
        ["red wine"], encoder=HashEncoder(), settings=Settings(verifier=KeepAll({"bad": Stance.CONFLICTS}))
    )
    memory.add(["red wine bad", "red wine"])
    nodes = []
    for number, hit in enumerate(memory.search("red wine"), start=1):
        node = node_of(hit, number, guidance="text").node
        node.metadata = {**node.metadata, "epic_content": hit.text}
        nodes.append(NodeWithScore(node=node, score=hit.score))
    verifier = KeepAll()
    out = await both(lambda: hashed(verifier, guidance="text"), nodes[::-1], "red wine")
    assert not verifier.asked and [node.text for node in out] == [node.text for node in nodes]
    hashed(verifier, "wine bad", guidance="text").postprocess_nodes(nodes, query_str="wine")
    assert sorted(text for text, _ in verifier.asked) == ["red wine", "red wine bad"]


@pytest.mark.parametrize("text", ["red wine, cut", "Document 1:\nContent:\nred wine and more", ""], ids=ascii)
def test_a_text_that_has_changed_since_is_what_is_judged(text: str) -> None:
    (node,) = written("red wine")
    node.node.set_content(text)  # type: ignore[attr-defined]
    verifier = KeepAll()
    node.node.metadata = {"epic_content": "red wine"}
    (out,) = hashed(verifier).postprocess_nodes([node], query_str="red wine")
    assert out.text == text and [judged for judged, _ in verifier.asked] == ([text] if text else [])
    assert ("epic_content" in out.node.metadata) == (not text)


@pytest.mark.parametrize("metadata", [{}, {"epic_content": 7}, {"epic_content": " "}], ids=["none", "number", "blank"])
def test_a_text_that_only_looks_guided_is_judged_as_it_is(metadata: dict[str, Any]) -> None:
    verifier, text = KeepAll(), "Document 1:\nContent:\nred wine"
    nodes = found(text)
    nodes[0].node.metadata = metadata
    hashed(verifier).postprocess_nodes(nodes)
    assert [judged for judged, _ in verifier.asked] == [text]


async def test_guidance_in_texts_is_numbered_by_rank() -> None:
    said = {"bad": Stance.CONFLICTS}
    nodes = found("red wine bad", "red wine", "Content: Document 9: red wine")
    out = await both(lambda: hashed(KeepAll(said), guidance="text"), nodes, "red wine")
    assert out[0].text == ("Document 1:\nInterpretation Guidance:\n- Think of red wine: red wine\nContent:\nred wine")
    assert "\nContent:\n> Content: Document 9: red wine" in next(node.text for node in out if node.node_id == "n2")
    conflicting = next(node.text for node in out if node.node_id == "n0")
    assert 'Steer clear: this conflicts with the preference "red wine". Think of' in conflicting
    (plain,) = await both(lambda: hashed(guidance="text"), found("steam engine"), "red wine")
    assert plain.text == "Document 1:\nContent:\nsteam engine"


# models


def scripted(answered: Callable[[str], bool] = lambda chunk: True) -> ScriptedLLM:
    """An LLM that keeps everything, and fails where it does not answer."""

    def answers(messages: Sequence[ChatMessage]) -> str | Exception:
        asked = read_prompt([{"role": message.role.value, "content": message.content} for message in messages])
        if not all(map(answered, asked.chunks)):
            return LMUnavailableError("no server")
        return answer_to(asked, lambda chunk, preference: Stance.SUPPORTS)

    return ScriptedLLM(answers=answers)


def model(llm: ScriptedLLM) -> LMVerifier:
    return LMVerifier(LlamaIndexLM(llm), retries=0)


async def test_a_model_that_fails_leaves_nodes_undecided(caplog: pytest.LogCaptureFixture) -> None:
    for run in ("sync", "async"):
        down = {"red wine b"}
        llm = scripted(lambda chunk, down=down: chunk not in down)  # type: ignore[misc]
        processor = hashed(model(llm), keep="supports")
        nodes = found("red wine a", "red wine b", "steam engine")
        nodes[1].node.metadata = {"epic_alignments": "[]", "own": 1}

        async def call(nodes: Any = nodes, processor: Any = processor, run: str = run) -> list[NodeWithScore]:
            if run == "sync":
                return processor.postprocess_nodes(nodes, query_str="red wine")  # type: ignore[no-any-return]
            return await processor.apostprocess_nodes(nodes, query_str="red wine")  # type: ignore[no-any-return]

        caplog.clear()
        out = await call()
        assert ids(out) == ["n0", "n1"] and stances(out) == ["supports", None]
        assert out[1].node.metadata == {"own": 1} and processor.report.undecided == 1
        assert "1 texts are undecided" in caplog.text and "no server" in caplog.text
        asked = len(llm.seen)
        down.clear()
        assert stances(await call()) == ["supports", "supports"]
        assert len(llm.seen) == asked + 1 and "red wine b" in llm.prompts[-1]
        assert stances(await call()) == ["supports", "supports"] and len(llm.seen) == asked + 1


@pytest.mark.parametrize("run", ["sync", "async"])
async def test_a_model_that_is_down_is_not_waited_for(
    run: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1000.0]
    monkeypatch.setattr("epic_llamaindex.ranking.monotonic", lambda: now[0])
    up: list[bool] = []
    llm = scripted(lambda chunk: bool(up))
    processor = EpicNodePostprocessor(preferences="red wine", embed_model=HashEncoder(), llm=llm)
    nodes = found("red wine a", "red wine b", "red wine c")

    unknown, known = [None] * 3, ["supports"] * 3

    async def call() -> tuple[list[str | None], int]:
        before = len(llm.seen)
        caplog.clear()
        if run == "sync":
            out = processor.postprocess_nodes(nodes, query_str="red wine")
        else:
            out = await processor.apostprocess_nodes(nodes, query_str="red wine")
        assert ("3 texts are undecided" in caplog.text and "no server" in caplog.text) == (stances(out) == unknown)
        return stances(out), len(llm.seen) - before

    assert await call() == (unknown, 4)  # all of them, and one alone, each twice
    now[0] += 29.0
    assert await call() == (unknown, 0)
    now[0] += 1.0
    assert await call() == (unknown, 1)
    up.append(True)
    now[0] += 29.0
    assert await call() == (unknown, 0)
    now[0] += 1.0
    assert await call() == (known, 1)
    up.clear()
    assert await call() == (known, 0)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (LMUnavailableError("slow", timed_out=True), 2),
        (LMUnavailableError("later", retry_after=20.0), 2),
        (LMSetupError("no such model"), 1),
    ],
    ids=["timeout", "later", "setup"],
)
def test_no_timeout_and_no_long_pause_comes_twice(error: Exception, calls: int) -> None:
    llm = ScriptedLLM(answers=lambda messages: error)
    processor = EpicNodePostprocessor(preferences="red wine", embed_model=HashEncoder(), llm=llm)
    processor.postprocess_nodes(found("red wine a", "red wine b", "red wine c"), query_str="wine")
    assert len(llm.seen) == calls and processor.report.undecided == 3


def test_one_failure_among_answers_is_tried_again() -> None:
    said = iter([False])
    llm = scripted(lambda chunk: next(said, True))
    processor = EpicNodePostprocessor(preferences="red wine", embed_model=HashEncoder(), llm=llm)
    assert stances(processor.postprocess_nodes(found("red wine a", "red wine b"))) == ["supports"] * 2
    assert len(llm.seen) == 2


def test_a_verifier_has_its_own_patience() -> None:
    llm = scripted(lambda chunk: False)
    processor = hashed(LMVerifier(LlamaIndexLM(llm), retries=2, backoff=0.0))
    for calls in (6, 7, 8):  # then once in each call
        processor.postprocess_nodes(found("red wine a", "red wine b", "red wine c"))
        assert len(llm.seen) == calls


async def test_an_llm_of_the_framework_and_its_embeddings() -> None:
    llm, embeddings = scripted(), ScriptedEmbedding()
    made = EpicNodePostprocessor(preferences=[VEGAN], llm=llm, embed_model=embeddings, settings=Settings(tau=0.2))
    out = made.postprocess_nodes(found(STEAM, TOFU), query_str=QUERY)
    assert out[0].node.metadata["epic_instruction"] == instruction_for(TOFU, VEGAN)
    assert [query for query in embeddings.queries if query not in SAMPLES] == [QUERY]
    assert embeddings.documents.count(TOFU) == embeddings.documents.count(VEGAN) == 1


def test_each_text_is_embedded_once_and_judged_once() -> None:
    encoder, verifier = HashEncoder(), KeepAll()
    processor = hashed(verifier, embed_model=encoder)
    nodes = found("red wine", "green tea", "red wine")
    out = processor.postprocess_nodes(nodes, query_str="what to drink")
    assert sorted(map(str, stances(out))) == ["None", "supports", "supports"]
    assert len(verifier.asked) == 1
    processor.postprocess_nodes(nodes[::-1], query_str="what else")
    counted = {text: encoder.texts[text] for text in ("red wine", "green tea", "what to drink", "what else")}
    assert counted == {"red wine": 1, "green tea": 1, "what to drink": 1, "what else": 1}


async def test_nothing_blocks_the_event_loop() -> None:
    encoder, llm = HashEncoder(), scripted()
    await hashed(model(llm), embed_model=encoder).apostprocess_nodes(found("red wine", "tea"), query_str="wine")
    assert not llm.threads and threading.get_ident() not in encoder.sync_threads


async def test_an_encoder_that_fails_is_an_error() -> None:
    processor = hashed(embed_model=AlteredEncoder(lambda vectors: vectors * float("nan"), "broken"))
    with pytest.raises(EncoderError):
        processor.postprocess_nodes(found("broken"), query_str="wine")
    with pytest.raises(EncoderError):
        await processor.apostprocess_nodes(found("red wine"), query_str="broken")


# a memory that judges


async def test_a_memory_judges_and_remembers(tmp_path: Path) -> None:
    llm = scripted()
    options = {"encoder": HashEncoder(), "verifier": model(llm), "aspects": "parser"}
    with EpicMemory.open(tmp_path / "m", ["red wine"], **settled(**options)) as memory:
        processor = EpicNodePostprocessor(memory=memory)
        assert stances(processor.postprocess_nodes(found("red wine"), query_str="wine")) == ["supports"]
        memory.preferences.add("green tea")
        assert stances(await processor.apostprocess_nodes(found("green tea"), query_str="tea")) == ["supports"]
        assert len(memory) == 0 and len(llm.seen) == 2
        other = HashEncoder(512, name="other")
        memory.file.reencode(other)
        assert ids(processor.postprocess_nodes(found("steam", "red wine"), query_str="wine")) == ["n1", "n0"]
        assert other.texts["wine"] == 1
    with EpicMemory.open(
        tmp_path / "m", encoder=HashEncoder(512, name="other"), settings=Settings(verifier=model(llm))
    ) as memory:
        EpicNodePostprocessor(memory=memory).postprocess_nodes(found("red wine"), query_str="wine")
        assert len(llm.seen) == 2
    options = {"encoder": HashEncoder(512, name="other"), "verifier": model(llm), "read_only": True}
    with EpicMemory.open(tmp_path / "m", **settled(**options)) as memory, pytest.raises(ReadOnlyError):
        EpicNodePostprocessor(memory=memory).postprocess_nodes(found("red wine"), query_str="wine")


async def test_a_memory_without_preferences_leaves_nodes_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    memory = EpicMemory(encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    processor = EpicNodePostprocessor(memory=memory, top_n=2)
    nodes = found("steam", "red wine", "tea")
    assert processor.postprocess_nodes(nodes, query_str="wine") == nodes[:2]
    assert await processor.apostprocess_nodes(nodes, query_str="wine") == nodes[:2]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    memory.preferences.add("red wine")
    assert ids(processor.postprocess_nodes(nodes, query_str="wine"))[0] == "n1"


# arguments


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "preferences="),
        ({"preferences": []}, "preferences="),
        ({"preferences": ["a", "A"]}, "twice"),
        ({"preferences": [7]}, "preferences"),
        ({"preferences": VEGAN, "settings": 2.0}, "settings"),
        ({"preferences": VEGAN, "tau": 2.0}, "settings=Settings"),
        ({"preferences": VEGAN, "keep": "some"}, "keep"),
        ({"preferences": VEGAN, "guidance": "none"}, "guidance"),
        ({"preferences": VEGAN, "top_n": 0}, "top_n"),
        ({"preferences": VEGAN, "topn": 3}, "topn"),
        ({"preferences": VEGAN, "llm": object()}, "llm"),
        ({"preferences": VEGAN, "embed_model": "local"}, "embed_model"),
        ({"preferences": VEGAN, "memory": EpicMemory([VEGAN])}, "memory="),
        ({"memory": "me.epic"}, "memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_arguments_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises((ValidationError, InvalidInputError), match=said):
        EpicNodePostprocessor(**options)


def test_nodes_without_a_place_for_a_score_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="NodeWithScore"):
        EpicNodePostprocessor(preferences=[VEGAN]).postprocess_nodes([TextNode(text="a")])  # type: ignore[list-item]


def test_settings_cannot_be_changed_behind_its_back() -> None:
    processor = EpicNodePostprocessor(preferences=[VEGAN])
    for name in ("embed_model", "llm", "memory", "settings", "keep", "top_n", "rerank", "guidance"):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(processor, name, getattr(processor, name))
    other = processor.model_copy(update={"preferences": ["I love steam engines."], "keep": "relevant"})
    nodes = found(TOFU, STEAM)
    assert ids(other.postprocess_nodes(nodes, query_str="history")) == ["n1"]
    assert stances(processor.postprocess_nodes(nodes, query_str=QUERY)) == ["supports", None]
    with pytest.raises(ValidationError):
        processor.model_copy(update={"keep": "some"})


async def test_preferences_can_be_set_and_hold_from_the_next_call_on() -> None:
    for run in ("sync", "async"):
        llm = scripted()
        processor = hashed(model(llm), ["red wine", "green tea"])
        nodes = found("red wine", "green tea", "steam engine")

        async def call(processor: Any = processor, run: str = run, nodes: Any = nodes) -> dict[str, Any]:
            if run == "sync":
                out = processor.postprocess_nodes(nodes, query_str="wine")
            else:
                out = await processor.apostprocess_nodes(nodes, query_str="wine")
            return {node.text: node.node.metadata.get("epic_preference") for node in out}

        assert await call() == {"red wine": "red wine", "green tea": "green tea", "steam engine": None}
        processor.preferences = ["steam engine", "red wine"]
        assert await call() == {"red wine": "red wine", "green tea": None, "steam engine": "steam engine"}
        assert len(llm.seen) == 2  # what stays is not asked for again
        for refused in ([], ["a b", "A b"], [7], [""]):
            with pytest.raises(ValidationError):
                processor.preferences = refused
        assert processor.preferences == ["steam engine", "red wine"]
        processor.preferences = "green tea"
        assert await call() == {"red wine": None, "green tea": "green tea", "steam engine": None}
        assert processor.to_dict()["preferences"] and processor.models == hashed(model(llm)).models
    judged = EpicNodePostprocessor(memory=EpicMemory([VEGAN]))
    with pytest.raises(ValidationError, match="memory="):
        judged.preferences = [VEGAN]
    assert stances(judged.postprocess_nodes(found(TOFU))) == ["supports"]


def test_preferences_that_have_expired_count_no_more() -> None:
    gone = Preference(text="red wine", expires_at="2020-01-01T00:00:00+00:00")
    processor = hashed(preferences=[gone, "green tea"])
    nodes = found("red wine", "green tea")
    assert stances(processor.postprocess_nodes(nodes)) == ["supports", None]
    processor.preferences = [gone]
    assert processor.postprocess_nodes(nodes) == nodes


# storing


def test_it_is_stored_by_names() -> None:
    ends = Preference(text="Nothing with nuts.", id="nuts", expires_at="2099-01-01T00:00:00+00:00")
    processor = EpicNodePostprocessor(
        preferences=[VEGAN, ends], settings=Settings(tau=0.1, steering="paper"), keep="relevant", top_n=3
    )
    stored = json.loads(processor.to_json())
    assert stored["class_name"] == "EpicNodePostprocessor" and stored["settings"] == {"tau": 0.1, "steering": "paper"}
    assert [VEGAN, ends.as_json()] == stored["preferences"]


# in the framework


@pytest.mark.parametrize("run", ["sync", "async"])
async def test_spans_and_events(run: str) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    processor = EpicNodePostprocessor(preferences=[VEGAN], callback_manager=CallbackManager([debug]))
    with heard() as (events, spans):
        for nodes in (found(STEAM, TOFU), []):
            if run == "sync":
                out = processor.postprocess_nodes(nodes, query_str=QUERY)
            else:
                out = await processor.apostprocess_nodes(nodes, query_str=QUERY)
            start, end = (
                [event for event in events if isinstance(event, kind)][-1]
                for kind in (ReRankStartEvent, ReRankEndEvent)
            )
            assert (start.query.query_str, start.nodes, start.top_n) == (QUERY, nodes, len(nodes))
            assert start.model_name == processor.models["verifier"] and end.nodes == out
    wanted = "_postprocess_nodes" if run == "sync" else "_apostprocess_nodes"
    assert f"EpicNodePostprocessor.{wanted}" in {span.id_.split("-")[0] for span in spans}
    assert len(debug.get_event_pairs(CBEventType.RERANKING)) == 2 and start.span_id is not None


class Fixed(BaseRetriever):
    """Finds the same nodes for every query."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        self.nodes = nodes
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.nodes


async def test_a_query_engine_answers_by_it() -> None:
    llm = ScriptedLLM(answers=["Tofu."])
    processor = EpicNodePostprocessor(preferences=[VEGAN], top_n=1, guidance="text")
    engine = RetrieverQueryEngine(
        Fixed(found(STEW, SOUP, STEAM, TOFU)),
        response_synthesizer=CompactAndRefine(llm=llm),
        node_postprocessors=[processor],
    )
    answer, other = engine.query(QUERY), await engine.aquery(QUERY)
    assert str(answer) == str(other) == "Tofu." and ids(answer.source_nodes) == ids(other.source_nodes) == ["n3"]
    assert len(llm.prompts) == 2 and llm.prompts[0] == llm.prompts[1]
    assert "Interpretation Guidance:" in llm.prompts[0] and TOFU in llm.prompts[0] and STEW not in llm.prompts[0]


# whatever is given


def test_nothing_it_shows_has_a_models_key() -> None:
    class Keyed(ScriptedLLM):
        api_key: str = "sk-SECRET"

    llm = Keyed(answers=["?"])
    made = EpicNodePostprocessor(preferences=["I like red wine."], llm=llm)
    shown = [repr(made), str(made), str(made.to_dict())]
    for options in ({}, {"preferences": [""], "llm": llm}, {"preferences": ["wine"], "llm": llm, "lm": llm}):
        with pytest.raises((ValidationError, InvalidInputError)) as error:
            EpicNodePostprocessor(**{"llm": llm, **options})
        shown.append(str(error.value))
    assert not [text for text in shown if "SECRET" in text]
