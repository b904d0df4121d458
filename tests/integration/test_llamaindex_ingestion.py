"""The ingestion step in LlamaIndex's pipelines and indexes: caches, document stores, workers, other embedding steps."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.ingestion.pipeline import get_transformation_hash
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import BaseNode, Document, TextNode
from pydantic import Field

from epic_llamaindex.ingestion import EpicTransform
from epic_llamaindex.models import EpicEmbedding, LlamaIndexEncoder, LlamaIndexLM
from epic_memory import Preference, Stance
from epic_memory.errors import LMUnavailableError, UndecidedError
from epic_memory.lm.prompting import prompt_of
from epic_memory.verification import EmbeddedVerifier
from helpers import HashEncoder, KeepAll, settled
from llamaindex_models import ScriptedEmbedding, ScriptedLLM
from scripted import TRAIN, WINE, Asked, Scripted, answer_to, memory_of, read_prompt, verifier_of

SENTENCES = [
    "We drink red wine with the fish.",
    "Steam engines need water and coal.",
    "The night train leaves from platform nine.",
    "A blue sky is above the hills.",
    "There is red wine in the night train.",
]
DOCUMENTS = [
    Document(text=" ".join(SENTENCES), id_="one", metadata={"title": "One"}),
    Document(text=" ".join(SENTENCES[::-1]), id_="two", metadata={"title": "Two"}),
]
OF_WINE = [SENTENCES[0], SENTENCES[4], SENTENCES[4], SENTENCES[0]]
Run = Callable[..., Awaitable[list[BaseNode]]]


def splitter() -> SentenceSplitter:
    """One sentence a node."""
    return SentenceSplitter(chunk_size=11, chunk_overlap=0, tokenizer=str.split, include_metadata=False)


def step(lm: Any = None, **options: Any) -> EpicTransform:
    lm = Scripted() if lm is None else lm
    given = {"preferences": [WINE], "encoder": HashEncoder(), "llm": verifier_of(lm), **options}
    return EpicTransform(**settled(**given))


def stalls(asked: Asked) -> None:
    raise LMUnavailableError("It stalled.")


def texts(nodes: Sequence[BaseNode]) -> list[str]:
    return [node.get_content() for node in nodes]


@pytest.fixture(params=["run", "arun"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a pipeline with or without blocking the event loop."""

    async def ran(pipeline: IngestionPipeline, **options: Any) -> list[BaseNode]:
        found = getattr(pipeline, request.param)(**options)
        return list(await found if request.param == "arun" else found)

    return ran


# the cache


@pytest.mark.parametrize("cached", [True, False])
async def test_a_pipeline_gives_what_the_step_keeps(cached: bool, run: Run) -> None:
    lm = Scripted()
    keep = step(lm)
    pipeline = IngestionPipeline(transformations=[splitter(), keep], disable_cache=not cached)
    found = await run(pipeline, documents=DOCUMENTS)
    assert texts(found) == OF_WINE and {node.ref_doc_id for node in found} == {"one", "two"}
    calls = lm.calls
    again = await run(pipeline, documents=DOCUMENTS)
    assert texts(again) == OF_WINE and lm.calls == calls
    assert (found == again) == cached  # a splitter gives new ids
    assert [node.metadata for node in found] == [node.metadata for node in again]


NODES = [TextNode(text=text, id_=f"n{number}") for number, text in enumerate(SENTENCES)]
LATER = datetime(2999, 1, 1, tzinfo=timezone.utc)
OTHER_PROMPT = replace(prompt_of("verify"), system="Be strict.")


def _answer(messages: Sequence[ChatMessage]) -> str:
    asked = read_prompt([{"role": one.role.value, "content": one.content} for one in messages])
    return answer_to(asked, lambda chunk, preference: Stance.SUPPORTS)


class TemperedLLM(ScriptedLLM):
    """With settings as the framework's integrations have them."""

    temperature: float = 0.0
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    api_key: str = "sk-1"
    timeout: float = 1.0


def llm(**options: Any) -> TemperedLLM:
    return TemperedLLM(**{"answers": _answer, **options})


class InstructedEmbedding(ScriptedEmbedding):
    """With settings as the framework's integrations have them."""

    text_instruction: str = ""
    api_key: str = "sk-1"


def embedding(**options: Any) -> InstructedEmbedding:
    return InstructedEmbedding(**options)


Made = dict[str, Any]


def adapted(**options: Any) -> Any:
    return LlamaIndexLM(llm(**options), name="one")


def embedded(fingerprint: str = "v1", **options: Any) -> Any:
    return EmbeddedVerifier(HashEncoder(fingerprint=fingerprint), **options)


# What a step is made with before and after, each time anew.
CHANGES: dict[str, tuple[Callable[[], Made], Callable[[], Made]]] = {
    "a preference": (dict, lambda: {"preferences": [TRAIN]}),
    "when a preference ends": (dict, lambda: {"preferences": [Preference(text=WINE, expires_at=LATER)]}),
    "tau": (lambda: {"tau": 0.2}, lambda: {"tau": 0.4}),
    "the encoder's tau": (
        lambda: {"encoder": LlamaIndexEncoder(embedding(), tau=0.1)},
        lambda: {"encoder": LlamaIndexEncoder(embedding(), tau=0.2)},
    ),
    **{stage: (dict, lambda stage=stage: {stage: False}) for stage in ("coarse", "fine", "annotate")},  # type: ignore[misc]
    "the encoder": (dict, lambda: {"encoder": HashEncoder(name="other")}),
    "the encoder's weights": (dict, lambda: {"encoder": HashEncoder(fingerprint="v2")}),
    "that there is an embedding model": (dict, lambda: {"embed_model": embedding()}),
    "the embedding model's instruction": (
        lambda: {"embed_model": embedding()},
        lambda: {"embed_model": embedding(text_instruction="passage: ")},
    ),
    "the model": (lambda: {"llm": llm(model="a")}, lambda: {"llm": llm(model="b")}),
    "the model's temperature": (lambda: {"llm": llm()}, lambda: {"llm": llm(temperature=0.7)}),
    "the same, in an adapter": (lambda: {"llm": adapted()}, lambda: {"llm": adapted(temperature=0.7)}),
    "the model of a verifier": (
        lambda: {"llm": verifier_of(Scripted(name="a"))},
        lambda: {"llm": verifier_of(Scripted(name="b"))},
    ),
    "a prompt": (dict, lambda: {"llm": verifier_of(Scripted(), prompt=OTHER_PROMPT)}),
    "the embedded verifier's encoder": (lambda: {"llm": embedded()}, lambda: {"llm": embedded("v1 ")}),
    "the embedded verifier's threshold": (lambda: {"llm": embedded()}, lambda: {"llm": embedded(threshold=0.3)}),
}


@pytest.mark.parametrize("changed", CHANGES)
async def test_what_changes_is_no_hit_of_the_cache(changed: str) -> None:
    before, after = CHANGES[changed]
    cache = IngestionCache()

    async def seen(made: Made) -> int:
        keep = step(**made)
        found = await IngestionPipeline(transformations=[keep], cache=cache).arun(nodes=list(NODES))
        report = keep.report.seen
        assert [one.to_dict() for one in found] == [one.to_dict() for one in step(**made)(NODES)]
        return report

    assert await seen(before()) == 5
    assert await seen(after()) == 5
    # The same settings, and models made anew, are a hit: nothing was seen.
    assert await seen(before()) == await seen(after()) == 0


async def test_what_changes_no_answer_is_a_hit(run: Run) -> None:
    cache = IngestionCache()
    for number, key in enumerate(["sk-1", "sk-2"]):
        made = {"llm": llm(api_key=key, timeout=number), "embed_model": embedding(api_key=key, embed_batch_size=5)}
        keep = step(**made, show_progress=bool(number))
        await run(IngestionPipeline(transformations=[keep], cache=cache), nodes=list(NODES))
        assert keep.report.seen == (0 if number else 5)
    assert "sk-1" not in json.dumps(cache.cache.get_all(collection=cache.collection)) + str(keep.to_dict())


async def test_a_memory_that_changes_is_no_hit(run: Run) -> None:
    memory = memory_of(Scripted(), WINE)
    pipeline = IngestionPipeline(transformations=[EpicTransform(memory=memory)])
    assert len(await run(pipeline, nodes=list(NODES))) == 2
    memory.preferences.replace(WINE, TRAIN)
    assert texts(await run(pipeline, nodes=list(NODES))) == [SENTENCES[2], SENTENCES[4]]
    memory.verifier = KeepAll()
    (first, _) = await run(pipeline, nodes=list(NODES))
    assert first.metadata["epic_rationale"] == "near"
    other = memory_of(Scripted(), TRAIN, coarse=False)
    keys = {get_transformation_hash(NODES, EpicTransform(memory=one)) for one in (other, memory_of(Scripted(), TRAIN))}
    assert len(keys) == 2


async def test_nothing_undecided_is_cached(run: Run) -> None:
    lm = Scripted(stalls)
    keep = step(lm)
    pipeline = IngestionPipeline(transformations=[splitter(), keep])
    with pytest.raises(UndecidedError):
        await run(pipeline, documents=DOCUMENTS)
    lm.hook = None
    assert texts(await run(pipeline, documents=DOCUMENTS)) == OF_WINE
    assert keep.undecided == []


# document stores


# workers


@pytest.mark.parametrize(("run", "embedded"), [("run", True), ("arun", False)], indirect=["run"])
async def test_workers_do_the_same(run: Run, embedded: bool) -> None:
    options = {"embed_model": EpicEmbedding()} if embedded else {}
    keep = EpicTransform(preferences=["I avoid hotels with casinos."], **options)
    documents = [Document(text=f"The hotels of town {n} have casinos.", id_=str(n)) for n in range(4)]
    documents += [Document(text="Steam engines need water and coal.", id_="steam")]
    pipeline = IngestionPipeline(transformations=[keep])
    found = await run(pipeline, documents=documents, num_workers=2)
    alone = keep(documents)
    assert [node.node_id for node in found] == ["0", "1", "2", "3"] == [node.node_id for node in alone]
    assert [node.metadata for node in found] == [node.metadata for node in alone]
    assert all((node.embedding is not None) == embedded for node in found)
    # The workers' cache is the pipeline's.
    assert len(pipeline.cache.cache.get_all(collection=pipeline.cache.collection)) == 3


# indexes
