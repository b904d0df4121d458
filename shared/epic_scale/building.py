"""Build of memories for many people from one corpus: judged by Ray's workers, then written, a file for each user."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from epic_memory import Item, Settings
from epic_memory.encoders import Encoder, encoder_of
from epic_memory.errors import EpicError
from epic_memory.verification.embedded import verifier_of
from epic_scale.judging import Judgement
from epic_scale.people import People, model_of
from epic_scale.processor import EpicProcessorConfig, Row, Rows, judged, preferences_of, ray_data, read
from epic_scale.work import Work, digest_of, row_schema
from epic_scale.writing import Writer

if TYPE_CHECKING:
    from ray.data import Dataset

_ERRORS_SHOWN = 5
_COUNTED = ("chunks", "known", "kept", "undecided", "failed", "users", "unwritten", "entries")
_PARTS = ("encode", "filter", "verify", "write")


@dataclass(kw_only=True)
class ScaleReport:
    """Report of a build.

    Attributes:
        chunks: Chunks that came, for each generation of users.
        known: Those of them that had been judged before.
        kept: Pairs of a chunk and a user for which it was kept.
        undecided: Pairs without a verdict, which wait in the user's memory: `memory.retry()`.
        failed: Chunks that could not be judged; the next build takes them up again.
        errors: Some of the reasons.
        users: Memories that were made or changed.
        unwritten: Memories that could not be written, for instance because a service has them in use; likewise.
        entries: Entries that they gained.
        seconds: By part, summed over all workers: encode, filter, verify, write.
    """

    chunks: int = 0
    known: int = 0
    kept: int = 0
    undecided: int = 0
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    users: int = 0
    unwritten: int = 0
    entries: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0.0))

    def add(self, row: Mapping[str, Any]) -> None:
        """Add what a worker reports of a batch."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + (row.get(name) or 0))
        for part in _PARTS:
            self.seconds[part] += row.get(part) or 0.0
        self.errors = list(dict.fromkeys([*self.errors, *(row.get("errors") or [])]))[:_ERRORS_SHOWN]


def build(
    corpus: Any,
    people: Any,
    sink: str,
    *,
    encoder: Encoder | str | None = None,
    llm: Any = None,
    settings: Settings = Settings(reserve=0),
    concurrency: int | tuple[int, int] = 1,
    batch_size: int = 256,
    num_cpus: float | None = None,
    preprocess: Callable[[Row], Row] | None = None,
    storage_options: dict[str, Any] | None = None,
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
        encoder, llm, settings, concurrency, batch_size, num_cpus: As for `EpicProcessorConfig`. By default no light
            tier is filled: `reserve=0`.
        preprocess: Makes a row with those columns of a row of the corpus.
        storage_options: Of a store that fsspec reaches.

    Raises:
        InvalidInputError: for what cannot be read, or settings that are not supported.
        MissingExtraError: without Ray.
    """
    ray_data()
    config = EpicProcessorConfig(
        preferences=preferences_of(people),
        encoder=encoder,
        llm=llm,
        settings=settings,
        concurrency=concurrency,
        batch_size=batch_size,
        num_cpus=num_cpus,
    )
    dataset = read(corpus, storage_options) if isinstance(corpus, (str, list, tuple)) else corpus
    dataset = dataset if preprocess is None else dataset.map(preprocess)
    work, report = Work(sink, storage_options), ScaleReport()
    generations, members = _generations(work, config)
    for name in [one for one in generations if one in set(members.values())]:
        users = [user for user, generation in members.items() if generation == name]
        found = config.people(users)
        options = (sink, storage_options, name)
        for row in judged(dataset, JudgedRows, config, found, *options, work.judged(name)).iter_rows():
            report.add(row)
        if not work.rows(name, written=False) and work.is_written(name):
            continue
        before = {
            user: sorted({text for other in generations.values() for text in other["people"].get(user, [])})
            for user in users
        }
        for row in _written(work, name, config, found, before, storage_options).iter_rows():
            report.add(row)
        if not report.unwritten:
            work.mark_written(name)
    for name in generations.keys() - set(members.values()) if not report.unwritten else ():
        work.remove(name)
    return report


def _generations(work: Work, config: EpicProcessorConfig) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return all generations, after beginning one for who has none, and the name of each user's."""
    encoder, settings = encoder_of(config.encoder), config.settings
    verifier = verifier_of(settings.verifier, encoder, model_of(config.llm))
    deciding = (encoder.fingerprint, verifier.name, settings.tau, settings.coarse_recall, settings.expansions)
    how = json.dumps([str(one) for one in (*deciding, settings.aspects)])
    generations, members = work.generations(), dict[str, str]()
    for name, one in generations.items():
        if one["how"] == how:
            same = (user for user, texts in one["people"].items() if config.preferences.get(user) == texts)
            members.update(dict.fromkeys(same, name))
    new = {user: texts for user, texts in config.preferences.items() if user not in members}
    if new:
        name = work.begin(how, new)
        generations[name] = {"how": how, "people": new}
        members.update(dict.fromkeys(new, name))
    return generations, members


class JudgedRows(Rows):
    """Worker that judges a batch of chunks, and writes what is kept into a file of rows.

    Args:
        people, encoder, llm, settings: As for `Rows`.
        sink, storage_options, generation: Where the rows are written.
        known: Digests of the chunks that were judged before, ascending.
    """

    def __init__(
        self,
        people: Any,
        encoder: Encoder | str | None,
        llm: Any,
        settings: Settings,
        sink: str,
        storage_options: dict[str, Any] | None,
        generation: str,
        known: NDArray[np.int64],
    ) -> None:
        super().__init__(people, encoder, llm, settings)
        self._work = Work(sink, storage_options)
        self._generation = generation
        self._known = known

    def __call__(self, batch: Any) -> Any:
        """Return one row: what was done."""
        import pyarrow as pa

        chunks = batch.to_pylist()
        items, broken = self.items(chunks)
        digests = {place: digest_of(item) for place, item in items.items()}
        found = np.searchsorted(self._known, list(digests.values()))
        old = {
            place
            for (place, one), at in zip(digests.items(), found, strict=True)
            if at < len(self._known) and self._known[at] == one
        }
        new = {place: item for place, item in items.items() if place not in old}
        before = dict(self.judge.seconds)
        judgements = dict(zip(new, self.judge.judge(list(new.values())), strict=True))
        failed = {place: each[0].error for place, each in judgements.items() if each[0].user is None and each[0].error}
        rows = [
            row
            for place, each in judgements.items()
            if place not in failed
            for row in _rows(digests[place], new[place], each)
        ]
        if rows:
            self._work.write_rows(self._generation, rows)
        pairs = [one for each in judgements.values() for one in each if one.user is not None]
        errors = [*failed.values(), *broken.values(), *(one.error for one in pairs if one.error)]
        told = {
            "chunks": len(chunks),
            "known": len(old),
            "kept": len({(row["digest"], row["user"]) for row in rows if row.get("keep")}),
            "undecided": sum(bool(one.error) for one in pairs),
            "failed": len(failed) + len(broken),
            "errors": list(dict.fromkeys(errors))[:_ERRORS_SHOWN],
            **{part: spent - before[part] for part, spent in self.judge.seconds.items()},
        }
        return pa.Table.from_pylist([told], schema=_reported())


def _reported() -> Any:
    """Return the columns of what a worker reports."""
    import pyarrow as pa

    counts = [(name, pa.int64()) for name in _COUNTED]
    return pa.schema([*counts, *((part, pa.float64()) for part in _PARTS), ("errors", pa.list_(pa.string()))])


def _rows(digest: int, item: Item, judgements: list[Judgement]) -> list[Row]:
    """Return the rows of a chunk: one that it was judged, and what it is to each user who keeps it or waits for it."""
    whole = {"text": item.text, "metadata": json.dumps(item.metadata, ensure_ascii=False)}
    rows: list[Row] = [{"digest": digest, "id": item.id}]
    rows += [
        {"digest": digest, "id": item.id, **whole, **asdict(one)}
        for one in judgements
        if one.user is not None and (one.keep or one.error)
    ]
    return rows


def _written(
    work: Work,
    generation: str,
    config: EpicProcessorConfig,
    people: People,
    before: Mapping[str, list[str]],
    storage_options: dict[str, Any] | None,
) -> Dataset:
    """Return the dataset of what workers report who write the new rows of a generation into the memories."""
    import pyarrow as pa
    import ray
    from ray.data.expressions import col

    data = ray_data()
    mine = set(people.users)
    told = [{"user": user, "id": gone, "keep": False} for user, gone in work.replaced(generation) if user in mine]
    # Whoever keeps nothing has a memory, too.
    told += [{"user": user, "keep": False} for user in mine]
    rows = data.from_arrow(pa.Table.from_pylist(told, schema=row_schema()))
    if files := work.rows(generation, written=False):
        new = data.read_parquet(files, filesystem=work.files, schema=row_schema())
        rows = rows.union(new.filter(expr=col("user").is_not_null()))
    shared = ray.put((people, before))
    # Ray's default, 200, takes longer to begin than most builds to write.
    partitions = max(1, min(len(people.users), 4 * config.workers[1]))
    return rows.groupby("user", num_partitions=partitions).map_groups(
        WrittenUsers,
        batch_format="pyarrow",
        **config.pool(),
        fn_constructor_args=(shared, work.users, config.encoder, config.llm, config.settings, storage_options),
    )


class WrittenUsers:
    """Worker that writes the rows of a user into the user's memory.

    Args:
        shared: The people, and the texts of the preferences that earlier builds gave them; or Ray's reference to both.
        root, encoder, llm, settings, storage_options: As for `Writer`.
    """

    def __init__(
        self,
        shared: Any,
        root: str,
        encoder: Encoder | str | None,
        llm: Any,
        settings: Settings,
        storage_options: dict[str, Any] | None,
    ) -> None:
        import ray

        people, self._before = ray.get(shared) if isinstance(shared, ray.ObjectRef) else shared
        self._preferences = {
            user: [people.preferences[place] for place in places]
            for user, places in zip(people.users, people.held, strict=True)
        }
        self._writer = Writer(root, people.verifier, encoder, llm, settings, storage_options)

    def __call__(self, group: Any) -> Any:
        """Return one row: what was done for this user."""
        import pyarrow as pa

        rows = group.to_pylist()
        user = rows[0]["user"]
        gone = [row["id"] for row in rows if row["id"] is not None and row["text"] is None]
        judged: dict[str, tuple[Item, list[Judgement]]] = {}
        for row in rows:
            if row["text"] is not None:
                item = Item(id=row["id"], text=row["text"], metadata=json.loads(row["metadata"]))
                one = Judgement(**{name: row[name] for name in Judgement.__dataclass_fields__})
                judged.setdefault(item.id, (item, []))[1].append(one)
        told: dict[str, Any]
        try:
            told = self._writer.write(user, self._preferences[user], self._before[user], judged, gone)
        except EpicError as error:
            told = {"unwritten": 1, "errors": [str(error)]}
        return pa.Table.from_pylist([told], schema=_reported())
