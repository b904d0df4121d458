"""Commands for memories of many people: scale build."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

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
    batch: Annotated[int, Option(min=1, help="chunks that are judged together")] = 256,
) -> None:
    """Build a memory for each of many people from one corpus, or bring them up to date; goes on after a crash."""
    from epic_memory import Settings
    from epic_scale import build

    # It is asked once here, whether it answers at all; each worker makes its own.
    settings = model.asked(Settings(namespace=common.namespace, reserve=0))[1]
    lm = None if model.llm is None else partial(model.model, model.llm)
    encoder, batch_size = common.encoder, batch
    report = build(
        corpus,
        people,
        sink,
        encoder=encoder,
        llm=lm,
        settings=settings,
        concurrency=workers,
        batch_size=batch_size,
    )
    common.show(
        asdict(report),
        f"{report.chunks} chunks, {report.known} of them known; {report.entries} entries in {report.users} memories",
        *(f"not judged: {report.failed} chunks, for example: {error}" for error in report.errors[:1] if report.failed),
        *(
            f"not written: {report.unwritten} memories, for example: {error}"
            for error in report.errors[-1:]
            if report.unwritten
        ),
        *(f"undecided: {report.undecided}, which wait in the memories" for _ in range(report.undecided > 0)),
    )
