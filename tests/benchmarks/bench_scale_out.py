"""Building for many people: chunks a second by stage, against `EpicMemory.add` for one after the other.

    python tests/benchmarks/bench_scale_out.py ../shared/data --chunks 1000 10000 --people 100
    python tests/benchmarks/bench_scale_out.py ../shared/data --chunks 10000 --people 100 --ray 1 2

Without `--ray` the stages run in this process, so that their seconds are those of the processor. Chunks beyond those of
the data folder are its passages with another number. The loop over `add` is measured on some of the people. A
cost model of such runs is fitted by `bench_plan.py`.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench_pool import preferences_in
from common import parse, parser, read_jsonl
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
SETTINGS = Settings(reserve=0)


def corpus(texts: Sequence[str], count: int) -> list[Item]:
    """So many chunks, of which no two are the same."""
    return [
        Item(id=f"chunk {n}", text=texts[n % len(texts)] + (f" ({n})" if n >= len(texts) else "")) for n in range(count)
    ]


def staged(people: dict[str, list[str]], items: list[Item]) -> dict[str, float]:
    """Seconds of the processor by stage, and what came out."""
    encoder, started = encoder_of("static"), time.process_time()
    found = People.of(people, encoder, settings=SETTINGS)
    spent = {"people": time.process_time() - started}
    judge = Judge(found, encoder, settings=SETTINGS)
    kept: dict[str, dict[str, tuple[Item, list[Judgement]]]] = {user: {} for user in people}
    pairs, started = 0, time.process_time()
    for start in range(0, len(items), _BATCH):
        batch = items[start : start + _BATCH]
        for item, judgements in zip(batch, judge.judge(batch), strict=True):
            pairs += sum(one.user is not None for one in judgements)
            for one in judgements:
                if one.user is not None and one.keep:
                    kept[one.user].setdefault(item.id, (item, []))[1].append(one)
    whole = time.process_time() - started
    clock = sum(judge.seconds.values())
    # The stages are timed by the clock: shares of it, of the processor's seconds.
    spent |= {part: whole * seconds / clock for part, seconds in judge.seconds.items()}
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        config = EpicProcessorConfig(preferences=people, encoder=encoder, settings=SETTINGS)
        writer = Writer((found, dict.fromkeys(people, ())), config, Work(folder))
        for user in people:
            writer.write(user, list(kept[user].values()))
        writer.close()
        spent["write"] = time.process_time() - started
        spent["bytes"] = sum(file.stat().st_size for file in Path(folder).rglob("*.epic"))
    vectors, dimension = judge._coarse.vectors.shape
    entries = sum(len(one) for each in kept.values() for _, one in each.values())
    return spent | {"pairs": pairs, "entries": entries, "vectors": vectors, "dimension": dimension}


def looped(people: dict[str, list[str]], items: list[Item]) -> float:
    """Seconds of the processor for `add`, one memory after the other; measured on some, for all."""
    encoder, some = encoder_of("static"), list(people)[:_LOOPED]
    started = time.process_time()
    for user in some:
        with EpicMemory(people[user], encoder=encoder, settings=SETTINGS) as memory:
            memory.add(items)
    return (time.process_time() - started) / len(some) * len(people)


def with_ray(people: dict[str, list[str]], items: list[Item], workers: Sequence[int]) -> None:
    """Print what `build` takes with so many workers."""
    import ray

    from epic_scale import build

    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.from_items([{"id": item.id, "text": item.text} for item in items]).materialize()
    for count in workers:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            report = build(dataset, people, folder, encoder="static", concurrency=count)
            clock = time.perf_counter() - started
        parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in report.seconds.items())
        print(f"{count} workers: {clock:.1f} s of the clock, {report.entries} entries; seconds in workers: {parts}")


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--chunks", type=int, nargs="+", default=[1000])
    made.add_argument("--people", type=int, nargs="+", default=[100])
    made.add_argument("--ray", type=int, nargs="*", default=[])
    options = parse(made)
    preferences = preferences_in(options.data)
    texts = [row["text"] for row in read_jsonl(options.data / "wiki_passages.jsonl")]
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for count in options.people:
        chance = random.Random(count)
        people = {f"user {n}": chance.sample(preferences, 4) for n in range(count)}
        for size in options.chunks:
            items = corpus(texts, size)
            if options.ray:
                with_ray(people, items, options.ray)
                continue
            spent = staged(people, items)
            loop, whole = (
                looped(people, items),
                sum(spent[part] for part in ("people", "encode", "filter", "verify", "write")),
            )
            parts = ", ".join(f"{part} {spent[part] / whole:.0%}" for part in _PARTS)
            print(
                f"{size} chunks x {count} people: {whole:.1f} s of the processor, {size / whole:.0f} chunks a second"
                f" ({parts}); {spent['entries']:.0f} entries of {spent['pairs']:.0f} pairs; the loop over add"
                f" {loop:.1f} s, {loop / whole:.1f} times; peak RAM"
                f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB"
            )


if __name__ == "__main__":
    main()
