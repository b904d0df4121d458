"""Packs the lexicon that ships from its lines in `written/lexicon.tsv`.

    python shared/tools/make_lexicon.py

A line has names, kinds and instead, parted by tabs, each a list parted by semicolons, the most telling first. Four are
enough (more were no better); of what a diet rules out there are more.
"""

from __future__ import annotations

import argparse
import bz2
from pathlib import Path

from fitting import WRITTEN

OUT = Path(__file__).parents[1] / "epic_memory" / "data" / "lexicon.tsv.bz2"
MOST = 9


def packed(text: str) -> bytes:
    """The lines, checked, as they ship.

    Raises:
        ValueError: for a line of another form.
    """
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        columns = [column.split(";") for column in line.split("\t")]
        names, *lists = columns
        if len(set(names)) < len(names):
            raise ValueError(f"line {number}: a name twice")
        if len(columns) != 3 or not all(names) or any(len(words) > MOST for words in lists):
            raise ValueError(f"line {number}: names, at most {MOST} kinds, at most {MOST} instead, parted by tabs")
        if again := seen.intersection(names):
            raise ValueError(f"line {number}: {', '.join(again)} has a line already")
        seen.update(names)
    return bz2.compress(text.encode())


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    OUT.write_bytes(packed((WRITTEN / "lexicon.tsv").read_text(encoding="utf-8")))
    print(f"{OUT}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
