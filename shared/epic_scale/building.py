"""Build of memories for many people from one corpus: judged by Ray's workers, then written, a file for each user."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epic_memory import Item, Settings
from epic_memory.encoders import encoder_of
from epic_memory.types import FloatArray
from epic_memory.verification.embedded import verifier_of
from epic_scale.judging import Judgement, items_of
from epic_scale.people import People, model_of, preferences_of
from epic_scale.processor import EpicProcessorConfig, Row, Rows, judged, ray_data, read
from epic_scale.reports import ScaleReport, reported
from epic_scale.work import Work, digest_of, key_of, row_schema
from epic_scale.writing import Writer

if TYPE_CHECKING:
    from ray.data import Dataset


def build(
    corpus: Any,
    people: Any,
    sink: str,
    *,
    preprocess: Callable[[Row], Row] | None = None,
    storage_options: dict[str, Any] | None = None,
    **config: Any,
) -> ScaleReport:
    """Build a memory for each of many people from a corpus, or bring them up to date.

    The memories hold what `EpicMemory.add` would keep for each user by themselves. A build that was killed goes on
    where it was; one of a corpus with new or changed chunks, or for people some of whom have other preferences, does
    only what these take. What else is in a memory, such as the user's own facts, stays. A chunk that has left the
    corpus stays in the memories, too.

    Args:
        corpus: A Ray dataset, or the path of one (`read`), with the column `text`, and `id` and `metadata` if it has
            them.
        people: As `EpicProcessorConfig.preferences`.
        sink: A folder, or an address that fsspec reaches; the memories are in `users`, which is the root of a
            `MemoryPool`.
        preprocess: Makes a row with those columns of a row of the corpus.
        storage_options: Of a store that fsspec reaches.
        config: The other fields of `EpicProcessorConfig`. By default no light tier is filled: `Settings(reserve=0)`.

    Raises:
        InvalidInputError: for what cannot be read, or settings that are not supported.
        LeaseError: if another build writes into the sink.
        MissingExtraError: without Ray.
    """
    ray_data()
    how = EpicProcessorConfig(preferences=preferences_of(people), **{"settings": Settings(reserve=0), **config})
    dataset = read(corpus, storage_options) if isinstance(corpus, (str, list, tuple)) else corpus
    dataset = dataset if preprocess is None else dataset.map(preprocess)
    work, report = Work(sink, storage_options), ScaleReport()
    with work.alone():
        generations, members = _generations(work, how)
        for name in [one for one in generations if one in set(members.values())]:
            users = [user for user, generation in members.items() if generation == name]
            before = {
                user: sorted({text for other in generations.values() for text in other["people"].get(user, [])})
                for user in users
            }
            _build(dataset, name, how, how.people(users), before, work, report)
        for name in generations.keys() - set(members.values()) if not report.unwritten else ():
            work.remove(name)
    return report


def _build(
    dataset: Dataset,
    generation: str,
    config: EpicProcessorConfig,
    people: People,
    before: Mapping[str, list[str]],
    work: Work,
    report: ScaleReport,
) -> None:
    """Judge what is new for a generation of users, and write it into their memories."""
    for row in judged(dataset, JudgedRows, config, people, work, generation, work.judged(generation)).iter_rows():
        report.add(row)
    # What a worker writes from now on is not among these.
    written, new = work.rows(generation)
    if not new and work.is_written(generation):
        return
    work.check_newest()
    for row in _written(new, config, people, before, work).iter_rows():
        report.add(row)
    work.check_newest()
    if not report.unwritten:
        work.mark_written(generation, (*written, *new))


def _generations(work: Work, config: EpicProcessorConfig) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return all generations, after beginning one for who has none, and the name of each user's."""
    encoder, settings = encoder_of(config.encoder), config.settings
    verifier = verifier_of(settings.verifier, encoder, model_of(config.llm))
    deciding = (encoder.fingerprint, verifier.name, settings.tau, settings.coarse_recall, settings.expansions)
    how = json.dumps([str(one) for one in (*deciding, settings.aspects)])
    generations, newest = work.generations(), dict[str, str]()
    # Who left a generation and comes back to its preferences begins anew: meanwhile it went on without them.
    for name in sorted(generations, key=lambda name: generations[name].get("build", 0)):
        newest.update(dict.fromkeys(generations[name]["people"], name))
    members = {
        user: name
        for user, name in newest.items()
        if generations[name]["how"] == how and config.preferences.get(user) == generations[name]["people"][user]
    }
    new = {user: texts for user, texts in config.preferences.items() if user not in members}
    if new:
        name = work.begin(how, new)
        generations[name] = {"how": how, "people": new}
        members.update(dict.fromkeys(new, name))
    return generations, members


class JudgedRows(Rows):
    """Worker that judges a batch of chunks, and writes what is kept into a file of rows.

    Args:
        people, config: As for `Rows`.
        work: The build's.
        generation: Whose rows they are.
        known: Digests of the chunks that were judged before, ascending.
    """

    def __init__(
        self, people: Any, config: EpicProcessorConfig, work: Work, generation: str, known: NDArray[np.int64]
    ) -> None:
        super().__init__(people, config)
        self._work, self._generation, self._known = work, generation, known

    def __call__(self, batch: Any) -> Any:
        """Return one row: what was done."""
        chunks = batch.to_pylist()
        items, broken = items_of(chunks)
        digests = np.array([digest_of(item) for item in items.values()], dtype=np.int64)
        known = np.searchsorted(self._known, digests) != np.searchsorted(self._known, digests, "right")
        new = {place: item for (place, item), old in zip(items.items(), known, strict=True) if not old}
        before = dict(self.judge.seconds)
        judgements = dict(zip(new, self.judge.judge(list(new.values())), strict=True))
        failed = {place: each[0].error for place, each in judgements.items() if each[0].user is None and each[0].error}
        # All have failed where there are no embeddings.
        vectors = {} if len(failed) == len(new) else dict(zip(new, self.judge.embeddings, strict=True))
        rows = [row for place, vector in vectors.items() for row in _rows(new[place], vector, judgements[place])]
        if rows:
            self._work.write_rows(self._generation, rows)
        pairs = [one for each in judgements.values() for one in each if one.user is not None]
        return reported(
            [*failed.values(), *broken.values(), *(one.error for one in pairs if one.error)],
            chunks=len(chunks),
            known=int(known.sum()),
            kept=len({(row["digest"], row["user"]) for row in rows if row.get("keep")}),
            undecided=sum(bool(one.error) for one in pairs),
            failed=len(failed) + len(broken),
            **{part: spent - before[part] for part, spent in self.judge.seconds.items()},
        )


def _rows(item: Item, vector: FloatArray, judgements: list[Judgement]) -> list[Row]:
    """Return the rows of a chunk: one that it was judged, and what it is to each user who keeps it or waits for it."""
    named: Row = {"key": key_of(item), "digest": digest_of(item), "id": item.id}
    metadata = json.dumps(item.metadata, ensure_ascii=False)
    whole = {"text": item.text, "metadata": metadata, "vector": vector.tobytes()}
    there = [one for one in judgements if one.user is not None and (one.keep or one.error)]
    return [named, *({**named, **whole, **asdict(one)} for one in there)]


def _written(
    files: list[str], config: EpicProcessorConfig, people: People, before: Mapping[str, list[str]], work: Work
) -> Dataset:
    """Return the dataset of what workers report who write new files of rows into the memories."""
    import pyarrow as pa
    import ray
    from ray.data.expressions import col

    data, mine = ray_data(), set(people.users)
    replaced, stale = work.replaced(files)
    told = [{"user": user, "id": gone, "keep": False} for user, gone in replaced if user in mine]
    # Whoever keeps nothing has a memory, too.
    told += [{"user": user, "keep": False} for user in mine]
    rows = data.from_arrow(pa.Table.from_pylist(told, schema=row_schema()))
    if files:
        new = data.read_parquet(files, filesystem=work.files, schema=row_schema())
        new = new.filter(expr=col("user").is_not_null())
        rows = rows.union(new.filter(expr=col("digest").not_in(stale)) if stale else new)
    # Ray's default, 200, takes longer to begin than most builds to write.
    partitions = max(1, min(len(people.users), 4 * config.concurrency))
    return rows.groupby("user", num_partitions=partitions).map_groups(
        Writer,
        batch_format="pyarrow",
        **config.pool(),
        fn_constructor_args=(ray.put((people, before)), replace(config, preferences=()), work),
    )
