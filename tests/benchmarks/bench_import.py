"""Import and sync at size: time, peak memory and bytes.

    python tests/benchmarks/bench_import.py [--conversations 10000] [--files 10000]

Needs no data: a ChatGPT export and a folder of notes are made up in a temporary folder.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
import zipfile
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any

from common import clock_and_cpu, peak_ram, script_options
from epic_apps import SyncReport, import_from, sync
from epic_apps.syncing import watch
from epic_memory import EpicMemory, Settings

FOODS = "tea,soup,bread,rice,beans,cake,noodles,mushrooms,peppers,apples,plums,figs,oats,barley,tofu,cheese"
HOW = "red,green,sweet,salty,fried,cold,hot,raw,spicy,plain,smoked,baked"
WORDS = "river,stone,lamp,garden,violin,market,harbour,winter,letter,kitchen,engine,hotel,casino,train,recipe"
ASKED = "How do I {} a list in Python? Please show me an example, and say what it costs."
ANSWER = "You can do it in several ways, of which the first is the usual one. " * 30


def conversation(rng: random.Random, number: int) -> dict[str, Any]:
    """Make a conversation of ten messages; every third says something of the user."""
    said = [ASKED.format(rng.choice(WORDS.split(","))) for _ in range(5)]
    if number % 3 == 0:
        said[1] = f"I really love {rng.choice(HOW.split(','))} {rng.choice(FOODS.split(','))}. What should I cook?"
    if number % 10 == 0:
        said[2] = f"I work as a nurse in ward {number}."
    mapping: dict[str, Any] = {}
    parent = None
    for place, (role, text) in enumerate(
        (role, text) for each in said for role, text in (("user", each), ("assistant", ANSWER))
    ):
        message = {"author": {"role": role}, "create_time": 1.6e9 + 1000 * number + place,
                   "content": {"content_type": "text", "parts": [text]}}  # fmt: skip
        mapping[str(place)] = {"id": str(place), "message": message, "parent": parent, "children": []}
        parent = str(place)
    return {"title": f"Chat {number}", "mapping": mapping, "current_node": parent, "id": str(number)}


def export(path: Path, count: int) -> None:
    """Write an export, conversation by conversation."""
    rng = random.Random(1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("conversations.json", "w") as file:
        for number in range(count):
            file.write(b"[" if number == 0 else b",")
            file.write(json.dumps(conversation(rng, number)).encode())
        file.write(b"]")


def measure_import(folder: Path, count: int) -> None:
    """Import an export, and import it again."""
    path = folder / "chatgpt.zip"
    export(path, count)
    with zipfile.ZipFile(path) as archive:
        size = sum(each.file_size for each in archive.infolist())
    with EpicMemory.open(folder / "me.epic") as memory:
        memory.proposals.propose("I love tea.")  # loads the models
        before, reports = peak_ram(), []
        for again in ("first", "again"):
            seconds, cpu = clock_and_cpu(lambda: reports.append(import_from(memory, path)))
            report = reports[-1]
            print(
                f"import {again}: {report.conversations:,} conversations, {size / 1e6:.0f} MB of JSON, {report.known:,}"
                f" known, {report.proposed:,} proposals, {seconds:.1f} s ({cpu:.1f} s of CPU),"
                f" {(peak_ram() - before) / 1e6:.0f} MB of memory more at the peak"
            )
    print(f"file: {(folder / 'me.epic').stat().st_size / 1e6:.2f} MB")


def measure_sync(folder: Path, count: int) -> None:
    """Sync a folder, then again after nothing and after one edit, and watch it."""
    notes, rng = folder / "notes", random.Random(1)
    for number in range(count):
        path = notes / str(number % 100) / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Note {number}: {' '.join(rng.choices(WORDS.split(','), k=30))}.", encoding="utf-8")
        os.utime(path, (1.6e9, 1.6e9))
    room = Settings(reserve="20 MB")  # for all of them
    with EpicMemory.open(folder / "notes.epic", ["I avoid hotels with casinos."], settings=room) as memory:
        for what in ("first", "nothing changed", "one edit", "one edit", "one edit"):
            if what == "one edit":
                path = notes / "7" / "7.md"
                path.write_text(f"Another text, of {time.time_ns()}.", encoding="utf-8")
                os.utime(path, ns=(0, time.time_ns() - 10**13))
            seconds, cpu = clock_and_cpu(lambda: sync(memory, notes))
            print(f"sync of {count:,} files, {what}: {1000 * seconds:.0f} ms ({1000 * cpu:.0f} ms of CPU)")
        measure_watch(memory, notes, count)
    print(f"file: {(folder / 'notes.epic').stat().st_size / 1e6:.2f} MB")


def measure_watch(memory: EpicMemory, notes: Path, count: int) -> None:
    """Edit a file of a folder that is watched, several times."""
    reports: Queue[SyncReport] = Queue()
    stop = Event()
    told = {"on_report": lambda _, report: reports.put(report), "stop": stop}
    watching = Thread(target=watch, args=(memory, [notes]), kwargs=told, daemon=True)
    watching.start()
    reports.get(timeout=60)
    for number in range(3):
        time.sleep(3)  # until the watch has begun, and what was edited before is old
        (notes / "8" / "8.md").write_text(f"Yet another text, number {number}.", encoding="utf-8")
        started, processed = time.perf_counter(), time.process_time()
        report = reports.get(timeout=60)
        waited = time.perf_counter() - started
        cpu = time.process_time() - processed
        print(
            f"watch of {count:,} files, one edit: {1000 * report.seconds:.0f} ms ({1000 * cpu:.0f} ms of CPU),"
            f" {waited:.1f} s after it"
        )
    stop.set()
    watching.join(10)


def main() -> None:
    asked = script_options(__doc__, conversations=10_000, files=10_000)
    with tempfile.TemporaryDirectory() as folder:
        if asked.conversations:
            measure_import(Path(folder), asked.conversations)
        if asked.files:
            measure_sync(Path(folder), asked.files)


if __name__ == "__main__":
    main()
