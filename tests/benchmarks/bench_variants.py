"""Experiments that the papers do not have: number of preferences, equal bytes, dilution, noise, others' questions.

    python tests/benchmarks/bench_variants.py DATA --out OUT [--which preferences,bytes]

The arms of `epic eval` over variants of the data. No model answers: `choice` and the others are proxies, as in
docs/evaluation.md. OUT holds journals, plots and the report; run again, it goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import parse, parser
from epic_eval.datasets import Data, read_data
from epic_eval.experiments.retrieval import Retrieval, Say
from epic_eval.experiments.scores import Scores
from epic_eval.options import say
from epic_eval.report import Part, Report, Table, Text, aligned, plot_lines
from epic_memory.encoders import Encoder, encoder_of
from variants import asked_by_others, contradicted, diluted, misspelt, ordering, with_preferences

ARMS = ("told", "dense", "EPIC", "EPIC ours")
BUDGETS = (0.1, 0.27, 1.0, 10.0)
COUNTS = (1, 2, 5, 10, 20, 40, 100, 200)
_NOTE = "Means over personas of {name}; bytes are the mean of the states. No model answered: proxies, as in Table 2."


class Experiments:
    """Experiments of ours over one data folder.

    Args:
        data: The personas that are asked.
        pool: More personas of the same sets, whose preferences may be added.
        encoder: For all arms.
        folder: For journals and plots.
        seed: Of all draws.
        say: Is told how far it is.
    """

    def __init__(
        self, data: Data, pool: Data, encoder: Encoder, folder: Path, *, seed: int = 0, say: Say = lambda line: None
    ) -> None:
        self.data = data
        self.pool = pool
        self.encoder = encoder
        self.folder = folder
        self.seed = seed
        self.say = say
        self.name = data.datasets[0].name

    def _scores(self, data: Data, arms: Sequence[str]) -> Scores:
        retrieval = Retrieval(data, self.encoder, self.folder, seed=self.seed, say=self.say)
        try:
            retrieval.ask(arms)
            return Scores(retrieval, arms, None)
        finally:
            retrieval.close()

    def _series(
        self, title: str, variants: Mapping[str, Data], arms: Sequence[str], measures: Sequence[str]
    ) -> tuple[Table, dict[tuple[str, str], list[float | None]]]:
        values: dict[tuple[str, str], list[float | None]] = {}
        for label, data in variants.items():
            self.say(f"{title}: {label}")
            scores = self._scores(data, arms)
            for arm in arms:
                for measure in measures:
                    if arm == "told" and measure in ("choice", "MB"):
                        continue  # it finds nothing, and keeps the preferences alone
                    is_size = measure == "MB"
                    found = scores.mib(arm, self.name) if is_size else scores.mean(arm, self.name, measure)
                    values.setdefault((arm, measure), []).append(found)
        rows = [
            (f"{arm}: {measure}", *("-" if value is None else f"{value:.2f}" for value in row))
            for (arm, measure), row in values.items()
        ]
        table = Table(title, ("", *variants), tuple(rows), (_NOTE.format(name=self.name),))
        return table, values

    def preferences(self) -> list[Part]:
        """Number of preferences: the question's own is always among them, the others are other personas'."""
        variants = {str(n): with_preferences(self.data, n, self.pool, self.seed) for n in COUNTS}
        table, values = self._series("Number of preferences", variants, ARMS, ("choice", "named", "tokens", "MB"))
        parts: list[Part] = [table]
        for measure, about in (
            ("choice", "following first"),
            ("named", "own preference told"),
            ("tokens", "prompt tokens"),
        ):
            lines = {arm: _points(COUNTS, values[arm, measure]) for arm in ARMS if any(values.get((arm, measure), ()))}
            path = self.folder / f"preferences_{measure}.svg"
            title = f"{about} against the number of preferences"
            parts.append(plot_lines(lines, path, xlabel="preferences", ylabel=about, title=title))
        return parts

    def bytes(self) -> list[Part]:
        """Equal bytes: every arm within the same budgets."""
        rows = []
        for arm in ("BM25", "dense", "RaBitQ", "raptor-lite", "EPIC", "EPIC ours"):
            cells = []
            for budget in BUDGETS:
                name = f"{arm} budget={budget}"
                scores = self._scores(self.data, [name])
                found, size = scores.mean(name, self.name, "choice"), scores.mib(name, self.name)
                shown = "-" if found is None else f"{found:.2f}"
                cells.append(shown if size is None else f"{shown} ({size:.2f})")
            rows.append((arm, *cells))
        note = (
            "choice (MiB used). A store of everything keeps the newest passages that fit, which is a random sample"
            " here; EPIC evicts by value. " + _NOTE.format(name=self.name)
        )
        header = ("arm", *(f"{budget} MiB" for budget in BUDGETS))
        return [Table("Equal bytes", header, tuple(rows), (note,))]

    def dilution(self) -> list[Part]:
        """Dilution: the useful passages stay, the haystack grows."""
        most = self.data.documents
        counts = [count for count in (most // 30, most // 10, most // 3, most) if count]
        variants = {str(count): diluted(self.data, count, self.seed) for count in counts}
        return [self._series("Dilution: passages around", variants, ARMS[1:], ("choice", "MB"))[0]]

    def surface(self) -> list[Part]:
        """Surface noise: letters dropped or swapped in a share of the words."""
        variants = {f"{share:.0%}": misspelt(self.data, share, self.seed) for share in (0.0, 0.05, 0.1, 0.2)}
        return [self._series("Misspelt words", variants, ARMS[1:], ("choice", "MB"))[0]]

    def contradictions(self) -> list[Part]:
        """Contradictions: beside each option that follows lies a copy that says the opposite."""
        variants = {"as it is": self.data, "with opposites": contradicted(self.data, self.seed)}
        return [self._series("Contradicting copies", variants, ARMS[1:], ("choice", "breaking", "MB"))[0]]

    def injected(self) -> list[Part]:
        """Injected instructions: orders to the assistant behind a share of the passages."""
        variants = {f"{share:.0%}": ordering(self.data, share, self.seed) for share in (0.0, 0.1, 0.5)}
        return [self._series("Injected instructions", variants, ARMS[1:], ("choice", "breaking", "MB"))[0]]

    def unrelated(self) -> list[Part]:
        """Others' questions: how much is told where no preference belongs to the question."""
        variants = {"own questions": self.data, "others' questions": asked_by_others(self.data)}
        return [self._series("Unrelated questions", variants, ARMS, ("told", "named", "tokens"))[0]]

    def all(self) -> dict[str, Callable[[], list[Part]]]:
        """Return the experiments by name."""
        names = ("preferences", "bytes", "dilution", "surface", "contradictions", "injected", "unrelated")
        return {name: getattr(self, name) for name in names}


def _points(places: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(place, value) for place, value in zip(places, values, strict=True) if value is not None]


def main() -> None:
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--out", required=True, metavar="FOLDER", help="journals, plots and the report")
    made.add_argument("--which", default="", help="experiments, with commas between; default: all")
    made.add_argument("--set", default="PrefEval", help="of personas")
    made.add_argument("--personas", type=int, default=3, help="the first ones")
    made.add_argument("--passages", type=int, default=1500, help="of the haystack")
    made.add_argument("--encoder", default="static")
    made.add_argument("--seed", type=int, default=0)
    options = parse(made)
    given: Any = {"sets": [options.set], "passages": options.passages, "seed": options.seed}
    data, pool = (read_data(options.data, personas=few, **given) for few in (options.personas, None))
    encoder, folder = encoder_of(options.encoder), Path(options.out)
    known = Experiments(data, pool, encoder, folder, seed=options.seed, say=say).all()
    which = options.which.split(",") if options.which else list(known)
    if unknown := ", ".join(name for name in which if name not in known):
        made.error(f"no experiment: {unknown}. There are {', '.join(known)}.")
    about = f"{options.set}, {options.personas} personas, {len(data.corpus)} passages, encoder {encoder.name}"
    report = Report("Variants of the data", [Text(f"{about}, seed {options.seed}.")])
    for name in which:
        for part in known[name]():
            report.parts.append(part)
            if isinstance(part, Table):
                print(aligned(part), flush=True)
    print(report.write(folder, "variants"))


if __name__ == "__main__":
    main()
