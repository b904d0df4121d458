"""Kept items that a model writes anew for their preferences: indexed, shown, renewed when the preferences change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import scripted
from epic_core import EpicMemory, Item
from epic_core.errors import LMError, LMSetupError, LMUnavailableError, VerifierError
from epic_core.types import Candidate, Verdict
from epic_core.verification import LMVerifier
from epic_core.verification.base import Rewriter, Rewriting, Rewritten
from helpers import HashEncoder, KeepAll, both, keep
from scripted import (
    BOTH,
    SEA,
    TRAIN,
    WINE,
    Asked,
    Scripted,
    anew,
    built,
    contents,
    documents,
    held,
    rationale_for,
    rows,
    verifier_of,
)


def memory_of(lm: Scripted, *preferences: str, **options: Any) -> EpicMemory:
    return scripted.memory_of(lm, *preferences, refine="rewrite", **options)


def opened(path: Path, lm: Scripted, *preferences: str, **options: Any) -> EpicMemory:
    return scripted.opened(path, lm, *preferences, refine="rewrite", **options)


def kinds(lm: Scripted) -> list[str]:
    return [asked.kind for asked in lm.asked]


def rewritings(lm: Scripted, since: int = 0) -> list[tuple[str, tuple[str, ...]]]:
    """The texts and preferences the Rewriter was asked about."""
    return [(asked.chunk, asked.preferences) for asked in lm.asked[since:] if asked.kind == "rewrite"]


def shown(memory: EpicMemory, item_id: str) -> str:
    """The rewritten text of an item; the same in all of its entries."""
    (text,) = {entry.rewrite for entry in memory.explain(item_id).entries}
    return text


def failing(asked: Asked) -> str | None:
    """The Rewriter's answers cannot be read."""
    return '{"nothing": 1}' if asked.kind == "rewrite" else None


# kept and found


def test_a_kept_item_is_written_anew_and_has_no_instructions() -> None:
    lm = Scripted()
    memory = memory_of(lm)
    report = memory.add([Item(id="a", text=BOTH, metadata={"n": 1})])
    assert (report.kept, report.entries, report.usage.calls) == (1, 2, 2)
    (hit,) = memory.search("wine")
    assert hit.text == anew(BOTH, WINE, TRAIN)
    assert hit.instructions == [] and set(hit.preferences) == {WINE, TRAIN}
    assert hit.item == Item(id="a", text=BOTH, metadata={"n": 1})
    assert [(e.instruction, e.rewrite, e.rationale) for e in hit.entries] == [("", hit.text, rationale_for(BOTH))] * 2


def test_one_call_writes_an_item_for_all_of_its_preferences() -> None:
    lm = Scripted()
    memory = memory_of(lm)
    memory.add([BOTH, "red wine", "red wine nowine", f"{BOTH} nowine", "blue sky"])
    assert kinds(lm).count("decide") == 4
    assert sorted(rewritings(lm)) == sorted(
        [(BOTH, (WINE, TRAIN)), ("red wine", (WINE,)), (f"{BOTH} nowine", (TRAIN,))]
    )


def test_the_rewriter_is_told_why_the_item_was_kept_and_the_original_is_quoted() -> None:
    lm = Scripted()
    memory_of(lm).add(["red wine"])
    prompts = [sent.messages[-1].content for sent in lm.sent]
    assert len(prompts) == 2
    assert f"Why it was kept: {rationale_for('red wine')}" in prompts[1] and "| red wine" in prompts[1]


def test_the_rewritten_text_is_what_is_embedded_and_found() -> None:
    lm = Scripted(hook=lambda asked: '{"text": "marmalade castle"}' if asked.kind == "rewrite" else None)
    encoder = HashEncoder()
    memory = memory_of(lm, WINE, encoder=encoder)
    memory.add(["red wine", "red wine cork"])
    assert encoder.texts["marmalade castle"] == 1
    found: dict[str, Any] = {"steering": "off", "stance_policy": "any", "keys": "instruction", "min_score": None}
    hits = memory.search("marmalade castle", **found)
    assert [hit.score for hit in hits] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert memory.search("red wine", **found)[0].score == pytest.approx(0.0, abs=1e-5)
    # Its own text is a key beside it.
    assert memory.search("red wine", steering="off")[0].item.text == "red wine"


def test_the_context_shows_the_rewritten_text_and_no_guidance() -> None:
    memory = memory_of(Scripted())
    memory.add([BOTH])
    document = f"Document 1:\nContent:\n{anew(BOTH, WINE, TRAIN)}"
    assert memory.context("wine", preferences="none") == document
    assert memory.context("wine", preferences="all").endswith(f"\n\n{document}")


def test_the_context_still_says_what_to_steer_clear_of() -> None:
    def warning(asked: Asked) -> str | None:
        if asked.kind == "rewrite":
            return None
        return '{"decision": "Keep", "rationale": "r", "preferences": [{"preference": 1, "stance": "conflicts"}]}'

    memory = memory_of(Scripted(hook=warning), "I avoid casinos")
    memory.add(["casinos to avoid"])
    context = memory.context("casinos")
    assert 'Steer clear: this conflicts with the preference "I avoid casinos".' in context
    assert anew("casinos to avoid", "I avoid casinos") in context


def test_explain_shows_the_original_and_the_rewritten_text() -> None:
    memory = memory_of(Scripted())
    memory.add([Item(id="a", text=BOTH)])
    explanation = memory.explain("a")
    assert explanation.item.text == BOTH
    text = str(explanation)
    assert f"a: {BOTH}" in text and f"rewritten    {anew(BOTH, WINE, TRAIN)}" in text and "instruction" not in text


async def test_the_retriever_of_llamaindex_gives_the_rewritten_text() -> None:
    pytest.importorskip("llama_index.core")
    import epic_llamaindex

    memory = memory_of(Scripted())
    memory.add([Item(id="a", text=BOTH, metadata={"n": 1})])
    retriever = epic_llamaindex.EpicRetriever(memory)
    for node in (*retriever.retrieve("wine"), *(await retriever.aretrieve("wine"))):
        assert (node.node.get_content(), node.node.node_id) == (anew(BOTH, WINE, TRAIN), "a")


# kept


def test_a_reopened_file_holds_rewritten_texts(path: Path) -> None:
    lm, items = Scripted(), documents()
    with opened(path, lm) as memory:
        memory.add(items)
        before = contents(memory, items)
        calls = lm.calls
        memory.add(items)
    assert lm.calls == calls
    with opened(path, lm) as memory:
        assert contents(memory, items) == before
        assert memory.search("train", k=1)[0].text.startswith("anew for")
        memory.add(items)
        memory.retry()
        assert lm.calls == calls


def test_the_same_text_under_another_id_costs_no_call() -> None:
    lm = Scripted()
    memory = memory_of(lm)
    memory.add([Item(id="a", text=BOTH), Item(id="b", text=BOTH)])
    memory.add([Item(id="c", text=BOTH), Item(id="a", text=BOTH, metadata={"n": 2})])
    assert lm.calls == 2
    assert [shown(memory, item_id) for item_id in "abc"] == [anew(BOTH, WINE, TRAIN)] * 3


def test_another_encoder_embeds_rewritten_texts_again(path: Path) -> None:
    new, lm = HashEncoder(512, name="new", fingerprint="v2"), Scripted()
    with opened(path, lm) as memory:
        memory.add([BOTH, "red wine"])
        calls = lm.calls
        memory.reencode(new)
        # The original is a key beside it.
        assert new.texts[anew(BOTH, WINE, TRAIN)] >= 1 and new.texts[BOTH] == 1
        (hit, *_) = memory.search(
            anew(BOTH, WINE, TRAIN), steering="off", stance_policy="any", keys="instruction", min_score=None
        )
        assert (hit.item.text, hit.score) == (BOTH, pytest.approx(1.0, abs=1e-5))
    with EpicMemory.open(path, encoder=HashEncoder(), reencode=True, verifier=verifier_of(lm)) as memory:
        assert memory.search(anew("red wine", WINE), steering="off")[0].text == anew("red wine", WINE)
    assert lm.calls == calls


def test_rewritten_texts_are_weighed_as_documents_and_cached() -> None:
    memory = memory_of(Scripted(), WINE)
    memory.add(["red wine"])
    stats = memory.stats()
    assert stats.counts["verdicts"] == 2  # a verdict and a rewritten text
    assert stats.bytes["documents"] >= len("red wine") + len(anew("red wine", WINE))


def test_a_cache_of_zero_still_rewrites() -> None:
    lm = Scripted()
    memory = memory_of(lm, verdict_cache=0)
    memory.add([Item(id="a", text=BOTH)])
    memory.remove_preference(TRAIN)
    assert shown(memory, "a") == anew(BOTH, WINE) and memory.stats().counts["verdicts"] == 0


@pytest.mark.parametrize("bound", [1, 5])
def test_the_bound_of_the_cache_holds_for_rewritten_texts_too(path: Path, bound: int) -> None:
    with opened(path, Scripted(), WINE, verdict_cache=bound) as memory:
        for n in range(8):
            memory.add([f"red wine {n}"])
            assert rows(path) + rows(path, "rewrites") <= bound
        memory.add([f"red wine again {n}" for n in range(20)])
        memory.add_preference("again")
        assert rows(path) + rows(path, "rewrites") <= bound


# other preferences


def test_a_new_preference_has_the_items_it_adds_to_written_anew_from_their_original() -> None:
    lm = Scripted()
    memory = memory_of(lm, WINE)
    memory.add([Item(id="a", text=BOTH), Item(id="b", text="red wine")])
    calls = lm.calls
    report = memory.add_preference(TRAIN)
    assert [(a.kind, a.chunk, a.preferences) for a in lm.asked[calls:]] == [
        ("decide", BOTH, (TRAIN,)),
        ("rewrite", BOTH, (WINE, TRAIN)),
    ]
    assert report.usage.calls == 2
    assert shown(memory, "a") == anew(BOTH, WINE, TRAIN) and shown(memory, "b") == anew("red wine", WINE)
    (hit,) = memory.search(
        anew(BOTH, WINE, TRAIN), k=1, steering="off", stance_policy="any", keys="instruction", min_score=None
    )
    assert hit.score == pytest.approx(1.0, abs=1e-5)


def test_a_replaced_preference_has_its_items_written_anew_from_their_original() -> None:
    lm = Scripted()
    memory = memory_of(lm)
    memory.add([Item(id="a", text=f"{BOTH} at the blue sea"), Item(id="b", text=BOTH), Item(id="c", text="red wine")])
    calls = lm.calls
    memory.replace_preference(TRAIN, SEA)
    asked = [(a.kind, a.chunk, set(a.preferences)) for a in lm.asked[calls:]]
    assert ("rewrite", f"{BOTH} at the blue sea", {WINE, SEA}) in asked
    assert ("rewrite", BOTH, {WINE}) in asked
    assert [kind for kind, *_ in asked] == ["decide", "rewrite", "rewrite"]
    assert shown(memory, "b") == anew(BOTH, WINE) and shown(memory, "c") == anew("red wine", WINE)
    assert TRAIN not in shown(memory, "a").split(":")[0]


def test_items_whose_preferences_stay_the_same_cost_no_call() -> None:
    lm = Scripted()
    memory = memory_of(lm)
    memory.add([Item(id="a", text=f"{BOTH} nosea at the blue sea"), Item(id="b", text=BOTH)])
    calls = lm.calls
    memory.add_preference(SEA)  # decides against the only item near it
    assert kinds(lm)[calls:] == ["decide"]
    calls = lm.calls
    memory.remove_preference(SEA)
    memory.retry()
    assert lm.calls == calls


def test_a_set_that_was_rewritten_before_comes_from_the_cache() -> None:
    lm = Scripted()
    memory = memory_of(lm, WINE)
    memory.add([Item(id="a", text=BOTH)])
    memory.add_preference(TRAIN)
    calls = lm.calls
    memory.remove_preference(TRAIN)  # back to the wine alone
    assert lm.calls == calls and shown(memory, "a") == anew(BOTH, WINE)


def test_texts_rewritten_for_a_removed_preference_are_forgotten(path: Path) -> None:
    def secret(asked: Asked) -> str | None:
        if asked.kind != "rewrite":
            return None
        said = " ".join(f"Secret{p.split()[0]}{len(asked.preferences)}" for p in asked.preferences)
        return json.dumps({"text": said})

    lm = Scripted(hook=secret)
    with opened(path, lm) as memory:
        memory.add([BOTH, "night train"])
        assert b"Secretnight1" in path.read_bytes() and b"Secretnight2" in path.read_bytes()
        memory.remove_preference(TRAIN)
    assert b"Secretnight" not in path.read_bytes() and b"Secretred1" in path.read_bytes()
    with opened(path, lm) as memory:
        calls = lm.calls
        memory.add_preference(TRAIN)
        # Of what the wine held, and of what went to the light tier.
        assert sorted(kinds(lm)[calls:]) == ["decide", "decide", "rewrite", "rewrite"]


def test_a_replaced_text_is_rewritten_and_the_earlier_one_forgotten(path: Path) -> None:
    with opened(path, Scripted()) as memory:
        memory.add([Item(id="a", text="red wine Oldsecret")])
        memory.add([Item(id="a", text="red wine new")])
        assert shown(memory, "a") == anew("red wine new", WINE)
    assert b"Oldsecret" not in path.read_bytes()


def test_another_rewriter_writes_only_what_it_is_asked_for() -> None:
    memory = memory_of(Scripted(), WINE)
    memory.add([Item(id="a", text=BOTH), Item(id="b", text="red wine")])
    other = Scripted(name="other")
    memory.verifier = verifier_of(other, refine="rewrite")
    memory.retry()
    assert other.calls == 0
    memory.add_preference(TRAIN)
    assert rewritings(other) == [(BOTH, (WINE, TRAIN))]


def test_items_with_instructions_are_rewritten_once_a_preference_is_added_by_rewriting() -> None:
    lm = Scripted()
    memory = scripted.memory_of(lm, WINE)
    memory.add([Item(id="a", text=BOTH), Item(id="b", text="red wine")])
    memory.verifier = verifier_of(lm, refine="rewrite")
    memory.add_preference(TRAIN)
    assert shown(memory, "a") == anew(BOTH, WINE, TRAIN)
    assert [entry.instruction for entry in memory.explain("a").entries] == ["", ""]
    assert memory.search("serve red wine")[0].item.id == "b"


# failures


@pytest.mark.parametrize("error", [None, LMError("broken"), LMUnavailableError("away"), LMSetupError("no such model")])
def test_a_rewriter_that_fails_leaves_a_new_item_undecided(error: LMError | None) -> None:
    def fails(asked: Asked) -> str | None:
        if asked.kind == "rewrite" and error is not None:
            raise error
        return failing(asked)

    lm = Scripted(hook=fails)
    memory = memory_of(lm)
    report = memory.add([Item(id="a", text=BOTH), Item(id="b", text="red wine nowine"), Item(id="c", text="red wine")])
    assert (report.kept, report.discarded, report.undecided) == (0, 1, 2)
    assert memory.stats().counts["pending"] == 2 and len(memory) == 0
    assert "could not be rewritten" in report.failures["a"]
    assert str(error or "could not be understood") in report.failures["a"]
    assert report.answers == ({} if error else {"a": '{"nothing": 1}', "c": '{"nothing": 1}'})
    assert "could not be rewritten" in memory.explain("a").note
    lm.hook, calls = None, lm.calls
    report = memory.retry()
    assert (report.kept, report.cached) == (2, 3)
    assert set(kinds(lm)[calls:]) == {"rewrite"} and lm.calls == calls + 2
    assert shown(memory, "a") == anew(BOTH, WINE, TRAIN) and memory.stats().counts["pending"] == 0


def test_a_rewriter_that_fails_on_a_removed_preference_keeps_the_earlier_text_until_it_is_renewed() -> None:
    lm = Scripted()
    memory = memory_of(lm)
    memory.add([Item(id=f"{n}", text=f"{BOTH} {n}") for n in range(3)])
    lm.hook = failing
    report = memory.remove_preference(TRAIN)
    assert any("3 items" in warning and "memory.retry()" in warning for warning in report.warnings)
    assert "warning: 3 items" in str(report)
    assert shown(memory, "0") == anew(f"{BOTH} 0", WINE, TRAIN) and len(memory) == 3
    assert memory.search("wine")[0].preferences == [WINE]
    assert memory.retry().warnings
    lm.hook, calls = None, lm.calls
    assert memory.retry().warnings == []
    assert kinds(lm)[calls:] == ["rewrite"] * 3
    assert [shown(memory, f"{n}") for n in range(3)] == [anew(f"{BOTH} {n}", WINE) for n in range(3)]


def test_a_rewriter_that_fails_on_a_new_preference_keeps_the_earlier_text_until_it_is_renewed() -> None:
    lm = Scripted()
    memory = memory_of(lm, WINE)
    memory.add([Item(id="a", text=BOTH)])
    lm.hook = failing
    report = memory.add_preference(TRAIN)
    assert any("memory.retry()" in warning for warning in report.warnings) and "a" in report.failures
    assert shown(memory, "a") == anew(BOTH, WINE)
    assert memory.search("wine")[0].preferences == [WINE]
    lm.hook, calls = None, lm.calls
    memory.retry()
    assert rewritings(lm, calls) == [(BOTH, (WINE, TRAIN))] and lm.calls == calls + 1
    assert shown(memory, "a") == anew(BOTH, WINE, TRAIN)


class FakeRewriter:
    """Gives what a function says of a rewriting."""

    name = "fake rewriter"

    def __init__(self, answer: Callable[[Rewriting], object]) -> None:
        self.answer = answer

    def stream(self, rewritings: Sequence[Rewriting]) -> Iterator[tuple[int, Any]]:
        for place in reversed(range(len(rewritings))):
            yield place, self.answer(rewritings[place])

    async def astream(self, rewritings: Sequence[Rewriting]) -> Any:
        for one in self.stream(rewritings):
            await asyncio.sleep(0)
            yield one


class WithRewriter(KeepAll):
    """Keeps everything; what is kept is rewritten."""

    def __init__(self, answer: Callable[[Rewriting], object]) -> None:
        super().__init__()
        self.rewriter = FakeRewriter(answer)


def test_any_verifier_may_have_a_rewriter() -> None:
    verifier = WithRewriter(lambda rewriting: Rewritten(text=f"new {rewriting.item.text}"))
    assert isinstance(verifier.rewriter, Rewriter)
    memory = EpicMemory([WINE], encoder=HashEncoder(), verifier=verifier)
    memory.add(["red wine 1", "red wine 2"])
    assert sorted(hit.text for hit in memory.search("wine")) == ["new red wine 1", "new red wine 2"]


def test_a_rewriter_that_raises_leaves_its_items_undecided() -> None:
    def answer(rewriting: Rewriting) -> Rewritten:
        if rewriting.item.text == "red wine 1":
            raise OSError("gone")
        return Rewritten(text="new")

    memory = EpicMemory([WINE], encoder=HashEncoder(), verifier=WithRewriter(answer))
    report = memory.add([f"red wine {n}" for n in range(4)])
    assert (report.kept, report.undecided) == (2, 2)
    assert all("OSError: gone" in reason for reason in report.failures.values())


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_no_rewriting(text: str) -> None:
    memory = EpicMemory([WINE], encoder=HashEncoder(), verifier=WithRewriter(lambda _: Rewritten(text=text)))
    assert memory.add(["red wine"]).undecided == 1 and len(memory) == 0


async def test_a_rewriter_that_breaks_its_contract_is_an_error_and_nothing_is_written() -> None:
    memory = EpicMemory([WINE], encoder=HashEncoder(), verifier=WithRewriter(lambda _: "text"))
    with pytest.raises(VerifierError, match="Rewritten"):
        await both(memory, "add", ["red wine"])
    assert len(memory) == memory.stats().counts["pending"] == 0


def test_what_utf_8_cannot_hold_is_replaced() -> None:
    verifier = WithRewriter(lambda _: Rewritten(text="a\ud800b\x00c"))
    memory = EpicMemory([WINE], encoder=HashEncoder(), verifier=verifier)
    memory.add(["red wine"])
    assert memory.search("wine")[0].text == "a?bc"


# interrupted


@pytest.fixture(params=[0.0, 60.0], ids=["each text by itself", "all texts together"])
def moment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """How long a batch of answers waits for more."""
    monkeypatch.setattr("epic_core.runtime.streaming._MOMENT", request.param)
    return float(request.param)


@pytest.mark.slow
def test_a_build_interrupted_at_any_call_loses_no_call(moment: float) -> None:
    items = documents(3 if moment else 2)
    expected, calls = built(items, refine="rewrite")
    for stop in range(1, calls + 1):
        lm = Scripted()
        lm.interrupt_at = {stop}
        memory = memory_of(lm)
        with pytest.raises(KeyboardInterrupt):
            memory.add(items)
        memory.add(items)
        assert contents(memory, items) == expected
        assert lm.calls == calls + 1, f"interrupted at call {stop}"


@pytest.mark.usefixtures("moment")
@pytest.mark.parametrize("stop", [1, 5, 6, 7, 10])
def test_an_interrupted_preference_change_loses_no_call(stop: int) -> None:
    lm, items = Scripted(), [Item(id=f"{n}", text=f"{BOTH} {n}") for n in range(5)]
    memory = memory_of(lm, WINE)
    memory.add(items)
    before, calls = held(memory, items), lm.calls
    lm.interrupt_at = {calls + stop}
    with pytest.raises(KeyboardInterrupt):
        memory.add_preference(TRAIN)
    assert held(memory, items) == before and [p.text for p in memory.preferences] == [WINE]
    memory.add_preference(TRAIN)
    assert [shown(memory, f"{n}") for n in range(5)] == [anew(f"{BOTH} {n}", WINE, TRAIN) for n in range(5)]
    assert lm.calls == calls + 10 + 1


# changed meanwhile


class Meanwhile(Scripted):
    """Before an answer of one kind something else happens, once."""

    def __init__(self, kind: str, happens: Callable[[], object] | None = None) -> None:
        super().__init__(hook=self._happen)
        self.kind = kind
        self.happens = happens

    def _happen(self, asked: Asked) -> None:
        if asked.kind == self.kind and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()


@pytest.mark.parametrize("kind", ["decide", "rewrite"])
def test_a_preference_added_meanwhile_is_rewritten_for(kind: str) -> None:
    lm = Meanwhile(kind)
    memory = memory_of(lm, WINE)
    lm.happens = lambda: memory.add_preference(TRAIN)
    memory.add([Item(id="a", text=BOTH)])
    assert {entry.preference for entry in memory.explain("a").entries} == {WINE, TRAIN}
    assert shown(memory, "a") == anew(BOTH, WINE, TRAIN)


def test_a_text_rewritten_for_a_preference_removed_meanwhile_is_forgotten(path: Path) -> None:
    def hook(asked: Asked) -> str | None:
        if asked.kind == "rewrite" and TRAIN in asked.preferences:
            memory.remove_preference(TRAIN)
            return json.dumps({"text": "Secretnight"})
        return None

    with opened(path, Scripted(hook=hook)) as memory:
        memory.add([Item(id="a", text=BOTH)])
        assert shown(memory, "a") == anew(BOTH, WINE)
    assert b"Secretnight" not in path.read_bytes()


@pytest.mark.parametrize("kind", ["decide", "rewrite"])
def test_an_item_replaced_while_a_preference_is_added_is_rewritten_as_it_is_now(kind: str) -> None:
    lm = Meanwhile(kind)
    memory = memory_of(lm, WINE)
    memory.add([Item(id="a", text=BOTH)])
    lm.happens = lambda: memory.add([Item(id="a", text=f"{BOTH} new")])
    memory.add_preference(TRAIN)
    assert memory.explain("a").item.text == f"{BOTH} new"
    assert shown(memory, "a") == anew(f"{BOTH} new", WINE, TRAIN)


def test_a_verifier_that_keeps_without_instructions_needs_a_rewriter() -> None:
    class Bare(KeepAll):
        def verdicts(self, candidates: Sequence[Candidate]) -> Iterator[object]:
            for candidate in candidates:
                kept = keep(candidate)
                bare = [type(a)(preference_id=a.preference_id, instruction="") for a in kept.alignments]
                yield Verdict(decision=kept.decision, alignments=tuple(bare))

    with pytest.raises(VerifierError, match="empty instruction"):
        EpicMemory([WINE], encoder=HashEncoder(), verifier=Bare()).add(["red wine"])


@pytest.mark.parametrize("bad", ["instructions", True, ""])
def test_only_a_rewrite_refines(bad: Any) -> None:
    with pytest.raises(ValueError, match="refine"):
        LMVerifier(Scripted(), refine=bad)
