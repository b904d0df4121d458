"""The texts the static encoder is fitted on, deterministic.

Three sources, none of them labelled: Wikipedia passages and SemEval sentences from the data folder (not
MSRpar's, whose terms do not allow it), and the lines in `texts/`, written for this project.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Sequence
from pathlib import Path

LINES = Path(__file__).parent / "texts"
EXCLUDED_STS = "2012.MSRpar"

# The shapes in which people say what they want, filled with two of our noun phrases.
FRAMES = (
    "I avoid {a}.", "I dislike {a}.", "I have a strong aversion to {a}.", "I love {a}.",
    "I prefer {a} over {b}.", "I prefer {a} to {b}.", "I have no interest in {a}.", "I can't stand {a}.",
    "I only want {a}.", "I refuse anything to do with {a}.", "I'm allergic to {a}.", "I am not a fan of {a}.",
    "I really enjoy {a}.", "I would choose {a} rather than {b}.", "I never use {a} because it reminds me of {b}.",
    "I strictly avoid {a} and {b}.", "Give me {a} instead of {b}.", "I find {a} boring.",
    "I favor explanations based on {a} over {b}.", "{a} makes me uncomfortable.",
    "I'm a big fan of {a}, but not of {b}.", "I always look for {a}.", "What is the best {a}?",
    "Can you recommend {a}?", "How does {a} work?", "Tell me about {a}.", "{a} and {b}", "{a} with {b}",
    "{a} is better than {b}.", "Where can I find {a} near me?", "Try {a}, known for {b}.", "Avoid {a} with {b}.",
)  # fmt: skip


def read_lines(kind: str) -> list[str]:
    """Our own lines of a kind: preferences, questions, passages or terms."""
    files = sorted(LINES.glob(f"*_{kind}.txt"))
    return [line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_passages(data: Path) -> list[tuple[str, str]]:
    """(title, text) of the Wikipedia passages."""
    with (data / "wiki_passages.jsonl").open(encoding="utf-8") as lines:
        return [(record["title"], record["text"]) for record in map(json.loads, lines)]


def read_sts(data: Path) -> list[tuple[str, float, str, str]]:
    """(set, human score 0-5, sentence, sentence) of SemEval STS 2012-2015."""
    rows = (data / "semeval_sts_2012_2015.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [(name, float(score), a, b) for name, score, a, b in (row.split("\t") for row in rows)]


def fitting_groups(
    data: Path, words: Sequence[str], *, without_year: str = "", without_passages: Collection[int] = ()
) -> list[list[str]]:
    """Every text to fit on, each once, in groups of related texts.

    A group is a passage with its sentences and pieces, a pair of STS sentences, or a line of ours with its
    pieces: texts that differ little teach what a single word does.

    Args:
        data: The data folder.
        words: Words of the vocabulary, to put in place of others.
        without_year: Leave out the sentences of this STS year, for measuring on it.
        without_passages: Leave out these passages, by position, for measuring on them.
    """
    banned = {
        sentence
        for name, _, *pair in read_sts(data)
        if name == EXCLUDED_STS or (without_year and name.startswith(without_year))
        for sentence in pair
    }
    left_out = set(without_passages)
    choose = random.Random(1)
    groups = []
    passages = read_passages(data)
    for row, (title, text) in enumerate(passages):
        group = [f"{title}. {text}", *_sentences(text), *_spans(text, choose, 4, 24), *_altered(text, choose, words, 3)]
        mixed = []
        for other in ((row + 2) % len(passages), (row + 10) % len(passages)):
            mixture = _mixed(title, text, passages[other][1], choose)
            if other not in left_out:
                mixed.append(mixture)
        if row not in left_out:
            groups.append([*group, *mixed])
    groups += [list(pair) for _, _, *pair in read_sts(data)]
    groups += _our_groups(words)
    seen = set(banned)
    unique = []
    for texts in groups:
        new = [text for text in dict.fromkeys(texts) if text not in seen]
        seen.update(new)
        if new:
            unique.append(new)
    return unique


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if len(sentence.split()) >= 4]


def _mixed(title: str, one: str, other: str, choose: random.Random) -> str:
    """A passage of two passages' sentences: long texts in which the sentences are all that holds together."""
    sentences = [*_sentences(one), *_sentences(other)]
    choose.shuffle(sentences)
    return " ".join([f"{title}.", *sentences[:4]])


def _our_groups(words: Sequence[str]) -> list[list[str]]:
    choose = random.Random(2)
    terms = read_lines("terms")
    lines = [line for kind in ("preferences", "questions", "passages") for line in read_lines(kind)]
    groups = [[line, *_spans(line, choose, 1, 9), *_altered(line, choose, words, 4)] for line in lines]
    groups += [[term] for term in terms]
    groups += [[choose.choice(FRAMES).format(a=choose.choice(terms), b=choose.choice(terms))] for _ in range(14000)]
    groups += [[f"{choose.choice(lines)} {choose.choice(lines + terms)}"] for _ in range(5000)]
    groups += [[" ".join(choose.sample(list(words), choose.randint(2, 5)))] for _ in range(8000)]
    return groups


def _spans(text: str, choose: random.Random, count: int, longest: int) -> list[str]:
    """Runs of words cut out of a text: short pieces in which single words weigh more."""
    words = text.split()
    spans = []
    for _ in range(count):
        length = choose.randint(2, longest)
        if len(words) > length:
            start = choose.randint(0, len(words) - length)
            spans.append(" ".join(words[start : start + length]))
    return spans


def _altered(text: str, choose: random.Random, vocabulary: Sequence[str], count: int) -> list[str]:
    """Pieces of a text with some words replaced by any others: every word of the vocabulary in some context."""
    altered = []
    for _ in range(count):
        words = text.split()
        if len(words) > 16:
            start = choose.randint(0, len(words) - 12)
            words = words[start : start + 12]
        share = choose.choice((0.15, 0.3, 0.5))
        for position in choose.sample(range(len(words)), max(1, round(len(words) * share))):
            words[position] = choose.choice(vocabulary)
        altered.append(" ".join(words))
    return altered
