"""Fine verification by a cross-encoder: confidences from scores, stances by inference, no Discard of what fails."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from epic_memory import EpicMemory, Item, Preference, Settings
from epic_memory.encoders.base import embed
from epic_memory.errors import EncoderError, InvalidInputError, MissingExtraError
from epic_memory.types import Candidate, Decision, Stance, Verdict
from epic_memory.verification import CrossEncoderVerifier, Verifier
from helpers import HashEncoder

CASINOS = "I avoid hotels with casinos."
WINE = "I love red wine."
HOTEL = "The Golden Ace is a hotel with casinos on every floor."
BOTTLE = "A red wine of the valley, dark and dry."
NLI = ["contradiction", "entailment", "neutral"]


class Scores:
    """A model whose score of a pair is what a function says; remembers the pairs and the size of each call."""

    def __init__(self, score: Callable[[str, str], Any]) -> None:
        self.score = score
        self.pairs: list[tuple[str, str]] = []
        self.calls: list[int] = []
        self.threads: set[int] = set()

    def predict(self, pairs: Sequence[tuple[str, str]]) -> Any:
        self.pairs += pairs
        self.calls.append(len(pairs))
        self.threads.add(threading.get_ident())
        return [self.score(*pair) for pair in pairs]


class Named(Scores):
    name = "named"
    fingerprint = "v1"


class Identity:
    """Called as torch's, which says that a model gives logits."""


def shared(preference: str, text: str) -> float:
    """The share of a preference's words that a text has."""
    wanted = set(preference.lower().strip(".").split())
    return len(wanted & set(text.lower().replace(",", " ").strip(".").split())) / len(wanted)


def constant(score: Any) -> Scores:
    return Scores(lambda *_: score)


def verifier(model: Any, **options: Any) -> CrossEncoderVerifier:
    return CrossEncoderVerifier(model, **{"encoder": HashEncoder(), **options})


def candidate(text: str, *preferences: str | Preference) -> Candidate:
    """As the coarse filter of a memory with another encoder gives it."""
    made = [Preference.of(each) for each in preferences]
    vectors = embed(HashEncoder(64), [text, *(each.text for each in made)])
    return Candidate(
        item=Item(text=text),
        embedding=vectors[0],
        preferences=tuple(made),
        similarities=tuple(float(value) for value in vectors[1:] @ vectors[0]),
        preference_embeddings=vectors[1:],
    )


def judged(model: Any, text: str = BOTTLE, *preferences: str, **options: Any) -> Verdict:
    (verdict,) = verifier(model, **options).verify([candidate(text, *(preferences or (WINE,)))])
    return verdict


class TestOneScore:
    def test_the_preference_is_read_before_the_chunk_and_a_probability_is_the_confidence(self) -> None:
        model = constant(0.75)
        verdict = judged(model, BOTTLE, WINE, CASINOS)
        assert model.pairs == [(WINE, BOTTLE), (CASINOS, BOTTLE)]
        assert verdict.decision is Decision.KEEP and verdict.confidence == 0.75
        assert [alignment.confidence for alignment in verdict.alignments] == [0.75, 0.75]
        assert [one.preference_id for one in verdict.alignments] == [Preference.of(one).id for one in (WINE, CASINOS)]

    def test_stance_and_instruction_are_the_embedded_verifiers(self) -> None:
        (alignment,) = judged(constant(0.9)).alignments
        assert alignment.stance is Stance.SUPPORTS and BOTTLE in alignment.instruction
        (alignment,) = judged(constant(0.9), HOTEL, CASINOS).alignments
        assert alignment.stance is Stance.CONFLICTS and HOTEL in alignment.instruction
        assert "0.90" in alignment.rationale and "cosine" in alignment.rationale

    def test_each_pair_is_judged_by_itself_and_the_best_comes_first(self) -> None:
        marks = {WINE: 0.6, CASINOS: 0.8, "I like tea.": 0.2}
        model = Scores(lambda preference, _: marks[preference])
        verdict = judged(model, HOTEL, *marks)
        assert [alignment.confidence for alignment in verdict.alignments] == [0.8, 0.6]
        assert verdict.confidence == 0.8
        # A Discard is as sure as the best score is low.
        verdict = judged(model, HOTEL, *marks, threshold=0.9)
        assert verdict.decision is Decision.DISCARD and not verdict.alignments
        assert verdict.confidence == pytest.approx(0.2) and "0.80" in verdict.rationale

    @pytest.mark.parametrize(
        ("score", "threshold", "decision"),
        [
            (0.5, 0.5, Decision.KEEP),
            (np.nextafter(0.5, 0.0), 0.5, Decision.DISCARD),
            (0.0, 0.0, Decision.KEEP),
            (1.0, 1.0, Decision.KEEP),
            (1.0 + 1e-7, 1.0, Decision.KEEP),
            (np.float32(0.999), 1.0, Decision.DISCARD),
        ],
    )
    def test_from_the_threshold_on_a_pair_is_kept(self, score: float, threshold: float, decision: Decision) -> None:
        verdict = judged(constant(score), threshold=threshold)
        assert verdict.decision is decision
        assert verdict.confidence is not None and 0.0 <= verdict.confidence <= 1.0

    @pytest.mark.parametrize("shape", [lambda n: np.full(n, 0.8, np.float32), lambda n: np.full((n, 1), 0.8)])
    def test_scores_may_be_arrays(self, shape: Callable[[int], Any]) -> None:
        model = constant(0.0)
        model.predict = lambda pairs: shape(len(pairs))  # type: ignore[method-assign]
        assert judged(model, BOTTLE, WINE, CASINOS).confidence == pytest.approx(0.8)

    def test_logits_go_through_a_sigmoid(self) -> None:
        for logit, confidence in ((0.0, 0.5), (2.0, 0.8808), (1e4, 1.0), (-1e4, 0.0)):
            verdict = judged(constant(logit), logits=True, threshold=0.0)
            assert verdict.confidence == pytest.approx(confidence, abs=1e-4)
        model = constant(2.0)
        model.activation_fn = Identity()  # type: ignore[attr-defined]
        assert judged(model).confidence == pytest.approx(0.8808, abs=1e-4)
        assert judged(model, logits=False).decision is Decision.UNDECIDED

    def test_it_takes_the_options_that_the_model_has(self) -> None:
        seen: list[Any] = []

        class Model:
            def predict(self, pairs: Any, batch_size: int = 1, show_progress_bar: bool = True) -> Any:
                seen.append((batch_size, show_progress_bar))
                return [0.7] * len(pairs)

        judged(Model(), batch=5)
        assert seen == [(5, False)]


class TestLongChunks:
    LONG = f"Engines are loud. {' '.join(['The train left at noon.'] * 60)} Red wine is served. It arrived."

    def test_the_best_piece_counts(self) -> None:
        model = Scores(lambda _, text: 0.9 if "wine" in text else 0.1)
        assert judged(model, self.LONG, max_words=100).confidence == 0.9
        texts = [text for _, text in model.pairs]
        assert len(texts) == 4 and " ".join(texts) == self.LONG
        assert all(len(text.split()) <= 100 for text in texts)

    def test_pieces_fit_into_the_model(self) -> None:
        model = constant(0.9)
        judged(model, self.LONG)
        assert len(model.pairs) == 2
        small = constant(0.9)
        small.max_seq_length = 64  # type: ignore[attr-defined]
        judged(small, self.LONG)
        assert max(len(text.split()) for _, text in small.pairs) <= 32

    def test_what_fits_is_read_as_it_stands(self) -> None:
        model = constant(0.9)
        judged(model, "Two  spaces.\n\nA  line.")
        assert model.pairs == [(WINE, "Two  spaces.\n\nA  line.")]


class TestInference:
    @staticmethod
    def model(rules: dict[tuple[str, str], str]) -> Scores:
        """What holds between a word of the premise and a word of the hypothesis; else neutral."""

        def score(premise: str, hypothesis: str) -> list[float]:
            for (one, other), label in rules.items():
                if one in premise and other in hypothesis:
                    return [0.9 if each == label else 0.05 for each in NLI]
            return [0.05, 0.05, 0.9]

        return Scores(score)

    def test_the_chunk_is_the_premise_and_aspects_make_hypotheses(self) -> None:
        model = self.model({})
        verdict = judged(model, HOTEL, "I prefer trains over flights.", labels=NLI)
        assert model.pairs == [(HOTEL, "This involves trains."), (HOTEL, "This involves flights.")]
        assert verdict.decision is Decision.DISCARD and verdict.confidence == pytest.approx(0.95)

    @pytest.mark.parametrize(
        ("text", "preference", "label", "stance"),
        [
            (BOTTLE, WINE, "entailment", Stance.SUPPORTS),
            (BOTTLE, WINE, "contradiction", Stance.CONFLICTS),
            (HOTEL, CASINOS, "entailment", Stance.CONFLICTS),
            (HOTEL, CASINOS, "contradiction", Stance.SUPPORTS),
        ],
    )
    def test_stance_is_what_is_entailed_or_contradicted(
        self, text: str, preference: str, label: str, stance: Stance
    ) -> None:
        verifying = verifier(self.model({("", ""): label}), labels=NLI)
        (verdict,) = verifying.verify([candidate(text, preference)])
        (alignment,) = verdict.alignments
        assert alignment.stance is stance
        assert alignment.instruction.startswith("Suits the user" if stance is Stance.SUPPORTS else "Steer clear")
        assert text in alignment.instruction and "This involves" in alignment.rationale

    def test_both_sides_make_it_mixed(self) -> None:
        model = self.model({("", "trains"): "entailment", ("", "flights"): "entailment"})
        (alignment,) = judged(model, "Trains and flights.", "I prefer trains over flights.", labels=NLI).alignments
        assert alignment.stance is Stance.MIXED and alignment.instruction

    def test_contradicting_is_not_enough_where_the_text_is_about_something_else(self) -> None:
        model = self.model({("", ""): "contradiction"})
        verdict = judged(model, "The steam engine was improved by James Watt.", CASINOS, labels=NLI)
        assert verdict.decision is Decision.DISCARD

    @pytest.mark.parametrize(
        ("rules", "text", "preference", "pairs"),
        [
            (
                {("wine", "wine"): "entailment", ("wine", "jazz"): "contradiction"},
                BOTTLE,
                "I love red wine and jazz.",
                2,
            ),
            ({("wine", ""): "entailment", ("train", ""): "contradiction"}, TestLongChunks.LONG, WINE, 4),
        ],
        ids=["another phrase", "another piece"],
    )
    def test_saying_one_thing_denies_no_other(
        self, rules: dict[tuple[str, str], str], text: str, preference: str, pairs: int
    ) -> None:
        model = self.model(rules)
        (alignment,) = judged(model, text, preference, labels=NLI, max_words=100).alignments
        assert len(model.pairs) == pairs
        assert alignment.stance is Stance.SUPPORTS and alignment.confidence == pytest.approx(0.9)

    def test_scores_of_labels_are_probabilities_or_go_through_a_softmax(self) -> None:
        verdict = judged(constant([0.0, 3.0, 0.0]), labels=NLI, logits=True)
        assert verdict.confidence == pytest.approx(np.exp(3.0) / (np.exp(3.0) + 2.0))
        # Contradiction may be missing.
        verdict = judged(constant([0.8, 0.2]), labels=["entailment", "not_entailment"])
        assert verdict.confidence == pytest.approx(0.8)

    def test_labels_are_read_from_the_config(self) -> None:
        model = constant([0.9, 0.05, 0.05])

        named = {"2": "Neutral", 0: "ENTAILMENT", 1: "Contradiction"}
        model.config = SimpleNamespace(id2label=named)  # type: ignore[attr-defined]
        assert verifier(model).model.labels == ("entailment", "contradiction", "neutral")
        assert judged(model).confidence == pytest.approx(0.9)

    @pytest.mark.parametrize("labels", [["LABEL_0", "LABEL_1", "LABEL_2"], ["bad", "good"], ["entailment"] * 2])
    def test_labels_that_say_nothing_are_refused(self, labels: list[str]) -> None:
        with pytest.raises(InvalidInputError, match="labels="):
            verifier(constant([0.1] * len(labels)), labels=labels)


def raising(error: BaseException) -> Callable[..., Any]:
    def score(*_: str) -> Any:
        raise error

    return score


FAILING: dict[str, Callable[[str, str], Any]] = {
    "nan": lambda *_: float("nan"),
    "infinity": lambda *_: float("inf"),
    "no number": lambda *_: "high",
    "none": lambda *_: None,
    "no probability": lambda *_: 7.0,
    "negative": lambda *_: -0.1,
    "several": lambda *_: [0.1, 0.9],
    "raises": raising(RuntimeError("CUDA out of memory")),
    "stops": raising(StopIteration()),
}


class TestFailures:
    @pytest.mark.parametrize("fails", FAILING.values(), ids=FAILING)
    async def test_what_fails_is_undecided_and_takes_nothing_else_with_it(self, fails: Callable[..., Any]) -> None:
        model = Scores(lambda preference, text: fails(preference, text) if "bad" in text else 0.9)
        candidates = [candidate(f"{'bad' if n % 3 == 1 else 'good'} wine {n}", WINE, CASINOS) for n in range(9)]
        verdicts = list(verifier(model, batch=8).verify(candidates))
        expected = [Decision.UNDECIDED if n % 3 == 1 else Decision.KEEP for n in range(9)]
        assert [verdict.decision for verdict in verdicts] == expected
        assert all("Scores failed" in verdict.rationale for verdict in verdicts[1::3])
        assert verdicts == [verdict async for verdict in verifier(model, batch=8).averify(candidates)]

    def test_one_failed_score_is_no_silent_discard(self) -> None:
        model = Scores(lambda preference, _: 0.9 if preference == WINE else float("nan"))
        assert judged(model, BOTTLE, WINE, CASINOS).decision is Decision.UNDECIDED
        for logits in (False, True):
            verdict = judged(constant([0.9, 0.1, float("nan")]), labels=NLI, logits=logits)
            assert verdict.decision is Decision.UNDECIDED

    @pytest.mark.parametrize("give", [lambda n: [0.5] * (n - 1), lambda n: [], lambda n: [[0.5] * n], lambda _: 0.5])
    def test_another_number_of_scores_is_a_failure(self, give: Callable[[int], Any]) -> None:
        model = constant(0.0)
        model.predict = lambda pairs: give(len(pairs))  # type: ignore[method-assign]
        assert judged(model, BOTTLE, WINE, CASINOS).decision is Decision.UNDECIDED

    def test_logits_that_nobody_announced_are_told(self) -> None:
        assert "logits=True" in judged(constant(4.2)).rationale
        assert "labels=" in judged(constant([0.1, 0.2, 0.7])).rationale

    def test_an_interruption_goes_on_its_way(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            judged(Scores(raising(KeyboardInterrupt())))

    def test_in_a_memory_it_waits_and_is_verified_again(self) -> None:
        encoder = HashEncoder()
        broken = [True]
        model = Named(lambda *pair: float("nan") if broken[0] else shared(*pair))
        memory = EpicMemory([WINE], encoder=encoder, settings=Settings(verifier=verifier(model), tau=-1.0))
        report = memory.add(["I love red wine from the valley.", "Steam engines."])
        assert report.undecided == 2 and not report.discarded
        assert all("named failed" in reason for reason in report.failures.values())
        broken[0] = False
        report = memory.retry()
        assert (report.kept, report.discarded) == (1, 1)

    @pytest.mark.parametrize(
        "options",
        [{"threshold": 1.1}, {"threshold": float("nan")}, {"batch": 0}, {"max_words": 0}, {"hypothesis": "It is so."}],
        ids=str,
    )
    def test_arguments_that_cannot_be_used_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            verifier(constant(0.5), **options)

    @pytest.mark.parametrize("model", [None, object(), 3, Scores], ids=["none", "object", "number", "class"])
    def test_what_is_no_model_is_refused(self, model: Any) -> None:
        with pytest.raises(InvalidInputError, match=r"predict\(pairs\)"):
            verifier(model)

    def test_a_missing_package_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'epic-memory\[sentence-transformers\]'"):
            CrossEncoderVerifier("cross-encoder/ms-marco-MiniLM-L6-v2")


class TestStream:
    def test_verdicts_come_in_order_and_block_by_block(self) -> None:
        model = Scores(shared)
        candidates = [candidate(f"I love red wine {n}" if n % 2 else f"steam {n}", WINE, CASINOS) for n in range(20)]
        verdicts = verifier(model, batch=6).verify(candidates)
        first = next(verdicts)
        assert first.decision is Decision.DISCARD and model.calls == [6]
        decisions = [first.decision, *(verdict.decision for verdict in verdicts)]
        assert decisions == [Decision.DISCARD, Decision.KEEP] * 10
        assert len(model.pairs) == 40 and max(model.calls) == 6

    def test_no_call_is_larger_than_a_batch(self) -> None:
        model = constant(0.5)
        judged(model, BOTTLE, *(f"I like tea number {n}." for n in range(10)), batch=4)
        assert model.calls == [4, 4, 2]

    async def test_async_equals_sync_and_works_in_another_thread(self) -> None:
        candidates = [candidate(f"I love red wine {n}" if n % 2 else f"steam {n}", WINE, CASINOS) for n in range(20)]
        for asked in (candidates, []):
            model = Scores(shared)
            found = [verdict async for verdict in verifier(model, batch=6).averify(asked)]
            assert bool(model.threads) == bool(asked) and threading.get_ident() not in model.threads
            assert found == list(verifier(Scores(shared), batch=6).verify(asked))


class TestNames:
    def test_the_name_says_model_weights_and_settings(self) -> None:
        other = Named(shared)
        other.fingerprint = "v2"
        names = [
            verifier(Named(shared)).name,
            verifier(Named(shared), threshold=0.6).name,
            verifier(Named(shared), logits=True).name,
            verifier(Named(shared), max_words=50).name,
            verifier(Named(shared), encoder=HashEncoder(fingerprint="v2")).name,
            verifier(Named(shared), name="called").name,
            verifier(Named(shared), labels=NLI).name,
            verifier(Named(shared), labels=NLI, hypothesis="It has {aspect}.").name,
            verifier(other).name,
        ]
        assert isinstance(verifier(constant(0.5)), Verifier)
        assert len(set(names)) == len(names) and names[0].startswith("cross-encoder:named:")
        assert verifier(Named(shared)).name == names[0]

    def test_only_what_can_be_told_apart_is_remembered(self) -> None:
        assert not verifier(Scores(shared)).cached
        # Aspects, which can change, decide with an inference.
        assert not verifier(Named(lambda *_: [0.1, 0.1, 0.8]), labels=NLI).cached
        assert verifier(Scores(shared), name="mine").cached and verifier(Named(shared)).cached

    def test_a_memory_asks_about_a_pair_once(self) -> None:
        model = Named(shared)
        memory = EpicMemory([WINE], encoder=HashEncoder(), settings=Settings(verifier=verifier(model), tau=-1.0))
        memory.add(["Steam engines.", "I love red wine."])
        memory.preferences.add(CASINOS)
        memory.add(["Steam engines."])
        assert len(model.pairs) == len(set(model.pairs))

    def test_without_an_encoder_the_embedded_one_words_it(self) -> None:
        (verdict,) = CrossEncoderVerifier(constant(0.9)).verify([candidate(HOTEL, CASINOS)])
        assert verdict.alignments[0].stance is Stance.CONFLICTS


def installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


def tiny(folder: Path, labels: list[str]) -> str:
    """A cross-encoder of random weights, made on the spot; all of its words are letters."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), "."]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        id2label=dict(enumerate(labels)),
        label2id={label: place for place, label in enumerate(labels)},
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.torch
@pytest.mark.skipif(not installed("torch", "sentence_transformers"), reason="needs torch and sentence-transformers")
class TestSentenceTransformers:
    @pytest.fixture(autouse=True)
    def offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    async def test_a_folder_scores_pairs(self, tmp_path: Path) -> None:
        folder = tiny(tmp_path, ["LABEL_0"])
        verifying = CrossEncoderVerifier(folder, encoder=HashEncoder(), threshold=0.0, device="cpu")
        candidates = [candidate(f"red wine {'and cheese ' * n}", WINE, CASINOS) for n in range(1, 30)]
        verdicts = list(verifying.verify(candidates))
        assert all(verdict.decision is Decision.KEEP and len(verdict.alignments) == 2 for verdict in verdicts)
        assert verifying.cached and verifying.model.words == 32 and not verifying.model.logits
        found = [verdict async for verdict in verifying.averify(candidates)]
        assert found == verdicts

        from sentence_transformers import CrossEncoder

        same = CrossEncoderVerifier(CrossEncoder(folder, device="cpu"), encoder=HashEncoder(), threshold=0.0)
        assert same.model.identity == verifying.model.identity
        expected = CrossEncoder(folder, device="cpu").predict([(WINE, candidates[0].item.text)])
        confidence = {a.preference_id: a.confidence for a in verdicts[0].alignments}[Preference.of(WINE).id]
        assert confidence == pytest.approx(float(expected[0]), abs=1e-5)

    def test_a_folder_infers(self, tmp_path: Path) -> None:
        verifying = CrossEncoderVerifier(tiny(tmp_path, NLI), encoder=HashEncoder(), threshold=0.0, device="cpu")
        assert verifying.model.labels == tuple(NLI) and verifying.model.logits
        (verdict,) = verifying.verify([candidate(BOTTLE, WINE)])
        assert verdict.decision is Decision.KEEP and "This involves" in verdict.rationale

    def test_a_folder_without_a_model_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(EncoderError, match="Cannot load"):
            CrossEncoderVerifier(str(tmp_path), device="cpu")

    def test_a_model_that_was_not_made_for_pairs_is_an_error(self, tmp_path: Path) -> None:
        from transformers import BertModel

        BertModel.from_pretrained(tiny(tmp_path, ["LABEL_0"])).save_pretrained(tmp_path)
        with pytest.raises(EncoderError, match="no cross-encoder"):
            CrossEncoderVerifier(str(tmp_path), device="cpu")
