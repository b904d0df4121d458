"""Experiment that the papers do not have: more and fewer preferences than a persona has.

    python tests/benchmarks/bench_variants.py DATA --out OUT

The arms of `epic eval` over variants of the data. No model answers: `choice` and the others are proxies, as in
docs/evaluation.md. OUT holds journals, plots and the report; run again, it goes on where it was.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import script_options
from epic_eval.datasets import Data, Dataset, Persona, read_data
from epic_eval.experiments.retrieval import Retrieval
from epic_eval.experiments.scores import Scores
from epic_eval.options import say
from epic_eval.report import Part, Report, Table, Text, aligned, plot_lines
from epic_memory.encoders import Encoder, default_encoder

ARMS = ("told", "dense", "EPIC", "EPIC ours")
COUNTS = (1, 2, 5, 10, 20, 40, 100, 200)
PLOTTED = {"choice": "following first", "tokens": "prompt tokens"}
NOTE = "Means over personas; bytes are the mean of the states. No model answered: proxies, as in Table 2."


def with_preferences(data: Data, count: int, pool: Data) -> Data:
    """Return personas with that many preferences; the one of each question that is asked is always among them.

    A persona with more is split into several of its number, so that the same questions are asked at every count; one
    with fewer is given preferences of others.

    Args:
        data: Whose personas.
        count: How many preferences each has, at least 1.
        pool: Personas of the same sets, from which further preferences are drawn.
    """
    every = {d.name: list(dict.fromkeys(p for each in d.personas for p in each.preferences)) for d in pool.datasets}

    def changed(dataset: Dataset, persona: Persona) -> list[Persona]:
        chance = random.Random(f"0/{persona.index}")
        own = chance.sample(persona.preferences, len(persona.preferences))
        others = [preference for preference in every[dataset.name] if preference not in own]
        made = []
        for start in range(0, len(own), count):
            asked = own[start : start + count]
            more = others if start == 0 else own[:start]
            group = [*asked, *chance.sample(more, min(count - len(asked), len(more)))]
            chance.shuffle(group)
            questions = tuple(q for q in persona.questions if q.preference in asked)
            made.append(Persona(persona.index, tuple(group), questions))
        return made

    sets = (Dataset(d.name, tuple(p for each in d.personas for p in changed(d, each))) for d in data.datasets)
    return replace(data, datasets=tuple(sets))


def scores_of(data: Data, encoder: Encoder, folder: Path) -> Scores:
    retrieval = Retrieval(data, encoder, folder, say=say)
    try:
        retrieval.ask(ARMS)
        return Scores(retrieval, ARMS)
    finally:
        retrieval.close()


def parts(data: Data, pool: Data, encoder: Encoder, folder: Path) -> list[Part]:
    """A table and plots: the question's own preference is always there, the others are other personas'."""
    name, values = data.datasets[0].name, dict[tuple[str, str], list[float | None]]()
    for count in COUNTS:
        scores = scores_of(with_preferences(data, count, pool), encoder, folder)
        for arm in ARMS:
            for measure in (*PLOTTED, "MB"):
                if arm != "told" or measure not in ("choice", "MB"):  # it finds nothing
                    found = scores.mib(arm, name) if measure == "MB" else scores.mean(arm, name, measure)
                    values.setdefault((arm, measure), []).append(found)
    rows = [
        (f"{arm}: {measure}", *("-" if value is None else f"{value:.2f}" for value in row))
        for (arm, measure), row in values.items()
    ]
    made: list[Part] = [Table("Number of preferences", ("", *map(str, COUNTS)), tuple(rows), (NOTE,))]
    for measure, about in PLOTTED.items():
        known = {arm: zip(COUNTS, values[arm, measure], strict=True) for arm in ARMS if (arm, measure) in values}
        lines = {arm: [(x, y) for x, y in points if y is not None] for arm, points in known.items()}
        path, title = folder / f"preferences_{measure}.svg", f"{about} against the number of preferences"
        made.append(plot_lines(lines, path, xlabel="preferences", ylabel=about, title=title))
    return made


def main() -> None:
    options = script_options(__doc__, data=True, out=..., set="PrefEval", personas=3, passages=1500)
    given: Any = {"sets": [options.set], "passages": options.passages}
    data, pool = (read_data(options.data, personas=few, **given) for few in (options.personas, None))
    encoder, folder = default_encoder(), Path(options.out)
    about = f"{options.set}, {options.personas} personas, {len(data.corpus)} passages, encoder {encoder.name}"
    report = Report("Variants of the data", [Text(f"{about}.")])
    report.parts += parts(data, pool, encoder, folder)
    for part in report.parts:
        if isinstance(part, Table):
            print(aligned(part), flush=True)
    print(report.write(folder, "variants"))


if __name__ == "__main__":
    main()
