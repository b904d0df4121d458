"""The LlamaIndex ingestion step: which nodes come out, with what, and in whichever way it is called."""

from __future__ import annotations

import copy
import itertools
import json
import logging
import pickle
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timezone
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    MetadataMode,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from pydantic import ValidationError

from epic_llamaindex.ingestion import EpicTransform
from epic_llamaindex.models import EpicEmbedding, encoder_of
from epic_memory import Preference, Settings
from epic_memory.encoders import embed
from epic_memory.errors import (
    EncoderError,
    InvalidInputError,
    LMUnavailableError,
    UndecidedError,
)
from epic_memory.types import BuildReport
from helpers import Clock, HashEncoder, KeepAll, settled
from llamaindex_models import ScriptedEmbedding, ScriptedLLM, SyncEmbedding, heard
from scripted import (
    TRAIN,
    WINE,
    Asked,
    Scripted,
    documents,
    verifier_of,
)

Run = Callable[..., Awaitable[list[BaseNode]]]
KEPT = [f"item {5 * n + m}" for n in range(4) for m in (0, 2, 3)]


def nodes(count: int = 4) -> list[TextNode]:
    """Nodes that are kept under one preference, discarded, kept under two, under one of two, and far from both."""
    return [TextNode(text=item.text, id_=item.id, metadata=dict(item.metadata)) for item in documents(count)]


def step(lm: Scripted | None = None, **options: Any) -> EpicTransform:
    """A step for two preferences, whose model decides by what is said in the text."""
    given = {"preferences": [WINE, TRAIN], "encoder": HashEncoder(), "llm": verifier_of(lm or Scripted()), **options}
    return EpicTransform(**settled(**given))


def ids(found: Sequence[BaseNode]) -> list[str]:
    return [node.node_id for node in found]


def texts(found: Sequence[BaseNode]) -> list[str]:
    return [node.get_content(metadata_mode=MetadataMode.NONE) for node in found]


def stalls_at(*numbers: int) -> Callable[[Asked], None]:
    """Fails for the nodes of these numbers."""

    def hook(asked: Asked) -> None:
        if any(chunk.endswith(tuple(f" {number}" for number in numbers)) for chunk in asked.chunks):
            raise LMUnavailableError("It stalled.")

    return hook


@pytest.fixture(params=["call", "acall"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a step with or without blocking the event loop; inside a running loop both times."""

    async def done(keep: EpicTransform, given: Any, **options: Any) -> list[BaseNode]:
        return keep(given, **options) if request.param == "call" else await keep.acall(given, **options)

    return done


# what comes out


async def test_all_of_a_node_stays_and_is_not_shared(run: Run) -> None:
    linked = RelatedNodeInfo(node_id="b", metadata={"authors": ["Ann"]})
    given = [
        TextNode(
            text="red wine",
            id_="a",
            metadata={"when": date(2020, 1, 1), "Epic": "own", "nothing": None, "set": {1}, "kind": dict},
            excluded_embed_metadata_keys=["when"],
            excluded_llm_metadata_keys=["Epic"],
            relationships={NodeRelationship.NEXT: linked, NodeRelationship.CHILD: [linked]},
            embedding=[0.1, 0.2],
            start_char_idx=3,
        ),
        TextNode(text="blue sky", id_="b", relationships={NodeRelationship.PREVIOUS: RelatedNodeInfo(node_id="a")}),
        Document(text="red wine, too", id_="c"),
    ]
    before = copy.deepcopy(given)
    first, second = await run(step(), given)
    assert isinstance(first, TextNode) and first.start_char_idx == 3 and first.embedding == [0.1, 0.2]
    assert {key: first.metadata[key] for key in given[0].metadata} == given[0].metadata
    assert first.excluded_embed_metadata_keys[0] == "when" and first.excluded_llm_metadata_keys[0] == "Epic"
    # Guidance is neither embedded nor shown.
    for mode in (MetadataMode.EMBED, MetadataMode.LLM):
        assert first.get_content(metadata_mode=mode) == given[0].get_content(metadata_mode=mode)
    first.embedding.append(0.3)
    first.excluded_embed_metadata_keys.clear()
    first.relationships.clear()
    assert isinstance(second, Document) and second.text_resource is not None
    second.text_resource.text = "changed"
    assert given == before
    lock = threading.Lock()
    (odd,) = await run(step(), [TextNode(text="red wine", metadata={"lock": lock})])
    assert odd.metadata["lock"] is lock


async def test_without_annotation_nothing_is_written(run: Run) -> None:
    given = nodes(1)
    for one, other in itertools.pairwise(given):
        one.relationships[NodeRelationship.NEXT] = other.as_related_node_info()
    given = await run(step(preferences=[WINE, TRAIN, "blue sky"]), given)  # with guidance that is there already
    assert any("epic_" in str(node.metadata) for node in given)
    found = await run(step(annotate=False), given)
    assert len(found) == 3
    for node in found:
        assert "epic_" not in str(node.metadata) + str(node.relationships)


@pytest.mark.parametrize("kind", [ScriptedEmbedding, SyncEmbedding, EpicEmbedding, HashEncoder])
async def test_a_node_is_embedded_by_its_strongest_instruction(kind: Callable[[], Any], run: Run) -> None:
    model = kind()
    given = [*nodes(1), TextNode(text="red wine", embedding=[1.0])]
    for node in await run(step(embed_model=model), given):
        wanted = embed(encoder_of(model), [node.metadata["epic_instruction"]])[0].tolist()
        assert node.embedding == pytest.approx(wanted, abs=1e-4)
        assert all(type(number) is float for number in node.embedding)
    assert given[-1].embedding == [1.0]


async def test_what_embeds_instructions_is_what_compares_unless_told(run: Run) -> None:
    model = ScriptedEmbedding()
    await run(EpicTransform(preferences=[WINE], embed_model=model, llm=KeepAll()), nodes(1))
    assert WINE in model.documents and "red wine 0" in model.documents
    model, encoder = ScriptedEmbedding(), HashEncoder()
    await run(EpicTransform(preferences=[WINE], embed_model=model, encoder=encoder, llm=KeepAll()), nodes(1))
    assert WINE not in model.documents and encoder.texts[WINE] == 1


async def test_each_text_is_judged_once_and_each_instruction_embedded_once(run: Run) -> None:
    model, lm = ScriptedEmbedding(), Scripted()
    same = [TextNode(text="red wine", id_=str(n % 3)) for n in range(5)]
    found = await run(step(lm, embed_model=model), same)
    assert ids(found) == ["0", "1", "2", "0", "1"] and lm.calls == 1
    assert model.documents == ["Serve red wine with red wine"]
    found[0].embedding.append(0.0)
    assert len(found[1].embedding) == model.dimension
    # Without instructions, a node's own embedding stays.
    given = [TextNode(text="red wine", embedding=[1.0]), TextNode(text="red wine")]
    assert [node.embedding for node in await run(step(fine=False, embed_model=model), given)] == [[1.0], None]


# kinds of nodes


async def test_kinds_of_nodes_stay(run: Run) -> None:
    inner = TextNode(text="inner")
    given = [
        TextNode(text="red wine", id_="text"),
        Document(text="red wine", id_="document"),
        Node(text_resource=MediaResource(text="red wine"), id_="node"),
        IndexNode(text="red wine", id_="index", index_id="other", obj=inner),
        ImageNode(text="red wine", id_="image", image_url="http://localhost/a.png"),
    ]
    found = await run(step(), given)
    assert [type(node) for node in found] == [type(node) for node in given]
    assert ids(found) == ids(given) and {node.metadata["epic_preference"] for node in found} == {WINE}
    assert isinstance(found[3], IndexNode) and (found[3].index_id, found[3].obj) == ("other", inner)
    assert isinstance(found[4], ImageNode) and found[4].image_url == "http://localhost/a.png"


async def test_media_without_text_pass_as_they_are(run: Run) -> None:
    given = [
        ImageNode(image="aGk=", id_="image", metadata={"n": 1}),
        ImageDocument(image=b"aGk=", id_="image document"),
        Node(audio_resource=MediaResource(data=b"aGk="), id_="audio"),
        Node(video_resource=MediaResource(data=b"aGk="), text_resource=MediaResource(text=" "), id_="video"),
    ]
    before = copy.deepcopy(given)
    lm = Scripted()
    keep = step(lm)
    found = await run(keep, [*given, *nodes(1)])
    assert found[:4] == before == given and lm.calls == 4
    assert all(one is not other for one, other in zip(found, given, strict=False))
    assert keep.report.seen == 5 and keep.report.warnings == []
    # They do not bring guidance of their own.
    image = ImageNode(image_url="http://localhost/x.png", metadata={"epic_instruction": "Obey.", "title": "x"})
    (passed,) = await run(step(annotate=False), [image])
    assert passed.metadata == {"title": "x"} and "epic_instruction" in image.metadata


# running


# reports, and what has no verdict


async def test_what_a_model_does_not_decide_is_an_error_and_nothing_is_lost(run: Run) -> None:
    lm = Scripted(stalls_at(2, 3))
    keep = step(lm)
    given = nodes()
    with pytest.raises(UndecidedError, match=r"8 of 20 nodes are undecided.*It stalled\."):
        await run(keep, given)
    assert keep.undecided == given[10:14] + given[15:19]
    assert keep.report.undecided == 8 and set(keep.report.failures) == set(ids(keep.undecided))
    lm.hook = None
    lm.asked.clear()
    assert await run(keep, given) == step()(given)
    assert {asked.chunk for asked in lm.asked} == {node.text for node in given[10:14] + given[15:19]}
    assert keep.undecided == [] and keep.report.undecided == 0


async def test_what_the_model_cannot_decide_does_not_hold_up_the_rest(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    given = nodes()
    one = given[12]
    lm = Scripted(lambda asked: "I cannot help with that." if asked.chunk == one.text else None)
    with pytest.raises(UndecidedError, match=one.node_id):
        await run(step(lm), given)
    keep = step(lm, on_undecided="keep")
    with caplog.at_level(logging.WARNING, "epic_llamaindex"):
        found = await run(keep, given)
    assert ids(found) == KEPT and keep.undecided == [one] and one.node_id in caplog.text
    decided = {node.node_id: node for node in step()(given)}
    plain = found[KEPT.index(one.node_id)]
    assert plain.metadata == one.metadata and plain.text == one.text and plain is not one
    assert [node for node in found if node is not plain] == [decided[key] for key in KEPT if key != one.node_id]
    lm.hook = None
    assert await run(keep, keep.undecided) == [decided[one.node_id]] and keep.undecided == []


async def test_undecided_nodes_that_come_again_with_other_ids_are_the_same_ones(run: Run) -> None:
    lm = Scripted(lambda asked: "what?")
    keep = step(lm, on_undecided="skip")
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="document", hash="v1")}
    for _ in range(2):
        await run(keep, [TextNode(text="red wine", relationships=dict(source))])
        assert len(keep.undecided) == 1
    lm.hook = None
    await run(keep, [TextNode(text="red wine", relationships=dict(source))])
    assert keep.undecided == []


@pytest.mark.parametrize("part", ["encoder", "embed_model"])
async def test_embeddings_that_fail_are_an_error_that_says_so(part: str, run: Run) -> None:
    model, lm = ScriptedEmbedding(), Scripted()
    keep = step(lm, **{part: model})
    model.fail_with(ConnectionError("no route"))
    with pytest.raises(EncoderError, match="no route"):
        await run(keep, nodes())
    model.fail_with(None)
    assert len(keep.undecided) == 20
    calls = lm.calls
    assert ids(await run(keep, nodes())) == KEPT and keep.undecided == []
    assert part == "encoder" or lm.calls == calls  # what was decided is remembered


# settings that change


def test_preferences_change_what_comes_out_and_nothing_is_asked_again() -> None:
    lm = Scripted()
    keep = step(lm)
    assert ids(keep(nodes())) == KEPT and lm.calls == 16
    lm.asked.clear()
    keep.preferences = [TRAIN]
    assert keep(nodes()) == step(preferences=[TRAIN])(nodes())
    keep.preferences = [Preference(text=TRAIN, expires_at="2999-01-01T00:00:00+00:00")]
    assert keep(nodes()) == step(preferences=[TRAIN])(nodes())
    assert lm.calls == 0
    keep.preferences = [*keep.preferences, "blue sky"]
    assert keep(nodes()) == step(preferences=[TRAIN, "blue sky"])(nodes())
    assert {asked.preferences for asked in lm.asked} == {("blue sky",)}
    before = keep.to_dict()
    with pytest.raises(ValidationError, match="given twice"):
        keep.preferences = ["a", "a"]
    assert keep.to_dict() == before
    assert all(not any(key.startswith("epic_") for key in node.metadata) for node in step(annotate=False)(nodes()))


async def test_a_preference_that_expires_meanwhile_counts_no_more(clock: Clock, run: Run) -> None:
    keep = step(preferences=[Preference(text=WINE, expires_at=clock.ends(days=1)), TRAIN])
    assert ids(await run(keep, nodes())) == KEPT
    before = keep.to_dict()
    clock.pass_by(days=2)
    assert keep.to_dict() != before
    assert await run(keep, nodes()) == step(preferences=[TRAIN])(nodes())


# calls


async def test_what_a_call_takes(run: Run) -> None:
    with pytest.raises(InvalidInputError, match="give them to EpicTransform itself"):
        await run(step(), nodes(), preferences=[WINE])
    # What a pipeline passes on to all steps does not matter; and there is a span.
    with heard() as (_, spans):
        found = await run(step(), nodes(), show_progress=True, use_async=False)
    assert len([span for span in spans if span.id_.startswith("EpicTransform.")]) == 1
    assert ids(found) == KEPT


# stored, copied, sent


def test_it_is_stored_with_its_settings_and_the_names_of_its_models() -> None:
    ends = datetime(2999, 1, 1, tzinfo=timezone.utc)
    keep = EpicTransform(
        preferences=[WINE, Preference(text=TRAIN, id="t", expires_at=ends)],
        settings=Settings(tau=0.1, coarse=False),
        annotate=False,
        on_undecided="skip",
    )
    told = json.loads(keep.to_json())
    assert told["class_name"] == "EpicTransform" and told["models"] == json.loads(json.dumps(keep.models))
    assert (told["settings"], told["annotate"]) == ({"tau": 0.1, "coarse": False}, False)


@pytest.mark.parametrize("how", ["copy", "deepcopy", "model_copy"])
def test_a_copy_shares_settings_and_models_and_nothing_that_was_seen(how: str) -> None:
    lm = Scripted(stalls_at(0))
    keep = step(lm, on_undecided="skip")
    keep(nodes())
    other = keep.model_copy() if how == "model_copy" else getattr(copy, how)(keep)
    assert other.to_dict() == keep.to_dict() and other.llm is keep.llm
    assert keep.undecided and other.undecided == [] and other.report == BuildReport()
    other.preferences.append("blue sky")
    assert keep.preferences == [WINE, TRAIN]
    with pytest.raises(ValidationError, match="settings"):
        keep.model_copy(update={"settings": 3.0})
    assert keep.model_copy(update={"settings": {"tau": 0.9}}).settings == Settings(tau=0.9)


@pytest.mark.parametrize("llm", [KeepAll(), ScriptedLLM(answers=[])], ids=["verifier", "llm"])
def test_what_cannot_be_pickled_says_so(llm: Any) -> None:
    with pytest.raises(pickle.PicklingError, match="with llm= or memory= cannot be sent"):
        pickle.dumps(EpicTransform(preferences=[WINE], llm=llm))
