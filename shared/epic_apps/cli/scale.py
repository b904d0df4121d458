"""Commands for memories of many people: scale build."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from epic_apps.cli.options import Common, Model, command, new_app

if TYPE_CHECKING:
    from typer import Typer

app: Typer = new_app(help="Memories of many people (extra: ray).")


@app.callback()
def _group() -> None:
    """Memories of many people (extra: ray)."""


@command(app)
def _build(
    common: Common,
    model: Model,
    corpus: Annotated[str, Argument(metavar="CORPUS", help=".parquet, .jsonl, .csv, .txt, or a folder of Parquet")],
    people: Annotated[str, Argument(metavar="PEOPLE", help="the same, with the columns user and preference")],
    sink: Annotated[str, Argument(metavar="SINK", help="a folder, or an address such as s3://bucket/folder")],
    workers: Annotated[int, Option(min=1, help="how many processes judge")] = 1,
    batch: Annotated[int, Option(min=1, help="chunks that are judged together")] = 1024,
) -> None:
    """Build a memory for each of many people from one corpus, or bring them up to date; goes on after a crash."""
    from epic_memory import Settings
    from epic_scale import build

    # It is asked once here, whether it answers at all; each worker makes its own.
    settings = model.asked(Settings(namespace=common.namespace, reserve=0))[1]
    lm = None if model.llm is None else partial(model.model, model.llm)
    how: dict[str, Any] = {"encoder": common.encoder, "llm": lm, "settings": settings, "batch_size": batch}
    report = build(corpus, people, sink, concurrency=workers, **how)
    made = f"{report.chunks} chunks, {report.known} of them known; {report.entries} entries in {report.users} memories"
    counts = {
        "not judged": (report.failed, f"chunks, for example: {''.join(report.errors[:1])}"),
        "not written": (report.unwritten, f"memories, for example: {''.join(report.errors[-1:])}"),
        "undecided": (report.undecided, "chunks, which wait in the memories"),
    }
    common.show(asdict(report), made, *(f"{name}: {count} {what}" for name, (count, what) in counts.items() if count))
