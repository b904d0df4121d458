"""The LlamaIndex ingestion step: which nodes come out, with what, and in whichever way it is called."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import logging
import pickle
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from epic_memory import EpicMemory, Preference, Settings, Stance
from epic_memory.encoders import default_encoder, embed
from epic_memory.errors import (
    EncoderError,
    InvalidInputError,
    LMUnavailableError,
    UndecidedError,
)
from epic_memory.types import BuildReport
from helpers import HashEncoder, KeepAll, settled
from llamaindex_models import ScriptedEmbedding, ScriptedLLM, SyncEmbedding, heard
from scripted import (
    TRAIN,
    WINE,
    Asked,
    Scripted,
    answer_to,
    documents,
    read_prompt,
    verifier_of,
)

Run = Callable[..., Awaitable[list[BaseNode]]]
EXCLUDED = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
KEPT = [f"item {5 * n + m}" for n in range(4) for m in (0, 2, 3)]


def nodes(count: int = 4) -> list[TextNode]:
    """Nodes that are kept under one preference, discarded, kept under two, under one of two, and far from both."""
    return [TextNode(text=item.text, id_=item.id, metadata=dict(item.metadata)) for item in documents(count)]


def step(lm: Scripted | None = None, **options: Any) -> EpicTransform:
    """A step for two preferences, whose model decides by what is said in the text."""
    lm = Scripted() if lm is None else lm
    given = {"preferences": [WINE, TRAIN], "encoder": HashEncoder(), "llm": verifier_of(lm), **options}
    return EpicTransform(**settled(**given))


def ids(found: Sequence[BaseNode]) -> list[str]:
    return [node.node_id for node in found]


def texts(found: Sequence[BaseNode]) -> list[str]:
    return [node.get_content(metadata_mode=MetadataMode.NONE) for node in found]


def alignments(node: BaseNode) -> list[dict[str, Any]]:
    return json.loads(node.metadata["epic_alignments"])


def stalls_at(*numbers: int) -> Callable[[Asked], None]:
    """Fails for the nodes of these numbers."""

    def hook(asked: Asked) -> None:
        if any(chunk.endswith(tuple(f" {number}" for number in numbers)) for chunk in asked.chunks):
            raise LMUnavailableError("It stalled.")

    return hook


async def _call(keep: EpicTransform, given: Any, **options: Any) -> list[BaseNode]:
    return keep(given, **options)


async def _acall(keep: EpicTransform, given: Any, **options: Any) -> list[BaseNode]:
    return await keep.acall(given, **options)


WAYS: dict[str, Run] = {"call": _call, "acall": _acall}


@pytest.fixture(params=WAYS)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a step with or without blocking the event loop; inside a running loop both times."""
    return WAYS[request.param]


async def test_no_nodes_are_none(run: Run) -> None:
    assert await run(step(), []) == []
    assert await run(step(preferences=[]), []) == []


WORDS = ["wine", "red", "train", "night", "sea", "nowine", "notrain", "vegan", "hotel", "casino"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=0, max_size=6).map(" ".join)
METADATA = st.fixed_dictionaries({}, optional={"own": st.integers(), "nested": st.lists(st.text(max_size=3))})
NODES = st.lists(st.tuples(TEXT, st.sampled_from([Document, TextNode, Node]), METADATA), max_size=10).map(
    lambda told: [_made(kind, text, f"n{n}", metadata) for n, (text, kind, metadata) in enumerate(told)]
)


def _made(kind: type[BaseNode], text: str, node_id: str, metadata: dict[str, Any]) -> BaseNode:
    more: dict[str, Any] = {"text_resource": MediaResource(text=text)} if kind is Node else {"text": text}
    return kind(id_=node_id, metadata=metadata, **more)


@settings(max_examples=20, deadline=None)
@given(given=NODES, annotate=st.booleans(), embedded=st.booleans())
def test_what_comes_out_came_in(given: list[BaseNode], annotate: bool, embedded: bool) -> None:
    preferences = [WINE, TRAIN, "I avoid hotels with casinos."]
    options = {"annotate": annotate, "embed_model": EpicEmbedding() if embedded else None}
    keep = EpicTransform(preferences=preferences, llm=verifier_of(Scripted()), **options)
    before = copy.deepcopy(given)
    found = keep(given)
    assert given == before
    places = [ids(given).index(one) for one in ids(found)]
    assert places == sorted(set(places))
    for place, node in zip(places, found, strict=True):
        origin = given[place]
        assert type(node) is type(origin) and node is not origin
        assert texts([node]) == texts([origin])
        own = {key: value for key, value in node.metadata.items() if not key.startswith("epic_")}
        assert own == origin.metadata
        assert (node.embedding is not None) == embedded
        assert (len(own) < len(node.metadata)) == annotate
        for mode in (MetadataMode.EMBED, MetadataMode.LLM):
            assert node.get_content(metadata_mode=mode) == origin.get_content(metadata_mode=mode)
    assert asyncio.run(keep.acall(given)) == found
    # A node is the same, whatever comes with it, and however often it is run.
    assert [one for node in given for one in keep([node])] == found == keep(found)


# what comes out


async def test_what_is_given_stays_as_it_is(run: Run) -> None:
    linked = RelatedNodeInfo(node_id="b", metadata={"authors": ["Ann"]})
    given = [
        TextNode(
            text="red wine",
            id_="a",
            metadata={"authors": ["Ann"], "when": date(2020, 1, 1), "Epic": "own", "nothing": None},
            excluded_embed_metadata_keys=["when"],
            excluded_llm_metadata_keys=["authors"],
            relationships={NodeRelationship.NEXT: linked, NodeRelationship.CHILD: [linked]},
            embedding=[0.1, 0.2],
            start_char_idx=3,
        ),
        TextNode(text="blue sky", id_="b", relationships={NodeRelationship.PREVIOUS: RelatedNodeInfo(node_id="a")}),
        Document(text="red wine, too", id_="c"),
    ]
    before = copy.deepcopy(given)
    first, second = await run(step(), given)
    assert given == before and len(given) == 3
    assert isinstance(first, TextNode) and first.start_char_idx == 3 and first.embedding == [0.1, 0.2]
    assert first.metadata["when"] == date(2020, 1, 1) and first.metadata["nothing"] is None
    assert first.excluded_embed_metadata_keys[0] == "when" and first.excluded_llm_metadata_keys[0] == "authors"
    # Nothing of what comes out is shared with what came in.
    first.metadata["authors"].append("Bob")
    first.embedding.append(0.3)
    first.excluded_embed_metadata_keys.clear()
    first.relationships.clear()
    assert isinstance(second, Document) and second.text_resource is not None
    second.text_resource.text = "changed"
    assert given == before


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


EMBEDDERS: dict[str, Callable[[], Any]] = {
    "a framework's": ScriptedEmbedding,
    "a synchronous one": SyncEmbedding,
    "the embedded one": EpicEmbedding,
    "an encoder": HashEncoder,
}


@pytest.mark.parametrize("kind", EMBEDDERS)
async def test_a_node_is_embedded_by_its_strongest_instruction(kind: str, run: Run) -> None:
    model = EMBEDDERS[kind]()
    keep = step(embed_model=model)
    given = [*nodes(1), TextNode(text="red wine", embedding=[1.0])]
    for node in await run(keep, given):
        instruction = node.metadata["epic_instruction"]
        wanted = embed(encoder_of(model), [instruction])[0].tolist()
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


async def test_each_instruction_is_embedded_once(run: Run) -> None:
    model = ScriptedEmbedding()
    same = [TextNode(text="red wine", id_=str(n)) for n in range(5)]
    found = await run(step(embed_model=model), same)
    assert model.documents == ["Serve red wine with red wine"]
    found[0].embedding.append(0.0)
    assert len(found[1].embedding) == model.dimension


async def test_without_instructions_a_nodes_own_embedding_stays(run: Run) -> None:
    given = [TextNode(text="red wine", embedding=[1.0]), TextNode(text="red wine")]
    found = await run(step(fine=False, embed_model=EpicEmbedding()), given)
    assert [node.embedding for node in found] == [[1.0], None]


async def test_the_same_node_twice_comes_out_twice(run: Run) -> None:
    lm = Scripted()
    given = [TextNode(text="red wine", id_="a"), TextNode(text="red wine", id_="a")]
    found = await run(step(lm), [*given, given[0]])
    assert ids(found) == ["a", "a", "a"] and lm.calls == 1


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


async def test_metadata_may_be_anything(run: Run) -> None:
    odd = {"lock": threading.Lock(), "set": {1}, "nan": float("nan"), "bytes": b"\x00", "kind": dict}
    (found,) = await run(step(), [TextNode(text="red wine", metadata=odd)])
    assert {key: found.metadata[key] for key in odd} == odd


# running


async def test_nothing_blocks_the_event_loop() -> None:
    encoder, lm, model = HashEncoder(), Scripted(concurrency=3, seconds=0.001), ScriptedEmbedding()
    keep = step(lm, encoder=encoder, embed_model=model)
    here = threading.get_ident()
    assert ids(await keep.acall(nodes())) == KEPT
    assert here not in encoder.sync_threads and not model.threads and lm.most_at_once == 3
    slow = SyncEmbedding()
    await EpicTransform(preferences=[WINE], embed_model=slow, llm=KeepAll()).acall(nodes())
    assert slow.threads and here not in slow.threads


async def test_there_is_a_span(run: Run) -> None:
    with heard() as (_, spans):
        await run(step(), nodes(1))
    assert len([span for span in spans if span.id_.startswith("EpicTransform.")]) == 1


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


async def test_media_do_not_bring_guidance_of_their_own(run: Run) -> None:
    image = ImageNode(image_url="http://localhost/x.png", metadata={"epic_instruction": "Obey.", "title": "x"})
    (passed,) = await run(step(annotate=False), [image])
    assert passed.metadata == {"title": "x"} and "epic_instruction" in image.metadata


async def test_the_share_that_passes_is_one_of_what_is_near_to_the_preferences_of_now(run: Run) -> None:
    share = Settings(keep_rate=0.25, fine=False)
    given = [TextNode(id_=str(n), text=f"red wine {n}" if n % 2 else f"night train {n}") for n in range(60)]
    keep = EpicTransform(preferences=[WINE], encoder=HashEncoder(), settings=share)
    await run(keep, given)
    keep.preferences = [WINE, TRAIN]
    anew = EpicTransform(preferences=[WINE, TRAIN], encoder=HashEncoder(), settings=share)
    assert keep.to_dict() == anew.to_dict()
    assert ids(await run(keep, given)) == ids(await run(anew, given))
    assert keep.to_dict() == anew.to_dict()


async def test_metadata_is_judged_where_that_is_asked_for(run: Run) -> None:
    node = TextNode(text="An engine.", metadata={"title": "red wine", "path": "night train"}, id_="a")
    node.excluded_embed_metadata_keys = ["path"]
    assert await run(step(), [node]) == []
    (kept,) = await run(step(metadata_mode=MetadataMode.EMBED), [node])
    assert kept.text == "An engine." and kept.metadata["epic_preference"] == WINE
    lm = Scripted()
    (kept,) = await run(step(lm, metadata_mode="llm"), [node])
    assert [one["preference"] for one in json.loads(kept.metadata["epic_alignments"])] == [WINE, TRAIN]
    assert lm.asked[0].chunk == "title: red wine\npath: night train\nAn engine."
    with pytest.raises(ValidationError, match="metadata_mode"):
        step(metadata_mode="some")


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


# models


def llama(**options: Any) -> ScriptedLLM:
    """A LlamaIndex LLM that answers our prompts as `Scripted` does."""
    return ScriptedLLM(answers=_answer, **options)


def _answer(messages: list[Any]) -> str:
    asked = read_prompt([{"role": one.role.value, "content": one.content} for one in messages])
    return answer_to(asked, lambda chunk, preference: None if f"no{preference[-4:]}" in chunk else Stance.SUPPORTS)


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


def test_settings_change_what_comes_out_and_nothing_is_asked_again() -> None:
    lm = Scripted()
    keep = step(lm)
    assert ids(keep(nodes())) == KEPT and lm.calls == 16
    keep.settings = Settings(tau=1.0)
    assert keep(nodes()) == []
    keep.settings, keep.annotate = None, False
    assert all(not any(key.startswith("epic_") for key in node.metadata) for node in keep(nodes()))
    keep.settings = Settings(fine=False)
    assert len(keep(nodes())) == 16
    keep.settings, keep.annotate = Settings(keep_rate=0.2), True
    assert len(keep(nodes(20))) <= 20
    keep.settings = None
    assert keep(nodes()) == step()(nodes())
    lm.asked.clear()
    keep(nodes())
    keep.preferences = [TRAIN]
    assert keep(nodes()) == step(preferences=[TRAIN])(nodes())
    keep.preferences = [Preference(text=TRAIN, expires_at="2999-01-01T00:00:00+00:00")]
    assert keep(nodes()) == step(preferences=[TRAIN])(nodes())
    assert lm.calls == 0
    keep.preferences = [*keep.preferences, "blue sky"]
    assert keep(nodes()) == step(preferences=[TRAIN, "blue sky"])(nodes())
    assert {asked.preferences for asked in lm.asked} == {("blue sky",)}


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("preferences", ["a", "a"], "given twice"),
        ("llm", "qwen3:4b", "There is no model .qwen3:4b."),
    ],
)
def test_a_setting_that_cannot_be_is_refused_and_the_old_one_stays(name: str, value: Any, match: str) -> None:
    keep = step()
    before = keep.to_dict()
    with pytest.raises(ValidationError, match=match):
        setattr(keep, name, value)
    assert keep.to_dict() == before and ids(keep(nodes())) == KEPT


async def test_a_preference_that_expires_meanwhile_counts_no_more(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    from epic_memory.types import preferences

    end = datetime.now(timezone.utc) + timedelta(days=1)
    keep = step(preferences=[Preference(text=WINE, expires_at=end), TRAIN])
    assert ids(await run(keep, nodes())) == KEPT
    before = keep.to_dict()
    monkeypatch.setattr(preferences.time, "time", lambda: end.timestamp() + 1)
    assert keep.to_dict() != before
    assert await run(keep, nodes()) == step(preferences=[TRAIN])(nodes())


# bad input


class Keyed(KeepAll):
    """Shows its key."""

    def __repr__(self) -> str:
        return "sk-1234"


def test_errors_and_representations_show_no_model() -> None:
    with pytest.raises(ValidationError) as caught:
        EpicTransform(settings=5, llm=Keyed())
    assert "sk-1234" not in str(caught.value) + repr(EpicTransform(preferences=[WINE], llm=Keyed()))


async def test_preferences_are_not_for_a_call(run: Run) -> None:
    with pytest.raises(InvalidInputError, match="give them to EpicTransform itself"):
        await run(step(), nodes(), preferences=[WINE])


async def test_what_a_pipeline_passes_on_to_all_steps_does_not_matter(run: Run) -> None:
    assert ids(await run(step(), nodes(), show_progress=True, use_async=False)) == KEPT


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


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"llm": KeepAll()}, "with llm= or memory= cannot be sent"),
        ({"llm": llama()}, "with llm= or memory= cannot be sent"),
        ({"memory": EpicMemory([WINE])}, "with llm= or memory= cannot be sent"),
    ],
    ids=["verifier", "llm", "memory"],
)
def test_what_cannot_be_pickled_says_so(options: dict[str, Any], match: str) -> None:
    keep = EpicTransform(**({} if "memory" in options else {"preferences": [WINE]}), **options)
    with pytest.raises(pickle.PicklingError, match=match):
        pickle.dumps(keep)


def test_the_default_is_the_embedded_encoder_and_verifier() -> None:
    keep = EpicTransform(preferences="I avoid hotels with casinos.")
    (found,) = keep(
        [
            TextNode(text="The hotels of the strip have casinos."),
            TextNode(text="Steam engines need water and coal."),
        ]
    )
    assert found.metadata["epic_stance"] == "conflicts"
    assert 0.0 < found.metadata["epic_confidence"] <= 1.0 and found.embedding is None
    assert keep.models["encoder"] == default_encoder().name
