"""Report: tables, plots and notes as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from epic_memory.errors import MissingExtraError


@dataclass(frozen=True)
class Table:
    """A table with its title and notes.

    Raises:
        ValueError: if a row has another number of cells than the header.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if any(len(row) != len(self.header) for row in self.rows):
            raise ValueError(f"{self.title}: every row needs {len(self.header)} cells.")


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Figure:
    """A plot, by the name of its file beside the report."""

    title: str
    file: str


Part: TypeAlias = Table | Text | Figure


@dataclass
class Report:
    """Parts under a title."""

    title: str
    parts: list[Part] = field(default_factory=list)

    def markdown(self) -> str:
        """Return the report as Markdown."""
        return "\n\n".join([f"# {self.title}", *(_markdown(part) for part in self.parts)]) + "\n"

    def write(self, folder: str | Path, name: str = "report") -> Path:
        """Write NAME.md into a folder, and return its path."""
        path = Path(folder) / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.markdown(), encoding="utf-8")
        return path


def _markdown(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Figure):
        return f"![{part.title}]({part.file})"
    rule = ["---", *["---:"] * (len(part.header) - 1)]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (part.header, *part.rows)]
    lines = [f"| {' | '.join(row)} |" for row in (cells[0], rule, *cells[1:])]
    return "\n".join([f"## {part.title}", "", *lines, *(line for note in part.notes for line in ("", note))])


def aligned(table: Table) -> str:
    """Return a table for a terminal."""
    rows = [table.header, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.header))]
    lines = [
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    return "\n".join(["", table.title, "-" * min(len(table.title), 120), *lines, *table.notes])


# plots


def _pyplot() -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("matplotlib", "eval") from None
    mpl.use("Agg")
    # Nothing of the machine or the day in the file: the same figures give the same plot.
    mpl.rcParams.update({"svg.hashsalt": "epic-memory", "svg.fonttype": "none", "font.size": 9})
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
    from matplotlib import pyplot as plt

    return plt


def plot_frontier(points: Mapping[str, tuple[float, float]], path: Path, *, ylabel: str, title: str) -> Figure:
    """Plot arms by bytes and a measure, with the line of those that no smaller one matches.

    Args:
        points: Arm to (bytes, measure); arms without bytes stand at the left edge.
        path: The SVG file.
        ylabel, title: What is measured, and what the plot shows.
    """
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    least = min((size for size, _ in points.values() if size > 0), default=1.0) / 2
    placed = {name: (max(size, least) / 2**20, value) for name, (size, value) in points.items()}
    for name, (x, y) in placed.items():
        ours = name.startswith("EPIC")
        axes.plot(x, y, "o", color="#0b6e4f" if ours else "#6c757d")
        axes.annotate(name, (x, y), textcoords="offset points", xytext=(4, 3), fontsize=7)
    best = frontier(placed)
    axes.plot([placed[name][0] for name in best], [placed[name][1] for name in best], "--", color="#d1495b", lw=1)
    axes.set(xscale="log", xlabel="MiB of the retrieval state", ylabel=ylabel)
    return _saved(plt, figure, path, title)


def frontier(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names of the points (cost, value) that no other one beats in both, by rising cost."""
    best: list[str] = []
    for name, (_, value) in sorted(points.items(), key=lambda item: (item[1][0], -item[1][1])):
        if not best or value > points[best[-1]][1]:
            best.append(name)
    return best


def plot_lines(
    lines: Mapping[str, Sequence[tuple[float, float]]], path: Path, *, xlabel: str, ylabel: str, title: str
) -> Figure:
    """Plot lines by name over the same axis; a log axis if it spans more than a factor of eight."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    for name, points in lines.items():
        axes.plot([x for x, _ in points], [y for _, y in points], "o-", label=name, markersize=3)
    places = [x for points in lines.values() for x, _ in points if x > 0]
    if places and max(places) > 8 * min(places):
        axes.set_xscale("log")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=7)
    return _saved(plt, figure, path, title)


def _saved(plt: Any, figure: Any, path: Path, title: str) -> Figure:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return Figure(title, path.name)
