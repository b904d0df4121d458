"""Processor of Ray Data: a dataset of chunks becomes one of judgements, in the idiom of `ray.data.llm`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from epic_memory import Settings
from epic_memory.encoders import Encoder, encoder_of
from epic_memory.errors import InvalidInputError, MissingExtraError
from epic_memory.types import checked_k
from epic_scale.judging import KINDS, Judge, columns, judged_rows
from epic_scale.people import People, preferences_of

if TYPE_CHECKING:
    from ray.data import Dataset

Row: TypeAlias = dict[str, Any]
Preferences: TypeAlias = Any
"""A dataset or rows of `user` and `preference`, a mapping from users to lists of texts, or the path of a file."""


def ray_data() -> Any:
    """Return the module `ray.data`.

    Raises:
        MissingExtraError: without Ray.
    """
    try:
        import ray.data
    except ImportError as error:
        raise MissingExtraError(error.name or "ray", "ray") from None
    return ray.data


@dataclass(frozen=True, kw_only=True)
class EpicProcessorConfig:
    """Configuration of a processor.

        config = EpicProcessorConfig(preferences="people.jsonl", concurrency=4)
        processor = build_processor(config, preprocess=lambda row: {**row, "text": row["body"]})
        kept = processor(ray.data.read_parquet("corpus")).filter(expr="keep")

    Attributes:
        preferences: Whose they are and what they are: a Ray dataset with the columns `user` and `preference`; a mapping
            from a user's id to a list of texts; a list of texts, of one user; or the path of a file that Ray reads,
            JSON lines or Parquet.
        encoder, llm, settings: As for `EpicMemory`. They go to workers, so what is no name has to be one that can be
            pickled; or `llm` is a function without arguments that makes the model: `partial(lm_of, name, url=...)`.
            Of `Settings`, `chunker` and `coarse=False` are not supported.
        concurrency: How many workers judge.
        batch_size: How many chunks are judged together, and at most again after a worker was killed.

    Raises:
        InvalidInputError: if one of them cannot be.
    """

    preferences: Preferences
    encoder: Encoder | str | None = None
    llm: Any = None
    settings: Settings = Settings()
    concurrency: int = 1
    batch_size: int = 1024

    def __post_init__(self) -> None:
        checked_k(self.batch_size, "batch_size")
        checked_k(self.concurrency, "concurrency")
        if not isinstance(self.settings, Settings):
            raise InvalidInputError("settings must be Settings(...).")
        settings = self.settings
        if settings.chunker is not None or not (settings.coarse and settings.fine):
            raise InvalidInputError(
                "A corpus is judged as it is, in both stages: cut texts into chunks before, and leave chunker, coarse"
                " and fine out of the settings."
            )

    def pool(self) -> dict[str, Any]:
        """Return the pool of workers as Ray takes it; they leave a processor to Ray for reading and sorting."""
        import ray

        cpus = min(1.0, max(0.0, ray.cluster_resources().get("CPU", 1.0) - 1.0) / self.concurrency)
        strategy = ray_data().ActorPoolStrategy(min_size=self.concurrency, max_size=self.concurrency)
        return {"compute": strategy, "num_cpus": cpus}

    def people(self, only: Iterable[str] | None = None) -> People:
        """Read the people; with a language model this asks it once for each preference.

        Args:
            only: Users to restrict them to.
        """
        found = preferences_of(self.preferences)
        chosen = found if only is None else {user: found[user] for user in only}
        return People.of(chosen, encoder_of(self.encoder), self.llm, self.settings)


def build_processor(
    config: EpicProcessorConfig,
    preprocess: Callable[[Row], Row] | None = None,
    postprocess: Callable[[Row], Row] | None = None,
) -> Callable[[Dataset], Dataset]:
    """Make a processor; it is a function from a dataset to a dataset, of which nothing is done before it is consumed.

    A row comes out for each user and preference that a chunk is kept for, with all its columns and `user, preference,
    keep, stance, instruction, confidence, score, rationale, error`. A user for whom it is not kept gets one row, with
    the nearest preference; and a chunk that passes the coarse filter for nobody stays as one row without a user. An
    error is in the column `error`, and no exception.

    Args:
        config: The configuration.
        preprocess: Makes a row with `text`, and `id` and `metadata` if it has them, of a row of the dataset.
        postprocess: Is applied to each row that comes out.

    Raises:
        MissingExtraError: without Ray.
    """
    ray_data()

    def process(dataset: Dataset) -> Dataset:
        dataset = dataset if preprocess is None else dataset.map(preprocess)
        dataset = judged(dataset, Rows, config, config.people())
        return dataset if postprocess is None else dataset.map(postprocess)

    return process


def judged(dataset: Dataset, worker: type[Rows], config: EpicProcessorConfig, people: People, *more: Any) -> Dataset:
    """Return a dataset to which workers are applied in batches."""
    import ray

    # Whose preferences they are is in `people`.
    config = replace(config, preferences=())
    try:
        ray.cloudpickle.dumps(config)
    except Exception as error:
        raise InvalidInputError(
            f"Encoder, model and settings go to other processes, and one of them cannot be pickled ({error})."
            ' Give a name, such as "static" or "openai:MODEL@URL", or for llm a function that makes it.'
        ) from None
    # A file that Ray reads as one block would be one worker's.
    return dataset.repartition(target_num_rows_per_block=config.batch_size).map_batches(
        worker,
        batch_size=config.batch_size,
        batch_format="pyarrow",
        **config.pool(),
        fn_constructor_args=(ray.put(people), config, *more),
    )


def sent(given: Any) -> Any:
    """Return what a worker is given: the object that Ray's reference is to, once for all workers of a machine."""
    ray = sys.modules.get("ray")
    return ray.get(given) if ray is not None and isinstance(given, ray.ObjectRef) else given


class Rows:
    """Worker that turns a batch of chunks into rows of judgements for some people, or Ray's reference to them."""

    def __init__(self, people: Any, config: EpicProcessorConfig) -> None:
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        self.judge = Judge(sent(people), config.encoder, config.llm, config.settings)

    def __call__(self, batch: Any) -> Any:
        """Return the rows of a batch, an Arrow table."""
        import pyarrow as pa

        found = judged_rows(self.judge, batch.to_pylist())
        taken = [row for row, each in enumerate(found) for _ in each]
        table = batch.drop_columns([name for name in KINDS if name in batch.column_names])
        table = table.take(pa.array(taken, type=pa.int64()))
        made = pa.Table.from_pylist([asdict(one) for each in found for one in each], schema=pa.schema(columns()))
        for name in KINDS:
            table = table.append_column(name, made[name])
        return table


def read(path: str | Sequence[str], storage_options: dict[str, Any] | None = None) -> Dataset:
    """Read a dataset by the ending of its name: .parquet, .jsonl, .json, .csv, .txt, or a folder of Parquet files.

    Args:
        path: A file, a folder, or several; also in a store that fsspec reaches.
        storage_options: Of that store.

    Raises:
        InvalidInputError: for another kind of file.
        MissingExtraError: without Ray.
    """
    data = ray_data()
    first = path if isinstance(path, str) else path[0]
    options: dict[str, Any] = {}
    if "://" in first:
        from fsspec.core import url_to_fs

        options["filesystem"] = url_to_fs(first, **(storage_options or {}))[0]
    name = first.rstrip("/").removesuffix(".gz")
    readers: dict[str, Callable[..., Any]] = {
        ".parquet": data.read_parquet,
        ".jsonl": partial(data.read_json, lines=True),
        ".json": data.read_json,
        ".csv": data.read_csv,
        ".txt": data.read_text,
    }
    ending = Path(name).suffix.lower()
    if ending not in readers and ending:
        raise InvalidInputError(
            f"{first} is none of {', '.join(readers)}: read it with ray.data, and give the dataset."
        )
    return readers[ending or ".parquet"](path, **options)
