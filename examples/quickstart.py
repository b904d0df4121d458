"""Build a memory in a file from the bundled sample corpus, ask it, change a preference, ask again.

python examples/quickstart.py            # keeps the memory in a temporary folder
python examples/quickstart.py me.epic    # keeps it
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from epic_apps.cli.sources import Sources, read_preferences
from epic_memory import EpicMemory, Filter

SAMPLE = files("epic_memory") / "data"


def main(path: Path) -> None:
    preferences = read_preferences(str(SAMPLE / "preferences.txt"))
    with EpicMemory.open(path, preferences) as memory:
        print(memory.add(Sources([str(SAMPLE / "corpus.jsonl")]), progress=True))

        question = "What dessert could I bring to Oscar's birthday dinner?"
        for hit in memory.search(question, k=3):
            print(f"{hit.score:.2f} {hit.item.metadata['title']}: {hit.instructions[0]}")

        print(memory.context(question, k=1))

        # A filter is part of the search: k items come back as long as so many match.
        chapters = Filter.eq("source", "corpus.jsonl") & ~Filter.exists("chunk")
        print(len(memory.search(question, k=3, filter=chapters)), "hits with a filter")

        # Preferences change; what is held is matched with the new one, nothing is built again.
        report = memory.preferences.replace(preferences[7], "I love brass bands, played outdoors.")
        print(f"replaced a preference: {report.kept} items kept for the new one, {len(memory)} held")
        print(memory.stats())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "me.epic")
