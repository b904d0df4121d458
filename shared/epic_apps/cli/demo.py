"""Demo: a bundled user, what she saved, the memory made of it, and plain retrieval beside it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from epic_apps.cli.printing import one_line, plain, table
from epic_apps.cli.reasons import marked, reasons
from epic_apps.cli.sources import Sources, read_preferences
from epic_memory.lm.base import LanguageModel
from epic_memory.memory import EpicMemory
from epic_memory.settings import Settings, checked_settings
from epic_memory.types import Hit, Item, Preference, Stance
from epic_memory.types.preferences import Expansion

_DATA = files("epic_memory") / "data"
_SHOWN = 2
# The questions that are shown, by number; all eight are counted.
_ASKED = (4, 5, 8)
# The question whose context is shown.
_TOLD = 7
_LONGEST = 96
# From this width on, two columns of text are readable.
_WIDE = 100
_SUITS = {"supports": "suits her", "conflicts": "against what she said", "mixed": "suits her in part"}


def demo_preferences() -> list[Preference]:
    """Return the bundled preferences, each with an expansion as a language model would write it once."""
    expansions = (_DATA / "expansions.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Preference(text=preference.text, expansion=Expansion.from_json(json.loads(line)))
        for preference, line in zip(read_preferences(str(_DATA / "preferences.txt")), expansions, strict=True)
    ]


def demo_questions() -> list[str]:
    """Return the bundled questions: the n-th is about what the n-th preference says."""
    return str((_DATA / "questions.txt").read_text(encoding="utf-8")).splitlines()


def demo_key() -> dict[tuple[str, int], str]:
    """Return how items stand to the preference of a number, by hand: "supports", "conflicts" or "mixed"."""
    lines = (_DATA / "key.tsv").read_text(encoding="utf-8").splitlines()
    return {(item, int(number)): stance for item, number, stance in (line.split("\t") for line in lines)}


def run_demo(
    path: str | None = None, llm: LanguageModel | None = None, settings: Settings | None = None
) -> Iterator[RenderableType]:
    """Build a memory from the bundled corpus, ask it and plain dense retrieval, and yield the parts to print.

    Args:
        path: The file for the memory; default: only in RAM.
        llm: A model that expands the preferences and decides; None for none.
        settings: Of the memory.
    """
    preferences, questions, key = demo_preferences(), demo_questions(), demo_key()
    if llm is not None:
        preferences = [Preference(text=preference.text) for preference in preferences]
    yield Text("Maya told her memory what matters to her", "bold")
    yield from (plain(f"  • {preference}") for preference in preferences)
    writes = "A language model wrote once what each means in practice; none is asked from here on."
    if llm is not None:
        writes = f"{llm.name} writes once what each means in practice, and decides what is kept for it."
    yield plain(f"  {writes}", "dim")

    items = list(Sources([str(_DATA / "corpus.jsonl")]))
    if path is None:
        memory = EpicMemory(preferences, llm=llm, settings=checked_settings(settings))
    else:
        memory = EpicMemory.open(path, preferences, llm=llm, settings=settings)
    with memory:
        opened = memory.opening_report
        report = memory.add(items, progress=llm is not None and sys.stderr.isatty())
        stats = memory.stats()
        yield Text("\nand gave it what she had saved: mails, notes, clippings", "bold")
        rows = [
            (report.seen, "texts came in"),
            (report.passed, "are near something she said (coarse filter)"),
            (stats.counts["items"], "were kept for a preference, each with the reason"),
            (stats.counts["light"], "are kept for their text only"),
        ]
        yield table((">", ""), [(f"  {count}", what) for count, what in rows])
        yield f"  in {report.seconds:.1f} s; {stats.bytes['total'] / 1e6:.2f} MB in all"
        if llm is not None:
            yield (
                f"  {llm.name} was asked {opened.usage.calls + report.usage.calls} times: it expanded"
                f" {opened.expanded} of {len(preferences)} preferences, and left {report.undecided} texts undecided."
            )
        yield from (plain(f"  warning: {warning}") for warning in (*opened.warnings, *report.warnings))

        vectors = memory.encoder.encode([item.text for item in items])
        suits, seconds = 0, []
        for number, question in enumerate(questions, start=1):
            begun = time.perf_counter()
            hits = memory.search(question, k=_SHOWN)
            seconds.append(time.perf_counter() - begun)
            nearest = np.argsort(-(vectors @ memory.encoder.encode([question])[0]))[:_SHOWN]
            dense = [items[place] for place in nearest]
            suits += key.get((dense[0].id, number)) == "supports"
            if number in _ASKED:
                stances = [key.get((item.id, number), "") for item in (*(hit.item for hit in hits), *dense)]
                yield Text.assemble("\n", (question, "bold"))
                yield plain(f"she said: {preferences[number - 1]}", "dim")
                yield _Beside(_answers(hits, stances[: len(hits)]), _answers(dense, stances[len(hits) :]))

        with EpicMemory([preference.text for preference in preferences]) as without:
            without.add(items)
            both = [
                sum(
                    any(key.get((hit.item.id, number)) == "supports" for hit in each.search(question, k=1))
                    for number, question in enumerate(questions, start=1)
                )
                for each in (memory, without)
            ]
        by = "what the language model wrote" if llm is None else llm.name
        yield plain(
            f"\nAll {len(questions)} questions, by a key made by hand: the first answer suits her {both[0]} times with"
            f" epic, {both[1]} times without {by}, {suits} times with plain retrieval by the same encoder.",
            "bold",
        )
        yield Text.assemble("\n", ("What a model is given for: ", "bold"), (questions[_TOLD - 1], "bold"))
        yield plain(memory.context(questions[_TOLD - 1], k=1), "dim")
        median = sorted(seconds)[len(seconds) // 2]
        kept = f" It is kept: epic ask {path}" if path else " Keep the memory, and ask it: epic demo --out me.epic"
        yield plain(
            f"\n{len(questions)} questions, median {median * 1000:.2f} ms each, query embedding included.{kept}"
        )


def _answers(found: Sequence[Hit | Item], stances: Sequence[str]) -> RenderableType:
    """Return answers below each other, those of the memory with the reason why they are there."""
    parts: list[Text] = []
    for each, stance in zip(found, stances, strict=True):
        parts.append(marked(_SUITS[stance], Stance(stance)) if stance else Text("  about something else", "dim"))
        parts.append(one_line(each.text, _LONGEST))
        parts += [plain(reasons(each)[0], "italic")] if isinstance(each, Hit) else []
        parts.append(Text(""))
    return Group(*parts[:-1]) if parts else Text("nothing")


@dataclass(frozen=True)
class _Beside:
    """Two answers beside each other on a wide terminal, else one below the other."""

    left: RenderableType
    right: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not console.is_terminal or options.max_width < _WIDE:
            yield from (Text("epic", "underline"), self.left, Text("\nplain retrieval", "underline"), self.right)
            return
        both = Table.grid(padding=(0, 1), expand=True)
        both.add_column(ratio=1)
        both.add_column(ratio=1)
        left = Panel(self.left, title="epic", border_style="green")
        both.add_row(left, Panel(self.right, title="plain retrieval", border_style="dim"))
        yield both
