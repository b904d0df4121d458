"""Corpora of the papers, from files that the user has: articles of Wikipedia, documents of ELI5, chats of LMSYS."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from epic_eval.journal import Record, iter_lines
from epic_learn.windows import ConversationChunker
from epic_memory.errors import InvalidInputError

SIZES = {"wikipedia": 10_000, "eli5": 2_000, "lmsys": 10_000}
"""Kinds of corpora, with how many articles, documents or windows the papers draw."""


def make_corpus(kind: str, sources: Sequence[str | Path], to: Path, *, count: int | None = None, seed: int = 0) -> int:
    """Write a corpus in the form of `*passages.jsonl`, and return its number of lines.

    Args:
        kind: One of `SIZES`. The first two take JSON lines with `text`, and `id` and `title` if they have, as
            WikiExtractor writes them with `--json`; of "lmsys" each line is a conversation, a list of `role` and
            `content`, of which windows are made: 8 turns, about 180 words, 2 turns shared.
        sources: Files, and folders of files.
        to: The file to write.
        count: How many lines, drawn uniformly; default: as in the papers.
        seed: Of the draw.

    Raises:
        InvalidInputError: for another kind, a file that cannot be read, or files without texts.
    """
    if kind not in SIZES:
        raise InvalidInputError(f"There is no corpus {kind!r}. There are {', '.join(SIZES)}.")
    if not to.name.endswith("passages.jsonl"):
        raise InvalidInputError(f"{to} must end in passages.jsonl, as the corpora of a data folder do.")
    inside = {source: sorted(source.rglob("*")) if source.is_dir() else [source] for source in map(Path, sources)}
    files = [file for found in inside.values() for file in found if not file.is_dir()]
    drawn = _drawn(_windows(files) if kind == "lmsys" else _documents(files), count or SIZES[kind], seed)
    if not drawn:
        raise InvalidInputError(f"{', '.join(map(str, sources))}: nothing was found that {kind} could be made of.")
    to.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in drawn), encoding="utf-8")
    return len(drawn)


def _documents(files: Sequence[Path]) -> Iterator[Record]:
    for file in files:
        for number, record in enumerate(iter_lines(file)):
            text = record.get("text")
            if isinstance(text, str) and text.strip():
                name = str(record.get("id", f"{file.stem}-{number}"))
                yield {"id": name, "title": record.get("title") or "", "text": text}


def _windows(files: Sequence[Path]) -> Iterator[Record]:
    """Yield the windows of each conversation's longest snapshot."""
    longest: dict[str, tuple[int, int]] = {}
    for place, (name, turns) in enumerate(_conversations(files)):
        longest[name] = max(longest.get(name, (0, 0)), (len(turns), -place))
    for place, (name, turns) in enumerate(_conversations(files)):
        for number, text in enumerate(ConversationChunker().chunks(turns) if longest[name][1] == -place else ()):
            yield {"id": f"{name}-{number}", "text": text, "whole": True}


def _conversations(files: Sequence[Path]) -> Iterator[tuple[str, list[Record]]]:
    for file in files:
        for line, record in enumerate(iter_lines(file), start=1):
            if not isinstance(turns := record.get("conversation"), list):
                raise InvalidInputError(f"{file}, line {line}: a list under 'conversation' is needed.")
            yield str(record.get("conversation_id", f"{file.stem}-{line}")), turns


def _drawn(records: Iterable[Record], count: int, seed: int) -> list[Record]:
    """Draw uniformly, with no more than `count` of them at a time in RAM."""
    chance, kept = random.Random(seed), list[Record]()
    for number, record in enumerate(records):
        if number < count:
            kept.append(record)
        elif (place := chance.randrange(number + 1)) < count:
            kept[place] = record
    return kept
