"""Building for many people: chunks a second by stage, against `EpicMemory.add` for one after the other, and with Ray.

    python tests/benchmarks/bench_scale_out.py ../shared/data --chunks 1000 10000 --people 100
    python tests/benchmarks/bench_scale_out.py ../shared/data --chunks 10000 --people 100 --workers 1 2
    python tests/benchmarks/bench_scale_out.py ../shared/data --chunks 1000000 --workers 2 --folder /var/tmp/scale

Without `--workers` the stages run in this process, so that their seconds are those of the processor. Chunks beyond
those of the data folder are its passages with another number. The loop over `add` is measured on some of the people.
With one and two workers of Ray the speed-up is printed beside what two independent processes reach here that judge the
same chunks. `--folder` is kept, with the corpus and the memories: a run that was killed goes on. A cost model of such
runs is fitted by `bench_plan.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# As Ray gives each worker; read when NumPy is imported. A second one waits in a loop that counts as processor time.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

from common import passage_texts, peak_ram, preferences_in, print_load, script_options
from epic_memory import EpicMemory, Item, Settings
from epic_memory.encoders import encoder_of
from epic_scale.judging import Judge, Judgement
from epic_scale.people import People
from epic_scale.processor import EpicProcessorConfig
from epic_scale.work import Work
from epic_scale.writing import Writer

_BATCH = 1024
_PARTS = ("people", "encode", "filter", "verify", "write")
_LOOPED = 5
_ALONE, _ALONE_CHUNKS = 3, 2000
_IN_A_FILE = 20_000
SETTINGS = Settings(reserve=0)


def corpus(texts: Sequence[str], end: int, start: int = 0) -> list[Item]:
    """Chunks from one number to another, of which no two are the same."""
    return [
        Item(id=f"chunk {n}", text=texts[n % len(texts)] + (f" ({n})" if n >= len(texts) else ""))
        for n in range(start, end)
    ]


def staged(people: dict[str, list[str]], items: list[Item]) -> dict[str, float]:
    """Seconds of the processor by stage, and what came out."""
    encoder, started = encoder_of("static"), time.process_time()
    found = People.of(people, encoder, settings=SETTINGS)
    spent = {"people": time.process_time() - started}
    judge = Judge(found, encoder, settings=SETTINGS)
    kept: dict[str, dict[str, tuple[Item, list[Judgement]]]] = {user: {} for user in people}
    pairs, vectors, started = 0, {}, time.process_time()
    for start in range(0, len(items), _BATCH):
        batch = items[start : start + _BATCH]
        judged = judge.judge(batch)
        for item, vector, judgements in zip(batch, judge.embeddings, judged, strict=True):
            pairs += sum(one.user is not None for one in judgements)
            for one in judgements:
                if one.user is not None and one.keep:
                    kept[one.user].setdefault(item.id, (item, []))[1].append(one)
                    vectors[item.content] = vector
    whole = time.process_time() - started
    clock = sum(judge.seconds.values())
    # The stages are timed by the clock: shares of it, of the processor's seconds.
    spent |= {part: whole * seconds / clock for part, seconds in judge.seconds.items()}
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        config = EpicProcessorConfig(preferences=people, encoder=encoder, settings=SETTINGS)
        writer = Writer((found, dict.fromkeys(people, ())), config, Work(folder))
        writer.encoder.known = vectors
        for user in people:
            writer.write(user, list(kept[user].values()))
        writer.close()
        spent["write"] = time.process_time() - started
        spent["bytes"] = sum(file.stat().st_size for file in Path(folder).rglob("*.epic"))
    compared, dimension = judge._coarse.vectors.shape
    entries = sum(len(one) for each in kept.values() for _, one in each.values())
    return spent | {"pairs": pairs, "entries": entries, "vectors": compared, "dimension": dimension}


def looped(people: dict[str, list[str]], items: list[Item]) -> float:
    """Seconds of the processor for `add`, one memory after the other; measured on some, for all."""
    encoder, some = encoder_of("static"), list(people)[:_LOOPED]
    started = time.process_time()
    for user in some:
        with EpicMemory(people[user], encoder=encoder, settings=SETTINGS) as memory:
            memory.add(items)
    return (time.process_time() - started) / len(some) * len(people)


class Peaks(dict[str, float]):
    """Most MB of RAM at once: of this process, of a worker of Ray, and of Ray's object store."""

    def look(self) -> None:
        """Look once, in `/proc` and at what Ray says."""
        import ray

        whole, free = (
            each().get("object_store_memory", 0.0) for each in (ray.cluster_resources, ray.available_resources)
        )
        self._raise("object store", (whole - free) / 1e6)
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                lines = (folder / "status").read_text().splitlines()
            except OSError:
                continue
            held = {
                name: int(value.split()[0]) / 1e3
                for name, _, value in (line.partition(":") for line in lines)
                if name.startswith("Rss")
            }
            if int(folder.name) == os.getpid():
                self._raise("driver", held["RssAnon"])
            elif command.startswith(b"ray::"):
                self._raise("worker", held["RssAnon"])

    def _raise(self, name: str, found: float) -> None:
        self[name] = max(found, self.get(name, 0.0))

    def __str__(self) -> str:
        return ", ".join(f"{name} {self[name]:.0f} MB" for name in sorted(self))


@contextmanager
def watched(every: float = 2.0) -> Iterator[Peaks]:
    """Yield the peaks of RAM, looked for now and then."""
    peaks, ended = Peaks(), threading.Event()

    def watch() -> None:
        while not ended.wait(every):
            peaks.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def written(texts: Sequence[str], count: int, folder: Path) -> str:
    """Write a corpus as Parquet, some chunks in a file, and return its folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    for start in range(0, count, _IN_A_FILE):
        path = folder / f"{start:09}.parquet"
        if not path.exists():
            rows = [{"id": one.id, "text": one.text} for one in corpus(texts, min(count, start + _IN_A_FILE), start)]
            pq.write_table(pa.Table.from_pylist(rows), f"{path}.new")
            Path(f"{path}.new").rename(path)
    return str(folder)


def with_ray(people: dict[str, list[str]], texts: Sequence[str], size: int, workers: int, folder: Path) -> float:
    """Print what `build` takes with so many workers, and return its seconds by the clock."""
    import ray

    from epic_scale import build

    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False
    given = written(texts, size, folder / "corpus")
    with watched() as peaks:
        started = time.perf_counter()
        report = build(given, people, str(folder / "sink"), encoder="static", concurrency=workers)
        clock = time.perf_counter() - started
    whole = sum(report.seconds.values())
    parts = ", ".join(f"{part} {seconds / whole:.0%}" for part, seconds in report.seconds.items())
    print(
        f"{size} chunks x {len(people)} people, {workers} workers: {clock:.1f} s of the clock,"
        f" {(size - report.known) / clock:.0f} chunks a second; {whole:.1f} s in workers ({parts});"
        f" {report.known} were known, {report.failed} failed, {report.entries} entries; peak RAM: {peaks}",
        flush=True,
    )
    return clock


_judges: list[tuple[Judge, list[Item]]] = []


def _ready(people: dict[str, list[str]], items: list[Item]) -> None:
    encoder = encoder_of("static")
    _judges.append((Judge(People.of(people, encoder, settings=SETTINGS), encoder, settings=SETTINGS), items))
    _judged(0)


def _judged(_: int) -> None:
    judge, items = _judges[0]
    for start in range(0, len(items), _BATCH):
        judge.judge(items[start : start + _BATCH])


def ceiling(people: dict[str, list[str]], texts: Sequence[str]) -> float:
    """Return by how much two processes that share nothing judge faster than one; in turns, as the load changes."""
    found = []
    context = multiprocessing.get_context("spawn")
    given = people, corpus(texts, _ALONE_CHUNKS)
    with context.Pool(1, _ready, given) as one, context.Pool(1, _ready, given) as other:
        for pool in (one, other):
            pool.apply(_judged, (0,))
        for _ in range(_ALONE):
            started = time.perf_counter()
            one.apply(_judged, (0,))
            alone = time.perf_counter() - started
            running = [pool.apply_async(_judged, (0,)) for pool in (one, other)]
            for each in running:
                each.get()
            found.append(2 * alone / (time.perf_counter() - started - alone))
    return statistics.median(found)


def main() -> None:
    options = script_options(__doc__, data=True, chunks=[1000], people=[100], workers=[int], folder=Path)
    if options.folder and max(map(len, (options.chunks, options.people, options.workers))) > 1:
        sys.exit("--folder is for one number of chunks, of people and of workers")
    preferences = preferences_in(options.data)
    texts = passage_texts(options.data)
    print_load()
    for count in options.people:
        chance = random.Random(count)
        people = {f"user {n}": chance.sample(preferences, 4) for n in range(count)}
        for size in options.chunks:
            if options.folder and options.workers:
                options.folder.mkdir(parents=True, exist_ok=True)
                with_ray(people, texts, size, options.workers[0], options.folder)
            elif options.workers:
                clocks = {}
                for workers in options.workers:
                    with tempfile.TemporaryDirectory() as folder:
                        clocks[workers] = with_ray(people, texts, size, workers, Path(folder))
                if {1, 2} <= clocks.keys():
                    print(
                        f"speed-up {clocks[1] / clocks[2]:.2f} of {ceiling(people, texts):.2f} that two independent"
                        " processes reach"
                    )
            else:
                in_this_process(people, corpus(texts, size))


def in_this_process(people: dict[str, list[str]], items: list[Item]) -> None:
    """Print the seconds of the stages, and of the loop over `add`."""
    spent, loop = staged(people, items), looped(people, items)
    whole = sum(spent[part] for part in _PARTS)
    parts = ", ".join(f"{part} {spent[part] / whole:.0%}" for part in _PARTS)
    print(
        f"{len(items)} chunks x {len(people)} people: {whole:.1f} s of the processor, {len(items) / whole:.0f} chunks a"
        f" second ({parts}); {spent['entries']:.0f} entries of {spent['pairs']:.0f} pairs; the loop over add"
        f" {loop:.1f} s, {loop / whole:.1f} times; peak RAM {peak_ram() / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
