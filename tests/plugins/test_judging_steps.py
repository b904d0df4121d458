"""The ingestion steps of both plugins, which judge by preferences: what comes out with which guidance, what is told."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given as given_by_hypothesis
from hypothesis import strategies as st

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core.documents import Document
from llama_index.core.schema import TextNode
from pydantic import ValidationError

from epic_langchain import EpicDocumentTransformer
from epic_llamaindex import EpicNodePostprocessor, EpicRetriever, EpicTransform
from epic_memory import EpicMemory, Preference, Settings
from epic_memory.errors import InvalidInputError, LMError
from epic_memory.types import BuildReport
from epic_memory.types.preferences import Aspects
from helpers import HashEncoder, KeepAll, settled
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, aspects_for, documents, memory_of, verifier_of
from tables import table

KEPT = [f"item {5 * n + m}" for n in range(4) for m in (0, 2, 3)]
Run = Callable[..., Awaitable[list[Any]]]


@dataclass(frozen=True)
class Plugin:
    """One plugin's step, and its documents."""

    kind: Callable[..., Any]
    encoder: str
    several: str
    made: Callable[[str, str, dict[str, Any]], Any]
    id_of: Callable[[Any], str]
    text: Callable[[Any], str]
    ways: dict[str, Run]

    def step(self, lm: Scripted | None = None, **options: Any) -> Any:
        """A step for two preferences, whose model decides by what is said in the text."""
        lm = Scripted() if lm is None else lm
        given = {"preferences": [WINE, TRAIN], self.encoder: HashEncoder(), "llm": verifier_of(lm), **options}
        if self.kind is EpicTransform:
            given = {"on_undecided": "skip", **given}
        return self.kind(**settled(**given))

    def documents(self, count: int = 4) -> list[Any]:
        """Kept under one preference, discarded, kept under two, under one of two, and far from both."""
        return [self.made(item.text, item.id, dict(item.metadata)) for item in documents(count)]

    def ids(self, found: Sequence[Any]) -> list[str]:
        return [self.id_of(one) for one in found]


async def invoked(keep: Any, given: Any) -> list[Any]:
    return keep.invoke(given)


async def ainvoked(keep: Any, given: Any) -> list[Any]:
    return await keep.ainvoke(given)


async def called(keep: Any, given: Any) -> list[Any]:
    return keep(given)


async def acalled(keep: Any, given: Any) -> list[Any]:
    return await keep.acall(given)


PLUGINS = {
    "lc": Plugin(
        kind=EpicDocumentTransformer,
        encoder="embeddings",
        several="Give several Documents in a list",
        made=lambda text, key, metadata: Document(text, id=key, metadata=metadata),
        id_of=lambda one: one.id,
        text=lambda one: one.page_content,
        ways={"sync": invoked, "async": ainvoked},
    ),
    "li": Plugin(
        kind=EpicTransform,
        encoder="encoder",
        several="Give several nodes in a list",
        made=lambda text, key, metadata: TextNode(text=text, id_=key, metadata=metadata),
        id_of=lambda one: one.node_id,
        text=lambda one: one.text,
        ways={"sync": called, "async": acalled},
    ),
}


@pytest.fixture(params=PLUGINS)
def plugin(request: pytest.FixtureRequest) -> Plugin:
    return PLUGINS[request.param]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, plugin: Plugin) -> Run:
    """Runs a step with or without blocking the event loop; inside a running loop both times."""
    return plugin.ways[request.param]


def stalls_at(*numbers: int) -> Callable[[Asked], None]:
    """Fails for the documents of these numbers."""

    def hook(asked: Asked) -> None:
        if any(chunk.endswith(tuple(f" {number}" for number in numbers)) for chunk in asked.chunks):
            raise LMError("It stalled.")

    return hook


def alignments(one: Any) -> list[dict[str, Any]]:
    return json.loads(one.metadata["epic_alignments"])


# what comes out


async def test_guidance_is_flat_metadata(plugin: Plugin, run: Run) -> None:
    (found,) = await run(plugin.step(), [plugin.made("red wine", "a", {"n": 1})])
    assert found.metadata == {
        "n": 1,
        "epic_instruction": "Serve red wine with red wine",
        "epic_preference": WINE,
        "epic_stance": "supports",
        "epic_rationale": "Said of red wine",
        "epic_similarity": 1.0,
        "epic_alignments": found.metadata["epic_alignments"],
    }
    assert alignments(found) == [
        {
            "instruction": "Serve red wine with red wine",
            "preference": WINE,
            "stance": "supports",
            "rationale": "Said of red wine",
            "confidence": None,
            "similarity": 1.0,
        }
    ]


TEXTS = st.lists(
    st.lists(st.sampled_from(["wine", "red", "train", "night", "sea", "nowine", "vegan", "casino"]), max_size=6).map(
        " ".join
    ),
    max_size=8,
)


@pytest.mark.parametrize("name", PLUGINS)
@given_by_hypothesis(texts=TEXTS, model=st.booleans())
def test_what_comes_out_came_in(name: str, texts: list[str], model: bool) -> None:
    plugin, preferences = PLUGINS[name], [WINE, TRAIN, "I avoid hotels with casinos."]
    keep = plugin.kind(preferences=preferences, **({"llm": verifier_of(Scripted())} if model else {}))
    given = [plugin.made(text, f"n{n}", {"n": n, "own": ["Ann"]}) for n, text in enumerate(texts)]
    before = copy.deepcopy(given)
    found = asyncio.run(plugin.ways["sync"](keep, given))
    assert given == before
    numbers = [one.metadata["n"] for one in found]
    assert numbers == sorted(set(numbers))
    for one in found:
        origin, ours = given[one.metadata["n"]], {key for key in one.metadata if key.startswith("epic_")}
        assert type(one) is type(origin) and plugin.text(one) == plugin.text(origin)
        assert {key: value for key, value in one.metadata.items() if key not in ours} == origin.metadata
        assert {type(one.metadata[key]) for key in ours} <= {str, int, float}
        known = alignments(one)
        assert known == sorted(known, key=lambda each: (each["confidence"] or 0.0, each["similarity"]), reverse=True)
        strongest = {key: value for key, value in known[0].items() if value is not None}
        assert {key: one.metadata[f"epic_{key}"] for key in strongest} == strongest
    # One is the same, whatever comes with it, however often it is run, and in either way.
    again = asyncio.run(plugin.ways["async"](keep, given))
    assert again == found == asyncio.run(plugin.ways["sync"](keep, found))
    assert [one for each in given for one in asyncio.run(plugin.ways["sync"](keep, [each]))] == found
    # Nothing of what comes out is shared with what came in.
    for one in found:
        one.metadata["own"].append("Bob")
    assert given == before


async def test_nothing_blocks_the_event_loop(plugin: Plugin) -> None:
    encoder, lm = HashEncoder(), Scripted(concurrency=3, seconds=0.001)
    keep = plugin.step(lm, **{plugin.encoder: encoder})
    assert plugin.ids(await plugin.ways["async"](keep, plugin.documents())) == KEPT
    assert threading.get_ident() not in encoder.sync_threads and lm.most_at_once == 3
    assert await plugin.ways["async"](keep, []) == []


async def test_guidance_of_an_earlier_run_is_replaced(plugin: Plugin, run: Run) -> None:
    found = await run(plugin.step(), [plugin.made(BOTH, "a", {"n": 1})])
    other = plugin.step(preferences=[TRAIN])
    assert await run(other, found) == await run(other, [plugin.made(BOTH, "a", {"n": 1})])
    # Without verification there are no instructions.
    lm = Scripted()
    (bare,) = await run(plugin.step(lm, fine=False), found)
    assert lm.calls == 0 and [one["preference"] for one in alignments(bare)] == [WINE, TRAIN]
    assert not bare.metadata["epic_instruction"] and "epic_confidence" not in bare.metadata


async def test_tau_and_coarse_are_the_coarse_filters(plugin: Plugin, run: Run) -> None:
    lm = Scripted()
    assert await run(plugin.step(lm, tau=1.0), plugin.documents()) == [] and lm.calls == 0
    assert plugin.ids(await run(plugin.step(lm, coarse=False), plugin.documents(1)))[-1] == "item 4"


# what is told


async def test_the_report_says_what_the_run_did(plugin: Plugin, run: Run) -> None:
    keep = plugin.step()
    assert keep.report == BuildReport() and keep.undecided == []
    await run(keep, plugin.documents())
    report = keep.report
    assert (report.seen, report.passed, report.kept, report.discarded, report.undecided) == (20, 16, 12, 4, 0)
    assert report.entries == 16 and report.tau == 0.3 and report.warnings == []
    await run(keep, plugin.documents(1))
    assert keep.report.seen == 5 and report.seen == 20


async def test_what_has_no_text_is_left_out_and_counted(plugin: Plugin, run: Run) -> None:
    keep = plugin.step()
    given = [plugin.made("", "x", {}), *plugin.documents(1), plugin.made(" \n", "y", {})]
    assert plugin.ids(await run(keep, given)) == ["item 0", "item 2", "item 3"]
    assert keep.report.seen == 5
    assert [warning.partition(" ")[2] for warning in keep.report.warnings] in (
        ["documents without text were left out."],
        ["nodes without text were left out."],
    )


async def test_what_a_model_does_not_decide_is_undecided(
    plugin: Plugin, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    lm = Scripted(stalls_at(2, 3))
    keep, given = plugin.step(lm), plugin.documents()
    found = await run(keep, given)
    assert plugin.ids(found) == KEPT[:6]
    assert keep.undecided == given[10:14] + given[15:19]
    assert keep.report.undecided == 8 and set(keep.report.failures.values()) == {"It stalled."}
    assert keep.report.failures.keys() == set(plugin.ids(keep.undecided))
    (warning,) = keep.report.warnings
    assert "are undecided" in warning and warning in caplog.text
    lm.hook = None
    lm.asked.clear()
    later = await run(keep, keep.undecided)
    assert found + later == await run(plugin.step(), given)
    assert keep.undecided == [] and keep.report.undecided == 0
    assert plugin.ids(later) == KEPT[6:]


# aspects of preferences

CASINOS = "I avoid hotels with casinos."
SAID = Aspects(liked=("quiet inns",), avoided=("slot machines",), firmness=1.0, scope="in Las Vegas")


async def test_aspects_that_a_preference_brings_count(plugin: Plugin, run: Run) -> None:
    with_aspects, without = Preference(text=CASINOS, aspects=SAID), Preference(text=CASINOS)
    hotels = [plugin.made("A hotel in Las Vegas with a casino and slot machines.", "a", {})]
    found = await run(plugin.kind(preferences=[with_aspects]), hotels)
    assert found != await run(plugin.kind(preferences=[without]), hotels)
    if plugin.kind is EpicDocumentTransformer:
        keep = EpicDocumentTransformer(preferences=[without])
        assert keep.invoke(hotels, preferences=[with_aspects]) == found != keep.invoke(hotels)


@pytest.mark.parametrize("component", [EpicTransform, EpicNodePostprocessor])
def test_what_is_stored_or_cached_changes_with_aspects(component: Any) -> None:
    made = component(preferences=[Preference(text=CASINOS, aspects=SAID)])
    stored = json.loads(json.dumps(made.to_dict()))
    assert stored != json.loads(json.dumps(component(preferences=[CASINOS]).to_dict()))
    made.preferences = [Preference(text=CASINOS, aspects={"avoided": ["noise"]})]
    assert made.to_dict() != stored


def test_a_memory_whose_aspects_change_changes_what_a_pipeline_caches() -> None:
    memory = EpicMemory([CASINOS], encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    transform = EpicTransform(memory=memory)
    before = transform.to_dict()
    memory.preferences.set_aspects(CASINOS, SAID)
    assert transform.to_dict() != before and json.dumps(transform.to_dict())


async def test_ingestion_asks_for_no_aspects_and_a_memory_of_ones_own_does(plugin: Plugin, run: Run) -> None:
    lm = Scripted()
    assert len(await run(plugin.step(lm), [plugin.made(WINE, "a", {})])) == 1 and lm.read == []
    retriever = EpicRetriever.from_defaults(
        preferences=[WINE], nodes=[TextNode(text=WINE)], llm=verifier_of(lm), embed_model=HashEncoder()
    )
    (said,) = retriever.memory.preferences.aspects().values()
    assert lm.read == [WINE] and list(said.liked) == json.loads(aspects_for(WINE))["liked"]


# a memory that judges


async def test_a_memory_judges_and_takes_nothing_in(plugin: Plugin, run: Run) -> None:
    memory = memory_of(Scripted())
    keep = plugin.kind(memory=memory)
    assert await run(keep, plugin.documents()) == await run(plugin.step(), plugin.documents())
    assert memory and len(memory) == 0 and memory.stats().counts["pending"] == 0
    memory.preferences.replace(WINE, "blue sky")
    assert "item 4" in plugin.ids(await run(keep, plugin.documents()))


def test_a_memory_brings_all_it_needs(plugin: Plugin) -> None:
    memory = memory_of(Scripted())
    ignored: dict[str, Any] = {"preferences": [WINE], "llm": Scripted(), "settings": Settings(tau=0.1)}
    for name, value in {**ignored, plugin.encoder: HashEncoder()}.items():
        with pytest.raises(ValidationError, match=f"With memory=, {name} would be ignored"):
            plugin.kind(memory=memory, **{name: value})
    keep = plugin.kind(memory=memory)
    with pytest.raises((ValidationError, InvalidInputError), match="it has its own"):
        keep.invoke([], preferences=[WINE]) if plugin.kind is EpicDocumentTransformer else setattr(
            keep, "preferences", [WINE]
        )
    for name in ("settings", "llm", "memory"):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(keep, name, getattr(keep, name))


# bad input


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        *table(__file__, "arguments_that_cannot_be_are_errors"),
        ({"preferences": [WINE, "Red  Wine"]}, "given twice"),
        ({"llm": Scripted}, "LangChain chat model|LlamaIndex LLM"),
        ({"llm": HashEncoder()}, "LangChain chat model|LlamaIndex LLM"),
    ],
)
def test_arguments_that_cannot_be_are_errors(plugin: Plugin, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises((ValidationError, InvalidInputError), match=match):
        plugin.step(**arguments)


@pytest.mark.parametrize(
    ("text", "key", "match"),
    [
        ("red\0wine", "broken", "101 .*broken.*NUL"),
        ("red wine \ud800", "broken", "101 .*broken"),
        ("red wine", "a\0b", r"101 .*a\\x00b.*NUL"),
        (None, "", r"Expected (Documents|nodes), found NoneType: (Document|TextNode)\("),
    ],
)
async def test_what_is_no_document_or_text_is_refused_before_anything_is_asked(
    plugin: Plugin, run: Run, text: Any, key: str, match: str
) -> None:
    lm = Scripted()
    keep = plugin.step(lm)
    with pytest.raises(InvalidInputError, match=match):
        await run(keep, [*plugin.documents(20), text and plugin.made(text, key, {})])
    for wrong in ("red wine", plugin.made("red wine", "a", {}), None):
        with pytest.raises(InvalidInputError, match=plugin.several):
            await run(keep, wrong)
    assert lm.calls == 0 and keep.report.seen == 0
