"""The page of `epic inspect` on a memory of many items: seconds until the first page, milliseconds of each view.

The texts are made up from templates, so no data folder is needed. The aims are a first page in under 1 s after the
memory was opened, opening included, and a view of a query in under 100 ms. Times are those of the server: requests go
through the ASGI application, without a network.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

from starlette.testclient import TestClient

from epic_apps.inspect import inspect_app
from epic_apps.inspect.app import read_ahead
from epic_memory import EpicMemory, Settings

PREFERENCES = [
    "I avoid hotels with on-site casinos.",
    "I like quiet hotels near the sea.",
    "I follow a strict vegan diet.",
    "I prefer trains over flights.",
    "I like to exercise outdoors.",
    "I can't bear horror films.",
]
KINDS = ["hotel", "restaurant", "train", "flight", "gym", "film", "museum", "garden", "concert", "museum café"]
TRAITS = ["quiet", "near the sea", "with a casino", "vegan", "outdoors", "full of horror", "cheap", "historic", "new"]
PLACES = ["Porto", "Lisbon", "Lyon", "Turin", "Ghent", "Leeds", "Malmö", "Graz", "Cork", "Bilbao"]
TOKEN = "a-token-that-is-long-enough"
VIEWS = ["/", "/preferences", "/held", "/held?tier=light&page=20", "/map", "/turned-away", "/facts", "/proposals"]
QUESTIONS = ["Where should I stay?", "What should I cook tonight?", "How do I get to Lyon?", "What shall we watch?"]


def texts(count: int) -> list[str]:
    """Made-up texts, all different."""
    chosen = random.Random(0)
    return [
        f"Number {number}: a {chosen.choice(KINDS)} in {chosen.choice(PLACES)}, {chosen.choice(TRAITS)} and"
        f" {chosen.choice(TRAITS)}. Guests say that it is {chosen.choice(TRAITS)}. It opened in {1900 + number % 120}."
        for number in range(count)
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--items", type=int, default=5000)
    options.add_argument("--runs", type=int, default=5)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.epic"
        with EpicMemory.open(path, PREFERENCES, settings=Settings(reserve="50 MB")) as memory:
            memory.add(texts(asked.items))
            counts = memory.stats().counts
        print(f"{counts['items']} kept and {counts['light']} held by their text; {path.stat().st_size / 1e6:.1f} MB")

        begun, used = time.perf_counter(), time.process_time()
        with EpicMemory.open(path, settings=Settings(must_exist=True, read_only=True)) as memory:
            client = TestClient(inspect_app(memory, token=TOKEN, port=8123), base_url="http://127.0.0.1:8123")
            client.get("/", params={"token": TOKEN}).raise_for_status()
            used = time.process_time() - used
            print(f"{time.perf_counter() - begun:8.2f} s   opened, and the first page ({used:.2f} s of processor time)")
            begun = time.perf_counter()
            read_ahead(memory)
            print(f"{time.perf_counter() - begun:8.2f} s   read ahead, while the browser starts")
            begun = time.perf_counter()
            client.get("/query", params={"q": "Which concert?"}).raise_for_status()
            print(f"{1000 * (time.perf_counter() - begun):8.0f} ms  the first query")
            for name in [*VIEWS, *(f"/query?q={question}" for question in QUESTIONS)]:
                seconds = []
                for _ in range(asked.runs):
                    begun = time.perf_counter()
                    size = len(client.get(name).raise_for_status().content)
                    seconds.append(time.perf_counter() - begun)
                print(f"{1000 * statistics.median(seconds):8.0f} ms  {size / 1000:6.0f} kB  {name}")


if __name__ == "__main__":
    main()
