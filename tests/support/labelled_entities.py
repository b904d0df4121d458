"""Short passages and queries with the entities that a reader would name, labelled by hand, in several languages.

They stand in `labelled_entities.txt`, English first. Each line: the text, then `=>` and what has to be found, then,
after `??`, what may be found as well, and after `!!` what must not be. What is found is right if it is wanted or
allowed, or stands within what is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from epic_graph.extraction import Extraction, Extractor, entity_key


class Labelled(NamedTuple):
    """A labelled text."""

    text: str
    wanted: tuple[str, ...]
    allowed: tuple[str, ...]
    unwanted: tuple[str, ...]


@dataclass
class Measured:
    """What was found and wanted, and how much of each is right."""

    found: int = 0
    right: int = 0
    wanted: int = 0
    wanted_found: int = 0
    unwanted: list[str] = field(default_factory=list)
    wrong: list[tuple[str, list[str], list[str]]] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """The share of what was found that is right."""
        return self.right / max(1, self.found)

    @property
    def recall(self) -> float:
        """The share of what was wanted that was found."""
        return self.wanted_found / max(1, self.wanted)


def measure(extractor: Extractor, records: list[Labelled]) -> Measured:
    """How well an extractor finds what was labelled."""
    measured = Measured()
    for place, extraction in extractor.stream([record.text for record in records]):
        record = records[place]
        assert isinstance(extraction, Extraction), extraction
        keys = [entity_key(name) for name in extraction.entities]
        wanted = {entity_key(name) for name in record.wanted}
        phrases = [f" {key} " for key in wanted | {entity_key(name) for name in record.allowed}]
        spaced = record.text.isascii() or " " in record.text.strip()
        noise = [key for key in keys if not any((f" {key} " if spaced else key) in phrase for phrase in phrases)]
        missed = sorted(wanted.difference(keys))
        measured.unwanted += [name for name in record.unwanted if entity_key(name) in keys]
        measured.found += len(keys)
        measured.right += len(keys) - len(noise)
        measured.wanted += len(wanted)
        measured.wanted_found += len(wanted) - len(missed)
        if noise or missed:
            measured.wrong.append((record.text, noise, missed))
    return measured


def _read(lines: str) -> list[Labelled]:
    records = []
    for line in lines.splitlines():
        text, labels = line.split(" => ")
        labels, _, unwanted = labels.partition(" !! ")
        wanted, _, allowed = labels.partition(" ?? ")
        names = [
            tuple(name.strip() for name in part.split(";") if name.strip()) for part in (wanted, allowed, unwanted)
        ]
        records.append(Labelled(text, *names))
    return records


ENGLISH, OTHERS = map(_read, Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").strip().split("\n\n"))
