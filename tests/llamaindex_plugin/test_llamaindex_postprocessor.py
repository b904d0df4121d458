"""`EpicNodePostprocessor`: nodes that some retriever found, in the order of the user's preferences."""

from __future__ import annotations

import copy
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import ImageNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from pydantic import ValidationError

from epic_llamaindex.models import LlamaIndexLM
from epic_llamaindex.postprocessor import EpicNodePostprocessor
from epic_llamaindex.retriever import EpicRetriever
from epic_memory import EpicMemory, Preference, Settings, Stance
from epic_memory.errors import EncoderError, InvalidInputError, LMUnavailableError, ReadOnlyError
from epic_memory.steering.relevance import SAMPLES
from epic_memory.verification import LMVerifier
from helpers import AlteredEncoder, DiscardAll, HashEncoder, KeepAll, memory_at, memory_of, settled
from llamaindex_models import ScriptedEmbedding, ScriptedLLM, heard
from scripted import answer_to, instruction_for, read_prompt

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


Run = Callable[..., Awaitable[list[NodeWithScore]]]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Run:
    """Calls a processor in one way or the other; nothing that is given is changed."""

    async def done(processor: EpicNodePostprocessor, nodes: Any, query: str | None = QUERY) -> list[NodeWithScore]:
        before, bundle = (
            copy.deepcopy([node.to_dict() for node in nodes]),
            query if query is None else QueryBundle(query),
        )
        if request.param == "sync":
            out = processor.postprocess_nodes(nodes, bundle)
        else:
            out = await processor.apostprocess_nodes(nodes, bundle)
        assert [node.to_dict() for node in nodes] == before and (bundle is None or bundle == QueryBundle(query))
        return out

    return done


def hashed(verifier: object = None, preferences: Any = "red wine", **options: Any) -> EpicNodePostprocessor:
    """With an encoder that counts words, in whose space similarities are known."""
    encoder = options.pop("embed_model", None) or HashEncoder()
    given = {"preferences": preferences, "embed_model": encoder, "llm": verifier or KeepAll(), **options}
    return EpicNodePostprocessor(**settled(**given))


# what comes out


async def test_nodes_are_ranked_and_say_how_they_suit_the_user(run: Run) -> None:
    nodes = found(STEW, SOUP, STEAM, TOFU)
    out = await run(EpicNodePostprocessor(preferences=[VEGAN]), nodes)
    assert ids(out) == ["n3", "n1", "n0", "n2"]
    scores = [node.score for node in out]
    assert scores == sorted(scores, key=lambda score: -(score or 0.0)) and all(type(score) is float for score in scores)
    best = out[0].node
    assert best.metadata["epic_preference"] == VEGAN and best.metadata["epic_stance"] == "supports"
    assert [told["preference"] for told in json.loads(best.metadata["epic_alignments"])] == [VEGAN]
    assert best.get_content(MetadataMode.LLM) == best.get_content(MetadataMode.EMBED) == TOFU
    assert set(best.metadata) == set(best.excluded_llm_metadata_keys) == set(best.excluded_embed_metadata_keys)
    assert out[-1].node.metadata == {}
    top = EpicNodePostprocessor(preferences=[VEGAN], top_n=2)
    assert ids(await run(top, nodes)) == ["n3", "n1"] and await run(top, []) == await run(top, [], None) == []


@pytest.mark.parametrize("mode", ["signed", "paper", "off"])
async def test_stances_rule_the_order(mode: str, run: Run) -> None:
    """The query and the preference are the same words, so that every mode has the same q~."""
    said = {"bad": Stance.CONFLICTS, "half": Stance.MIXED, "so": Stance.NEUTRAL}
    nodes = found("red wine well", "red wine bad", "red wine half", "red wine so", "red wine nothing")
    out = await run(hashed(KeepAll(said), steering=mode), nodes, "red wine")
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


CASINO_OR_GARDEN = ("A hotel with a large casino.", "A hotel with a quiet garden.")


@pytest.mark.parametrize(
    ("preference", "texts", "query", "mode", "first"),
    [
        ("red wine", ("tea", "red wine tea"), "wine tea", "off", "n1"),
        ("red wine", ("wine tea", "red wine tea"), "wine tea", "off", "n0"),
        ("red wine", ("wine tea", "red wine tea"), "wine tea", "paper", "n1"),
        *(
            ("I avoid hotels with casinos.", CASINO_OR_GARDEN, "Recommend a hotel.", mode, first)
            for mode, first in (("off", "n0"), ("paper", "n0"), ("signed", "n1"))
        ),
    ],
)
async def test_the_query_is_steered(
    preference: str, texts: tuple[str, ...], query: str, mode: Any, first: str, run: Run
) -> None:
    encoder = HashEncoder() if preference == "red wine" else None
    how = Settings(steering=mode)
    processor = EpicNodePostprocessor(preferences=preference, llm=DiscardAll(), embed_model=encoder, settings=how)
    assert (await run(processor, found(*texts), query))[0].node_id == first


@pytest.mark.parametrize(
    ("keep", "left"), [("all", ["n0", "n1", "n2", "n3", "n4"]), ("relevant", ["n0", "n1", "n2"]), ("supports", ["n0"])]
)
async def test_what_does_not_suit_can_be_left_out(keep: str, left: list[str], run: Run) -> None:
    nodes = found("red wine", "red wine bad", "red wine half", "steam engine", "other things")
    said = {"bad": Stance.CONFLICTS, "half": Stance.MIXED}
    assert sorted(ids(await run(hashed(KeepAll(said), keep=keep), nodes, "red wine"))) == left


@pytest.mark.parametrize("query", [None, "", " \n"], ids=["none", "empty", "blank"])
async def test_without_a_query_stances_decide_then_similarity_then_the_order_given(query: str | None, run: Run) -> None:
    nodes = found("a", "red wine bad", "red wine from Spain", "b", "red wine", "c")
    out = await run(hashed(KeepAll({"bad": Stance.CONFLICTS})), nodes, query)
    assert ids(out) == ["n4", "n2", "n0", "n3", "n5", "n1"]
    assert [node.score for node in out] == [0.5] * 6


# what there may be among the nodes


@pytest.mark.parametrize("keep", ["all", "supports"])
async def test_nodes_without_text_come_last_as_they_are(keep: Any, run: Run) -> None:
    odd = {"epic_stance": "conflicts", "of": ["a"]}
    image = ImageNode(image_url="http://127.0.0.1/a.png", id_="image", metadata=odd)
    nodes = [NodeWithScore(node=image, score=0.9), NodeWithScore(node=TextNode(text=" ", id_="blank")), *found(STEAM)]
    out = await run(EpicNodePostprocessor(preferences=[VEGAN], keep=keep, guidance="text"), nodes)
    assert ids(out) == (["n0", "image", "blank"] if keep == "all" else ["image", "blank"])
    assert out[-2].score == 0.9 and out[-2].node.metadata == odd and out[-1].score is None
    assert out[-2].node.get_content() == "" and out[-2].node is not image


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


READABLE = {"preference": "red wine", "stance": "conflicts", "instruction": "x"}


@pytest.mark.parametrize(
    "alignments",
    [
        "no json",
        "7",
        "{}",
        7,
        ["red wine"],
        "[" * 100_000,
        *(json.dumps([wrong]) for wrong in ("red wine", {"preference": ["red wine"]}, {"preference": "red wine"})),
        *(
            json.dumps([{**READABLE, **wrong}])
            for wrong in ({"stance": "loves"}, {"instruction": 7}, {"similarity": "near"})
        ),
    ],
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


@pytest.mark.parametrize("guidance", ["text", "metadata"])
async def test_guidance_that_is_in_a_text_is_written_anew(guidance: str, run: Run) -> None:
    verifier, texts = KeepAll(), ["red wine", "red wine Content: z", "steam engine", "\nContent:\nred wine"]
    first = written(*texts)
    assert {node.node_id: node.node.metadata["epic_content"] for node in first} == {
        f"n{number}": text for number, text in enumerate(texts)
    }
    again = await run(hashed(guidance=guidance), first[::-1], "red wine")
    assert [node.to_dict() for node in again] == [node.to_dict() for node in first]
    # Under another preference, judged by what it was, and without what was said under the first.
    (other,) = hashed(verifier, "steam", guidance=guidance, keep="relevant").postprocess_nodes(first)
    said = "Document 1:\nInterpretation Guidance:\n- Think of steam: steam engine\nContent:\nsteam engine"
    assert other.text == said and {text for text, _ in verifier.asked} <= {"steam engine"}
    shown = {*first[0].node.excluded_llm_metadata_keys} & {*first[0].node.excluded_embed_metadata_keys}
    assert set(first[0].node.metadata) <= shown


async def test_guidance_that_a_retriever_wrote_is_written_anew(run: Run) -> None:
    memory = memory_of(verifier=KeepAll({"bad": Stance.CONFLICTS}))
    memory.add(["red wine bad", "red wine"])
    retriever = EpicRetriever(memory, guidance="text")
    nodes = retriever.retrieve("red wine")
    verifier = KeepAll()
    out = await run(hashed(verifier, guidance="text"), nodes[::-1], "red wine")
    assert not verifier.asked and len(out) == 2
    assert all(node.text.endswith(again.text) for node, again in zip(nodes, out, strict=True))
    hashed(verifier, "wine bad", guidance="text").postprocess_nodes(nodes, query_str="wine")
    assert sorted(text for text, _ in verifier.asked) == ["red wine", "red wine bad"]


@pytest.mark.parametrize("text", ["red wine, cut", "Document 1:\nContent:\nred wine and more", ""], ids=ascii)
def test_a_text_that_has_changed_since_is_what_is_judged(text: str) -> None:
    (node,) = found(text)
    node.node.metadata = {"epic_content": "red wine"}
    verifier = KeepAll()
    (out,) = hashed(verifier).postprocess_nodes([node], query_str="red wine")
    assert out.text == text and [judged for judged, _ in verifier.asked] == ([text] if text else [])
    assert ("epic_content" in out.node.metadata) == (not text)


@pytest.mark.parametrize("metadata", [{}, {"epic_content": 7}, {"epic_content": " "}], ids=str)
def test_a_text_that_only_looks_guided_is_judged_as_it_is(metadata: dict[str, Any]) -> None:
    verifier, (node,) = KeepAll(), found("Document 1:\nContent:\nred wine")
    node.node.metadata = metadata
    hashed(verifier).postprocess_nodes([node])
    assert [judged for judged, _ in verifier.asked] == ["Document 1:\nContent:\nred wine"]


async def test_guidance_in_texts_is_numbered_by_rank(run: Run) -> None:
    nodes = found("red wine bad", "red wine", "Content: Document 9: red wine", "steam engine")
    out = await run(hashed(KeepAll({"bad": Stance.CONFLICTS}), guidance="text"), nodes, "red wine")
    told = {node.node_id: node.text for node in out}
    assert told["n1"] == "Document 1:\nInterpretation Guidance:\n- Think of red wine: red wine\nContent:\nred wine"
    assert "\nContent:\n> Content: Document 9: red wine" in told["n2"]
    assert 'Steer clear: this conflicts with the preference "red wine". Think of' in told["n0"]
    assert told["n3"] == f"Document {ids(out).index('n3') + 1}:\nContent:\nsteam engine"


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


async def test_a_model_that_fails_leaves_nodes_undecided(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    down = {"red wine b"}
    llm = scripted(lambda chunk: chunk not in down)
    processor, nodes = hashed(model(llm), keep="supports"), found("red wine a", "red wine b", "steam engine")
    nodes[1].node.metadata = {"epic_alignments": "[]", "own": 1}
    out = await run(processor, nodes, "red wine")
    assert ids(out) == ["n0", "n1"] and stances(out) == ["supports", None]
    assert out[1].node.metadata == {"own": 1} and processor.report.undecided == 1
    assert "1 texts are undecided" in caplog.text and "no server" in caplog.text
    asked = len(llm.seen)
    down.clear()
    for _ in range(2):
        assert stances(await run(processor, nodes, "red wine")) == ["supports", "supports"]
        assert len(llm.seen) == asked + 1 and "red wine b" in llm.prompts[-1]


async def test_a_model_that_fails_is_not_waited_for_and_a_verifier_has_its_own_patience(run: Run) -> None:
    texts, up = ("red wine a", "red wine b", "red wine c"), list[bool]()
    llm = scripted(lambda chunk: bool(up))
    processor = EpicNodePostprocessor(preferences="red wine", embed_model=HashEncoder(), llm=llm)
    # At first all of them and each alone, until it counts as down; then one in each call.
    for calls, right in ((2, [None] * 3), (3, [None] * 3), (4, ["supports"] * 3)):
        up[:] = [True] * (right[0] is not None)
        assert stances(await run(processor, found(*texts), "red wine")) == right
        assert len(llm.seen) == calls
    up.clear()
    for options in (
        {"llm": LMVerifier(LlamaIndexLM(llm), retries=2, backoff=0.0)},
        {"settings": Settings(verifier=LMVerifier(LlamaIndexLM(llm), retries=2, backoff=0.0))},
    ):
        llm.seen.clear()
        processor = EpicNodePostprocessor(preferences="red wine", embed_model=HashEncoder(), **options)
        for calls in (6, 7, 8):  # then once in each call
            processor.postprocess_nodes(found(*texts))
            assert len(llm.seen) == calls
    german = EpicNodePostprocessor(preferences="red wine", llm=scripted(), settings=Settings(language="de"))
    german.postprocess_nodes(found("red wine"))
    assert "German" in german.llm.prompts[0]


async def test_each_text_is_embedded_once_and_judged_once(run: Run) -> None:
    encoder, verifier = HashEncoder(), KeepAll()
    processor = hashed(verifier, embed_model=encoder)
    nodes = found("red wine", "green tea", "red wine")
    out = await run(processor, nodes, "what to drink")
    assert sorted(map(str, stances(out))) == ["None", "supports", "supports"] and len(verifier.asked) == 1
    await run(processor, nodes[::-1], "what else")
    asked = ("red wine", "green tea", "what to drink", "what else")
    assert [encoder.texts[text] for text in asked] == [1] * 4


async def test_nothing_blocks_the_event_loop_and_queries_are_embedded_as_such() -> None:
    encoder, llm, embeddings = HashEncoder(), scripted(), ScriptedEmbedding()
    await hashed(model(llm), embed_model=encoder).apostprocess_nodes(found("red wine", "tea"), query_str="wine")
    assert not llm.threads and threading.get_ident() not in encoder.sync_threads
    made = EpicNodePostprocessor(preferences=[VEGAN], llm=llm, embed_model=embeddings, settings=Settings(tau=0.2))
    out = made.postprocess_nodes(found(STEAM, TOFU), query_str=QUERY)
    assert out[0].node.metadata["epic_instruction"] == instruction_for(TOFU, VEGAN)
    assert [query for query in embeddings.queries if query not in SAMPLES] == [QUERY]
    assert embeddings.documents.count(TOFU) == embeddings.documents.count(VEGAN) == 1


async def test_an_encoder_that_fails_is_an_error(run: Run) -> None:
    processor = hashed(embed_model=AlteredEncoder(lambda vectors: vectors * float("nan"), "broken"))
    for text, query in (("broken", "wine"), ("red wine", "broken")):
        with pytest.raises(EncoderError):
            await run(processor, found(text), query)


# a memory that judges


async def test_a_memory_judges_and_remembers(path: Path) -> None:
    llm, other = scripted(), HashEncoder(512, name="other")
    with memory_at(path, "red wine", verifier=model(llm), aspects="parser") as memory:
        processor = EpicNodePostprocessor(memory=memory)
        assert stances(processor.postprocess_nodes(found("red wine"), query_str="wine")) == ["supports"]
        memory.preferences.add("green tea")
        assert stances(await processor.apostprocess_nodes(found("green tea"), query_str="tea")) == ["supports"]
        assert len(memory) == 0 and len(llm.seen) == 2
        memory.file.reencode(other)
        assert ids(processor.postprocess_nodes(found("steam", "red wine"), query_str="wine")) == ["n1", "n0"]
        assert other.texts["wine"] == 1
    with memory_at(path, encoder=other, verifier=model(llm)) as memory:
        EpicNodePostprocessor(memory=memory).postprocess_nodes(found("red wine"), query_str="wine")
        assert len(llm.seen) == 2
    with memory_at(path, encoder=other, verifier=model(llm), read_only=True) as memory, pytest.raises(ReadOnlyError):
        EpicNodePostprocessor(memory=memory).postprocess_nodes(found("red wine"), query_str="wine")


async def test_a_memory_without_preferences_leaves_nodes_as_they_are(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    memory = EpicMemory(encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    processor, nodes = EpicNodePostprocessor(memory=memory, top_n=2), found("steam", "red wine", "tea")
    for _ in range(2):
        assert await run(processor, nodes, "wine") == nodes[:2]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    memory.preferences.add("red wine")
    assert ids(await run(processor, nodes, "wine"))[0] == "n1"


# arguments


@pytest.mark.parametrize(
    ("options", "said"),
    [
        *((options, "preferences=") for options in ({}, {"preferences": []})),
        ({"preferences": VEGAN, "settings": 2.0}, "settings"),
        ({"preferences": VEGAN, "tau": 2.0}, "settings=Settings"),
        ({"preferences": VEGAN, "keep": "some"}, "keep"),
        ({"preferences": VEGAN, "guidance": "none"}, "guidance"),
        ({"preferences": VEGAN, "top_n": 0}, "top_n"),
        ({"preferences": VEGAN, "topn": 3}, "topn"),
        ({"preferences": VEGAN, "llm": object()}, "llm"),
        ({"preferences": VEGAN, "embed_model": "local"}, "embed_model"),
        ({"preferences": VEGAN, "memory": EpicMemory([VEGAN])}, "memory="),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_arguments_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises((ValidationError, InvalidInputError), match=said):
        EpicNodePostprocessor(**options)
    with pytest.raises(InvalidInputError, match="NodeWithScore"):
        EpicNodePostprocessor(preferences=[VEGAN]).postprocess_nodes([TextNode(text="a")])  # type: ignore[list-item]


async def test_preferences_can_be_set_and_hold_from_the_next_call_on(run: Run) -> None:
    llm = scripted()
    processor = hashed(model(llm), ["red wine", "green tea"])
    nodes = found("red wine", "green tea", "steam engine")

    async def suited() -> set[str]:
        out = await run(processor, nodes, "wine")
        assert all(node.node.metadata.get("epic_preference") in (None, node.text) for node in out)
        return {node.text for node in out if node.node.metadata}

    assert await suited() == {"red wine", "green tea"}
    processor.preferences = ["steam engine", "red wine"]
    assert await suited() == {"red wine", "steam engine"}
    assert len(llm.seen) == 2  # what stays is not asked for again
    for refused in ([], ["a b", "A b"], [7], [""]):
        with pytest.raises(ValidationError):
            processor.preferences = refused
    assert processor.preferences == ["steam engine", "red wine"]
    processor.preferences = "green tea"
    assert await suited() == {"green tea"}
    # One that has expired counts no more.
    gone = Preference(text="red wine", expires_at="2020-01-01T00:00:00+00:00")
    processor.preferences = [gone, "green tea"]
    assert await suited() == {"green tea"}
    processor.preferences = [gone]
    assert await run(processor, nodes) == nodes
    judged = EpicNodePostprocessor(memory=EpicMemory([VEGAN]))
    with pytest.raises(ValidationError, match="memory="):
        judged.preferences = [VEGAN]
    assert stances(judged.postprocess_nodes(found(TOFU))) == ["supports"]


# storing


# in the framework


async def test_spans_and_events(run: Run) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    processor = EpicNodePostprocessor(preferences=[VEGAN], callback_manager=CallbackManager([debug]))
    with heard() as (events, spans):
        for nodes in (found(STEAM, TOFU), []):
            out = await run(processor, nodes)
            start, end = (
                [event for event in events if isinstance(event, kind)][-1]
                for kind in (ReRankStartEvent, ReRankEndEvent)
            )
            assert (start.query.query_str, start.nodes, start.top_n) == (QUERY, nodes, len(nodes))
            assert start.model_name == processor.models["verifier"] and end.nodes == out
    assert {"_postprocess_nodes", "_apostprocess_nodes"} & {span.id_.split("-")[0].split(".")[-1] for span in spans}
    assert len(debug.get_event_pairs(CBEventType.RERANKING)) == 2 and start.span_id is not None
