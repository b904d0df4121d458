"""The texts the static encoder is fitted on, deterministic.

Three sources, none of them labelled: Wikipedia passages and SemEval sentences from the data folder (not
MSRpar's, whose terms do not allow it), and the lines in `texts/`, written for this project.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection
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


def fitting_texts(data: Path, *, without_year: str = "", without_passages: Collection[int] = ()) -> list[str]:
    """Every text to fit on, each once.

    Args:
        data: The data folder.
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
    passages = [passage for row, passage in enumerate(read_passages(data)) if row not in left_out]
    texts = [
        *(f"{title}. {text}" for title, text in passages),
        *(sentence for _, text in passages for sentence in _sentences(text)),
        *(sentence for _, _, *pair in read_sts(data) for sentence in pair),
        *_our_texts(),
        *_spans([text for _, text in passages], random.Random(1), per_text=9, longest=24),
    ]
    return [text for text in dict.fromkeys(texts) if text not in banned]


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if len(sentence.split()) >= 4]


def _our_texts() -> list[str]:
    terms = read_lines("terms")
    lines = [line for kind in ("preferences", "questions", "passages") for line in read_lines(kind)]
    choose = random.Random(2)
    framed = [choose.choice(FRAMES).format(a=choose.choice(terms), b=choose.choice(terms)) for _ in range(28000)]
    pairs = [f"{choose.choice(lines)} {choose.choice(lines + terms)}" for _ in range(5000)]
    return [*terms, *lines, *framed, *pairs, *_spans(lines, choose, per_text=1, longest=9)]


def _spans(texts: list[str], choose: random.Random, *, per_text: int, longest: int) -> list[str]:
    """Runs of words cut out of texts: short pieces in which single words weigh more."""
    spans = []
    for text in texts:
        words = text.split()
        for _ in range(per_text):
            length = choose.randint(2, longest)
            if len(words) > length:
                start = choose.randint(0, len(words) - length)
                spans.append(" ".join(words[start : start + length]))
    return spans
