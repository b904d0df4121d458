"""How well the phrase extractor finds the entities that we labelled, and how fast it reads passages.

The labels are those of `tests/support/labelled_entities.txt`, short texts in many languages. The word lists were chosen
with them in view: they tell what it can do rather than how it fares elsewhere. Throughput, by processor time, is over
the sample corpus, and over every `*.jsonl` of the data folder, given as an argument or in EPIC_DATA, whose records have
a text.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from importlib.resources import files
from pathlib import Path

from common import read_jsonl

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from epic_graph.extraction import Extraction, PhraseExtractor
from labelled_entities import ENGLISH, OTHERS, measure


def read(name: str, texts: list[str]) -> None:
    """Print how fast some texts are read, and how much is found in them."""
    extractor = PhraseExtractor()
    started = time.process_time()
    found = [one for _, one in extractor.stream(texts) if isinstance(one, Extraction)]
    seconds = time.process_time() - started
    words = statistics.mean(len(text.split()) for text in texts)
    entities = sorted(len(one.entities) for one in found)
    print(
        f"{name:24} {len(texts):7} {words:6.1f} {statistics.mean(entities):9.1f} {entities[len(entities) // 20]:5}"
        f" {entities[-1 - len(entities) // 20]:5} {statistics.mean(len(one.facts) for one in found):7.1f}"
        f" {len(texts) / seconds:12.0f}"
    )


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("data", nargs="?", default=os.environ.get("EPIC_DATA"), help="a data folder, or EPIC_DATA")
    made.add_argument("--wrong", action="store_true", help="show the texts that are not read as labelled")
    options = made.parse_args()
    print("labelled                   texts  found  precision  recall")
    for name, records in (("English", ENGLISH), ("other languages", OTHERS)):
        measured = measure(PhraseExtractor(), records)
        print(
            f"{name:24} {len(records):7} {measured.found:6} {measured.precision:10.3f} {measured.recall:7.3f}"
            f"   unwanted: {len(measured.unwanted)}"
        )
        for text, noise, missed in measured.wrong if options.wrong else ():
            print(f"    {text}\n        noise {noise}, missed {missed}")
    print("\npassages                  number  words  entities    5%   95%   facts passages/s")
    read(
        "sample corpus",
        [record["text"] for record in read_jsonl(Path(str(files("epic_memory") / "data/corpus.jsonl")))],
    )
    for path in sorted(Path(options.data).glob("*.jsonl")) if options.data else ():
        texts = [record["text"] for record in read_jsonl(path) if isinstance(record.get("text"), str)]
        if texts:
            read(path.stem, texts)


if __name__ == "__main__":
    main()
