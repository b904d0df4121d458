"""Long runs of one character: everything that reads a text takes time in proportion to its length."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from epic_apps.cli.sources import Sources
from epic_graph import PhraseExtractor
from epic_learn.forms import fill
from epic_memory import EpicMemory, QuerySteering, SearchOptions, Settings
from epic_memory.context import documents_of_context, format_context, without_tags
from epic_memory.encoders import default_encoder
from epic_memory.lm import answers, prompting
from epic_memory.preferences.parser import parse_aspects
from epic_memory.runtime.batching import batches
from epic_memory.text import chunking, language, stems
from epic_memory.text.lexicon import default_lexicon
from epic_memory.types import Hit, Item

RUNS = {
    "carriage return": "\r",
    "next line": "\x85",
    "line separator": "\u2028",
    "full-width <": "\uff1c",
    "filler": "\u115f",
    "accent": "\u0301",
    "emoji": "\U0001f600",
    "control": "\x01",
    "space": " ",
    "newline": "\n",
    "letter": "a",
    "digit": "1",
    "full stop": ".",
    "comma": ",",
    "quote": '"',
    "backslash": "\\",
    "brace": "{",
    "<": "<",
    "backtick": "`",
    "initials": "A.",
    "words": "not and ",
    "heading": "Document ",
    "mixed": " \r\u2028\uff1c\u115f",
}


def remembered(text: str) -> str:
    """Keep a text, search for it, and write the context of the answer."""
    with EpicMemory(["I like wine."], settings=Settings(coarse=False, fine=False)) as memory:
        memory.add([f"wine {text} wine"])
        memory.search(text.strip() or "wine")
        return memory.context("wine", options=SearchOptions(min_score=None))


def judged(text: str) -> object:
    """Have the embedded verifier judge a text, and score it."""
    with EpicMemory(["I avoid hotels with casinos."], settings=Settings(tau=-1.0)) as memory:
        verdicts = memory.judge([f"hotel {text} casino"])
    scores = QuerySteering(default_encoder(), ["I avoid hotels with casinos."]).score("Which?", [f"hotel {text}", "a"])
    return verdicts, scores


def filled(text: str) -> object:
    """Fill a form from a memory that holds the text."""
    with EpicMemory(["I like wine."], settings=Settings(coarse=False, fine=False)) as memory:
        memory.add([f"My wine {text} has the number {text} and comes from {text}"])
        questions = ("What is the email of my wine?", "What is the phone number of my wine?", "Where is my wine from?")
        fields = [{"name": str(number), "question": question} for number, question in enumerate(questions)]
        return fill(memory, {"fields": [*fields, {"name": "n", "question": questions[1], "type": "number"}]})


READERS: dict[str, Callable[[str], object]] = {
    "format_context": lambda text: format_context([Hit(item=Item(text=f"x{text}y", id="a"), score=0.5, entries=())]),
    "without_tags": lambda text: without_tags(f"x{text}y", "chunk"),
    "documents_of_context": documents_of_context,
    "words_of": stems.words_of,
    "sentences": chunking.sentences,
    "language_of": language.language_of,
    "parse_aspects": lambda text: parse_aspects(f"I like {text} wine."),
    "concepts": lambda text: default_lexicon().concepts(text),
    "section": prompting.section,
    "one_line": prompting.one_line,
    "json_pieces": answers.json_pieces,
    "PhraseExtractor": lambda text: PhraseExtractor().extract(text),
    "EpicMemory": remembered,
    "judge and score": judged,
    "fill": filled,
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("reader", READERS)
def test_a_run_of_one_character_takes_linear_time(reader: str, run: str) -> None:
    # Of four times the length: four times the time if it is linear, sixteen times if it is quadratic. The processor's
    # time, so that other work on the machine does not count; what is over in a moment says nothing. Once more if it
    # took long: the collection of garbage that other tests left counts, too.
    taken = 0.5
    for length in (6_000, 25_000, 100_000):
        text, most = run * (length // len(run)), 8 * taken + 0.5
        taken = seconds(reader, text)
        if taken > most:
            taken = seconds(reader, text)
        assert taken <= most


def seconds(reader: str, text: str) -> float:
    started = time.process_time()
    READERS[reader](text)
    return time.process_time() - started


def test_a_list_of_texts_becomes_items_batch_by_batch() -> None:
    texts = [f"item {number}" for number in range(12_000)]
    tracemalloc.start()
    try:
        assert sum(len(batch) for batch in batches(texts)) == len(texts)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", [". ", " "])
def test_a_large_document_is_cut_as_it_is_read(tmp_path: Path, end: str) -> None:
    path = tmp_path / "large.txt"
    path.write_text(f"Some words of a sentence that goes on{end}" * 20_000)
    size = path.stat().st_size
    tracemalloc.start()
    try:
        count = sum(len(item.text) > 0 for item in Sources([path]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The file's bytes and its text, the numbers and ids of the items; not the items.
    assert count > 1_300 and peak < 3.5 * size
