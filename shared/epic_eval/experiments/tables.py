"""Tables of the papers, with our figures of tier 0 beside theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from epic_eval.asking import ModelCost
from epic_eval.experiments.scores import MIB, Scores
from epic_eval.metrics import MEASURES
from epic_eval.papers import accuracies, backbone, base_name, footnotes, letter, paper_figures, paper_row
from epic_eval.report import Part, Table, plot_frontier

ABLATION = ("dense", "C", "F", "S", "C+F", "EPIC", "EPIC signed", "EPIC light", "EPIC ours")
_ABLATION_ROWS = {"dense": "none", "C": "C", "C+F": "C+F", "EPIC": "C+F+S"}
TAU_ARMS = tuple(f"EPIC tau={tau}" for tau in (0.0, 0.1, 0.2, 0.3, 0.4))


def papers_tables(scores: Scores, taus: Scores | None, folder: Path) -> list[Part]:
    """Build all tables that the arms allow, plots of measures against bytes, and the notes on the papers.

    Args:
        scores: Of the arms.
        taus: Of `TAU_ARMS`; None leaves Table 5 out.
        folder: For the plots.
    """
    parts = [*table2(scores), table4(scores)]
    parts += [] if taus is None else [table5(taus)]
    parts += [table6(scores), table7(scores), table8(scores)]
    parts += [table9(scores)] if {"EPIC", "EPIC lm"} & set(scores.arms) else []
    parts += [table12(scores), *model_table(scores)]
    first = scores.data.datasets[0].name
    points = {
        arm: (size["total"], found.mean)
        for arm in scores.arms
        # An arm that finds nothing is no choice among those that do.
        if arm not in ("none", "told")
        and (found := scores.of(arm, first, "choice"))
        and (size := scores.bytes(arm, first))
    }
    if points:
        title = f"{first}: choice against MiB; dashed: what no smaller arm reaches"
        parts.append(plot_frontier(points, folder / "frontier_choice.svg", ylabel=f"choice ({first})", title=title))
    return [*parts, *footnotes()]


def table2(scores: Scores) -> list[Part]:
    """Build Table 2 once for each measure that takes the place of accuracy; the papers' accuracy stands beside it."""
    tables: list[Part] = []
    sets = [dataset.name for dataset in scores.data.datasets]
    judged = {name: about for name, about in MEASURES.items() if name == "accuracy" and scores.knows(name)}
    for measure, about in (judged or MEASURES).items():
        known = [name for name in sets if any(scores.values(arm, name, measure) for arm in scores.arms)]
        if not known:
            continue
        rows = []
        for arm in scores.arms:
            cells = [str(scores.of(arm, name, measure) or "-") for name in known]
            rows.append((arm, *cells, *accuracies(arm, known, backbone(scores.retrieval.lm))))
        size = {name: max(len(scores.values(arm, name, measure)) for arm in scores.arms) for name in known}
        header = ("arm", *(f"{letter(name)} ({size[name]})" for name in known), *(f"paper {letter(n)}" for n in known))
        proxy = "" if judged else " A proxy, not accuracy."
        notes = (
            f"{measure}: {about}.{proxy} In brackets: questions; 95 % interval over personas.",
            f"paper: accuracy in %, {backbone(scores.retrieval.lm)}, judged by Llama-3.3-70B, on the papers' corpora.",
        )
        title = f"Table 2: {measure}" if judged else f"Table 2 by proxy: {measure}"
        tables.append(Table(title, header, tuple(rows), notes))
    return tables


def _proxy(scores: Scores, name: str) -> str:
    """Return the measure of a set's questions: accuracy if a model judged, else choices, labels, or what is named."""
    best = ("accuracy", "choice", "label", "named")
    return next((m for m in best if any(scores.values(a, name, m) for a in scores.arms)), "named")


def table4(scores: Scores) -> Table:
    """Build Table 4, the ablation: accuracy or proxy / MB / s for each set, the paper's accuracy / MB beside it."""
    sets = [dataset.name for dataset in scores.data.datasets]
    proxy = {name: _proxy(scores, name) for name in sets}
    rows = []
    for arm in [arm for arm in scores.arms if base_name(arm) in ABLATION]:
        paper = paper_figures()["table4"].get(_ABLATION_ROWS.get(base_name(arm)), {})
        cells = []
        for name in sets:
            seconds = scores.build_seconds(arm, name)
            cells.append(_joined(scores.mean(arm, name, proxy[name]), scores.mib(arm, name), seconds))
            theirs = paper.get(letter(name))
            cells.append("-" if theirs is None else f"{theirs[0]:.2f} / {theirs[1]:.2f}")
        rows.append((arm, *cells))
    header = ("arm", *(text for n in sets for text in (f"{letter(n)} {proxy[n]} / MB / s", f"paper {letter(n)}")))
    notes = ("paper: accuracy in % / MB, Llama-8B.", *replays(scores))
    return Table("Table 4: stages alone and together", header, tuple(rows), notes)


def table5(scores: Scores) -> Table:
    """Build Table 5, tau: proxy / seconds of verification / MB."""
    sets = [dataset.name for dataset in scores.data.datasets]
    rows = []
    for arm in [arm for arm in scores.arms if " tau=" in arm]:
        tau = arm.rpartition("=")[2]
        cells = []
        for name in sets:
            proxy = scores.mean(arm, name, _proxy(scores, name))
            cells.append(_joined(proxy, scores.build_seconds(arm, name), scores.mib(arm, name)))
            theirs = paper_figures()["table5"].get(tau, {}).get(letter(name))
            cells.append("-" if theirs is None else " / ".join(f"{value:.2f}" for value in theirs))
        rows.append((f"tau {tau}", *cells))
    header = ("", *(text for n in sets for text in (f"{letter(n)} {_proxy(scores, n)} / s / MB", f"paper {letter(n)}")))
    notes = (
        "Seconds of the whole build without the corpus's embedding; paper: accuracy / s / MB.",
        "The paper prints no row for 0.1: it equals that of 0.0.",
        *replays(scores),
    )
    return Table("Table 5: the coarse filter's threshold", header, tuple(rows), notes)


def table6(scores: Scores) -> Table:
    """Build Table 6, MB by part, for the first set."""
    name = scores.data.datasets[0].name
    parts: list[str] = []
    sizes = {arm: scores.bytes(arm, name) for arm in scores.arms}
    for size in sizes.values():
        parts += [part for part in size or {} if part not in parts and part != "total" and (size or {})[part] > 0]
    rows = []
    for arm, size in sizes.items():
        if size is None:
            continue
        paper = paper_row("table6", arm)
        cells = [f"{size[part] / MIB:.3f}" if size.get(part) else "-" for part in parts]
        rows.append((arm, *cells, f"{size['total'] / MIB:.3f}", "-" if paper is None else f"{paper['total']:.2f}"))
    note = (
        f"MB are 2^20 bytes, the mean of {len(scores.personas(name))} personas of {name} over"
        f" {len(scores.data.corpus)} passages here, 39,920 in the paper: only ratios compare."
    )
    return Table("Table 6: memory", ("arm", *parts, "total MB", "paper MB"), tuple(rows), (note,))


def table7(scores: Scores) -> Table:
    """Build Table 7, milliseconds a query: encoding + search, mean; the median of the search."""
    sets = [dataset.name for dataset in scores.data.datasets]
    rows = []
    for arm in scores.arms:
        cells, paper = [], paper_row("table7", arm)
        for name in sets:
            taken = scores.milliseconds(arm, name)
            cells.append("-" if taken is None else f"{taken[0]:.2f} + {taken[1]:.2f} ({taken[2]:.2f})")
        rows.append((arm, *cells, *("-" if paper is None else f"{paper.get(letter(n), '-')}" for n in sets)))
    header = ("arm", *(f"{letter(name)} ms" for name in sets), *(f"paper {letter(name)}" for name in sets))
    note = "Mean encoding + mean search (median search) of a question, with the model's calls, without its answer."
    return Table("Table 7: retrieval latency", header, tuple(rows), (note, *replays(scores)))


def table8(scores: Scores) -> Table:
    """Build Table 8, seconds of indexing by part, for the first set."""
    name = scores.data.datasets[0].name
    encoding = scores.retrieval.encoding_seconds()
    rows = []
    for arm in scores.arms:
        builds = scores.builds(arm, name)
        if not builds:
            continue
        parts = dict.fromkeys(part for record in builds for part in record["seconds"])
        means = {part: sum(record["seconds"].get(part, 0.0) for record in builds) / len(builds) for part in parts}
        shown = ", ".join(f"{part} {seconds:.2f}" for part, seconds in means.items() if seconds >= 0.005)
        held = sum(record["held"] for record in builds) / len(builds)
        models = [ModelCost(**record.get("model", {})) for record in builds]
        asked, replayed = (sum(getattr(cost, name) for cost in models) / len(models) for name in ("asked", "replayed"))
        undecided = sum(record.get("undecided", 0) for record in builds)
        paper = paper_row("table8", arm)
        cells = (f"{held:.0f}" + f", {undecided} undecided" * bool(undecided), f"{asked:.0f} + {replayed:.0f}")
        theirs = "-" if paper is None else f"{paper:.2f}"
        rows.append((arm, f"{sum(means.values()):.2f}", shown or "-", *cells, theirs))
    notes = (
        f"Means of a build. To each arm with embeddings the corpus's own comes: {encoding:.2f} s, once. model: the sum"
        " of the latencies of its calls; all other parts are the work around them.",
        *replays(scores),
    )
    header = ("arm", "seconds", "parts", "items held", "calls asked + replayed", "paper s")
    return Table("Table 8: indexing", header, tuple(rows), notes)


def replays(scores: Scores) -> tuple[str, ...]:
    """Return a note if calls of the model were replayed: what they took is not what this run waited."""
    costs = [cost for arm in scores.arms for cost in scores.model_cost(arm)]
    asked, replayed = sum(cost.asked for cost in costs), sum(cost.replayed for cost in costs)
    if not replayed:
        return ()
    of = f"Of the model's {asked + replayed} calls {replayed} were replayed" if asked else "Made of replays"
    return (f"{of}: an equal question had been asked before, and its seconds are those that the model took then.",)


def model_table(scores: Scores) -> list[Part]:
    """Build the table of the model's calls; none if no arm asks it."""
    rows = []
    for arm in scores.arms:
        for what, cost in zip(("built", "asked"), scores.model_cost(arm), strict=True):
            if cost.asked + cost.replayed:
                sent = (f"{cost.asked}", f"{cost.asked_seconds:.3f}")
                known = (f"{cost.replayed}", f"{cost.replayed_seconds:.3f}")
                tokens = f"{cost.prompt_tokens} + {cost.completion_tokens}"
                rows.append((f"{arm}, {what}", *sent, *known, f"{cost.seconds:.3f}", tokens))
    if not rows or scores.retrieval.lm is None:
        return []
    lm = scores.retrieval.lm
    once = [record for record in lm.journal if record.get("model") == lm.name and "seconds" in record]
    seconds = f"{sum(record['seconds'] for record in once):.3f}"
    rows.append(("every call once (asked.jsonl)", f"{len(once)}", seconds, "-", "-", seconds, "-"))
    header = ("arm", "asked", "s", "replayed", "s then", "s in all", "tokens")
    return [Table(f"Calls of {lm.name}, all personas", header, tuple(rows), replays(scores))]


def table9(scores: Scores) -> Table:
    """Build Tables 3 and 9: milliseconds of a query and of an item by part, on the papers' devices and here."""
    arm = next(arm for arm in ("EPIC lm", "EPIC") if arm in scores.arms)
    sets = [dataset.name for dataset in scores.data.datasets]
    taken = [found for name in sets if (found := scores.milliseconds(arm, name)) is not None]
    builds = [record for name in sets for record in scores.builds(arm, name)]
    items = len(builds) * len(scores.data.corpus)
    ours: dict[str, float] = {}
    if taken and builds:
        encoding, search, _, steering = (sum(part) / len(taken) for part in zip(*taken, strict=True))
        ours = {"query: embedding": encoding, "query: steering": steering, "query: index": search - steering}
        ours["query: total"] = encoding + search
        ours["item: embedding"] = 1000 * scores.retrieval.encoding_seconds() / len(scores.data.corpus)
        parts = {"coarse filter": (), "verification": ("model",), "embedding instructions": ()}
        for part, more in parts.items():
            taken_by = sum(record["seconds"].get(each, 0.0) for record in builds for each in (part, *more))
            ours[f"item: {part}"] = 1000 * taken_by / items
        every = sum(sum(record["seconds"].values()) for record in builds)
        ours["item: total"] = ours["item: embedding"] + 1000 * every / items
        calls = [ModelCost(**record.get("model", {})) for record in builds]
        ours["item: model calls"] = sum(cost.asked + cost.replayed for cost in calls) / items
        ours["item: calls in the paper's way"] = sum(record["two_calls"] for record in builds) / items
    paper = paper_figures()["table9"]
    rows = [
        (
            part,
            f"{ours[part]:.3f}" if part in ours else "-",
            *(f"{value:.2f}" if value is not None else "-" for value in theirs),
        )
        for part, theirs in paper["rows"].items()
    ]
    notes = (
        f"{arm}: means over its memories ({len(builds)}) and their questions; an item is a passage offered. Ours asks"
        " about up to eight items in a call; the paper's way is a decision for each that passed the coarse filter and"
        " an instruction for each that is kept.",
        *replays(scores),
    )
    return Table("Tables 3 and 9: ms by part", ("", f"here, {arm}", *paper["columns"]), tuple(rows), notes)


_OTHERS = (
    ("MemoryBank-lite", "PrefEval", "table12", "MemoryBank"),
    ("EPIC", "PrefEval", "table12", "EPIC"),
    ("BPR-lite", "PrefWiki", "table13", "BPR"),
    ("RaBitQ", "PrefWiki", "table13", "RaBitQ"),
    ("EPIC", "PrefWiki", "table13", "EPIC"),
    ("graph", "PrefWiki", "table14", "HippoRAG 2"),
    ("graph+F", "PrefWiki", "table14", "+ F"),
    ("graph+C+F", "PrefWiki", "table14", "+ CF"),
    ("EPIC+graph", "PrefWiki", "table14", "+ CFS"),
    ("HippoRAG 2", "PrefWiki", "table14", "HippoRAG 2"),
    ("HippoRAG 2+F", "PrefWiki", "table14", "+ F"),
    ("HippoRAG 2+C+F", "PrefWiki", "table14", "+ CF"),
    ("EPIC+HippoRAG 2", "PrefWiki", "table14", "+ CFS"),
)


def table12(scores: Scores, numbers: Sequence[str] = ("12", "13", "14")) -> Table:
    """Build Tables 12 to 14: accuracy or proxy / indexing s / ms a query / MB, the papers' beside it."""
    sets = [dataset.name for dataset in scores.data.datasets]
    rows = []
    for arm, (_, name, table, theirs) in [(a, row) for row in _OTHERS for a in scores.arms if base_name(a) == row[0]]:
        if name not in sets or table.removeprefix("table") not in numbers:
            continue
        found, asked = scores.mean(arm, name, _proxy(scores, name)), scores.milliseconds(arm, name)
        taken = scores.build_seconds(arm, name)
        ours = _joined(found, taken, asked[1] if asked else None, scores.mib(arm, name))
        paper = paper_figures()[table][theirs]
        shown = " / ".join(f"{value:.2f}" for value in (paper if isinstance(paper, list) else paper[letter(name)]))
        rows.append((f"{arm} ({theirs})", name, table.removeprefix("table"), ours, shown))
    measure = "accuracy" if scores.knows("accuracy") else "proxy"
    header = ("arm (theirs)", "set", "table", f"{measure} / s / ms / MB", "paper: % / s / ms / MB")
    title = "Tables 12 to 14: MemoryBank, binary codes, graphs" if len(numbers) > 1 else f"Table {numbers[0]}"
    return Table(title, header, tuple(rows), replays(scores))


def _joined(*values: float | None) -> str:
    return " / ".join("-" if value is None else f"{value:.2f}" for value in values)
