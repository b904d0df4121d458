"""What EpicStore costs beside LangGraph's InMemoryStore in listing, filtering and naming namespaces: no data needed."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore

from epic_langchain import EpicStore

USERS = 240
CITIES = ("Porto", "Lisbon", "Vienna", "Graz", "Turin")


def fill(store: BaseStore, count: int) -> None:
    """Put items of many users into a store."""
    store.batch(
        PutOp(
            ("users", f"user {number % USERS}", "notes" if number % 2 else "plans"),
            f"item {number}",
            {"text": f"Note {number} of a trip to {CITIES[number % 5]}.", "city": CITIES[number % 5], "year": number},
            index=False,
        )
        for number in range(count)
    )


def asked() -> dict[str, Callable[[BaseStore], object]]:
    """Return what is measured, by its name."""
    return {
        "a user's page": lambda store: store.search(("users", "user 7")),
        "first page of all": lambda store: store.search(("users",)),
        "page 100 of all": lambda store: store.search((), offset=1000, limit=10),
        "everything": lambda store: store.search((), limit=100_000),
        "filter, equal": lambda store: store.search(("users",), filter={"city": "Graz"}),
        "filter, in a user": lambda store: store.search(("users", "user 7"), filter={"city": "Graz"}),
        "filter, none": lambda store: store.search((), filter={"city": "Rome"}),
        "filter, above": lambda store: store.search((), filter={"year": {"$gte": 2000}}, limit=20),
        "namespaces": lambda store: store.list_namespaces(),
        "namespaces, depth 2": lambda store: store.list_namespaces(prefix=("users",), max_depth=2, limit=500),
        "namespaces, by end": lambda store: store.list_namespaces(suffix=("notes",)),
        "get": lambda store: store.get(("users", "user 7", "notes"), "item 7"),
    }


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--items", type=int, default=2400)
    made.add_argument("--runs", type=int, default=100)
    options = made.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stores: dict[str, BaseStore] = {
            "memory": InMemoryStore(),
            "ram": EpicStore(),
            "file": EpicStore(Path(folder) / "agent.store"),
        }
        for store in stores.values():
            fill(store, options.items)
        print(f"{options.items} items, median of {options.runs}, in microseconds")
        for name, ask in asked().items():
            taken: dict[str, list[float]] = {kind: [] for kind in stores}
            for _ in range(options.runs):
                # In turns, so that whatever else goes on touches all of them alike.
                for kind, store in stores.items():
                    started = time.perf_counter()
                    ask(store)
                    taken[kind].append(time.perf_counter() - started)
            medians = {kind: 1e6 * statistics.median(seconds) for kind, seconds in taken.items()}
            ratios = ", ".join(
                f"{kind} {medians[kind]:,.0f} ({medians[kind] / medians['memory']:.1f} times)"
                for kind in ("ram", "file")
            )
            print(f"{name:<20} InMemoryStore {medians['memory']:,.0f}, EpicStore in {ratios}")


if __name__ == "__main__":
    main()
