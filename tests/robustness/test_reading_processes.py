"""Several memories on one file, in one process and in several: what one commits, the others find."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import helpers
from epic_memory import EpicMemory, Hits, Item, Preference, Settings
from epic_memory.errors import EncoderMismatchError
from epic_memory.pipeline import removal
from epic_memory.storage.sqlite import database as database_module
from epic_memory.storage.tables.items import Items
from helpers import Clock, HashEncoder, KeepAll, memory_at, together

pytestmark = pytest.mark.usefixtures("locking")

WINE, SEA, TRAIN = "red wine", "blue sea", "night train"
ITEMS = [
    Item(id="wine", text="red wine from far away"),
    Item(id="both", text="red wine at blue sea"),
    Item(id="three", text="red wine at blue sea in night train"),
    Item(id="sea", text="blue sea in summer"),
]
# A watchdog: what takes this long does not come back. No test takes a second of it otherwise.
FOREVER = 120.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "me.epic"
    with memory_at(path, WINE, SEA) as held:
        held.add(ITEMS)
    return path


def found(hits: Hits) -> list[tuple[Any, ...]]:
    """What a search found, in an order that equal scores do not change."""
    return sorted(
        (hit.item.id, hit.item.text, round(hit.score, 4), sorted(zip(hit.preferences, hit.instructions, strict=True)))
        for hit in hits
    )


def looks(held: EpicMemory) -> tuple[Any, ...]:
    return (
        [preference.text for preference in held.preferences],
        *(found(held.search(query, k=20)) for query in (WINE, SEA, TRAIN)),
        len(held),
    )


def elsewhere(path: Path, code: str) -> None:
    """Run code with a memory `m` of the file in another process."""
    done = subprocess.run([sys.executable, "-c", _script(code), str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _script(code: str) -> str:
    return (
        f"import sys\nsys.path.insert(0, {str(Path(helpers.__file__).parent)!r})\n"
        "from helpers import *\nfrom epic_memory import *\nm = memory_at(sys.argv[1])\n"
        f"{textwrap.dedent(code)}\nm.close()\n"
    )


def here(path: Path, code: str) -> None:
    """Run it with another memory of the file in this process."""
    with memory_at(path) as other:
        exec(code, {"m": other, "Item": Item})


CHANGES = {
    "add": "m.add([Item(id='new', text='red wine anew')])",
    "another text": "m.add([Item(id='wine', text='red wine in other words')])",
    "no longer kept": "m.add([Item(id='wine', text='something else')])",
    "forget": "m.forget('both')",
    "add preference": "m.preferences.add('night train')",
    "remove preference": "m.preferences.remove('blue sea')",
    "replace preference": "m.preferences.replace('blue sea', 'night train')",
    "all at once": "m.forget('wine'); m.preferences.add('night train'); m.preferences.remove('red wine')",
}


# In this process all of them, read only and in another one what is enough to see that it makes no difference.
WAYS = [(here, change, False) for change in CHANGES]
WAYS += [(here, "another text", True), (here, "all at once", True)]
WAYS += [(elsewhere, "add", False), (elsewhere, "all at once", True)]


@pytest.mark.parametrize(("where", "change", "read_only"), WAYS)
def test_what_another_commits_is_found(path: Path, where: Callable[..., None], change: str, read_only: bool) -> None:
    with memory_at(path, read_only=read_only) as reader:
        before = looks(reader)
        where(path, CHANGES[change])
        after = looks(reader)
        with memory_at(path) as fresh:
            assert after == looks(fresh) != before


def test_a_namespace_another_makes_is_found(path: Path) -> None:
    with memory_at(path) as reader:
        assert reader.search(WINE, namespace="other") == []
        with memory_at(path, WINE, namespace="other") as other:
            other.add([Item(id="x", text=WINE)])
            assert [hit.item.id for hit in reader.search(WINE, namespace="other")] == ["x"]
            other.forget("x")
            assert reader.search(WINE, namespace="other") == []


@pytest.mark.parametrize("where", [here, elsewhere])
def test_a_file_embedded_anew_is_not_searched_with_the_old_encoder(path: Path, where: Callable[..., None]) -> None:
    with memory_at(path) as reader, memory_at(path, read_only=True) as second:
        reader.search(WINE)
        if where is here:
            memory_at(path, encoder=HashEncoder(fingerprint="v2"), reencode=True).close()
        else:
            where(path, "m.file.reencode(HashEncoder(fingerprint='v2'))")
        for use in (
            lambda: reader.search(WINE),
            lambda: second.search(WINE),
            lambda: reader.add([Item(text="red wine more")]),
            lambda: list(reader.preferences),
            lambda: reader.preferences.add(TRAIN),
            lambda: reader.forget("wine"),
        ):
            with pytest.raises(EncoderMismatchError):
                use()
    with memory_at(path, encoder=HashEncoder(fingerprint="v2")) as fresh:
        assert len(fresh) == len(ITEMS) and fresh.file.verify() > 0


# old or new, never a mix


@pytest.mark.parametrize("where", [here, elsewhere], ids=["thread", "process"])
def test_a_search_sees_the_old_state_or_the_new_one(path: Path, where: Callable[..., None]) -> None:
    """Items, entries, preferences and scores of one state; never an error, however often it changes."""
    with memory_at(path) as held:
        without = found(held.search(TRAIN, k=20)), len(held.preferences)
        held.preferences.add(TRAIN)
        with_it = found(held.search(TRAIN, k=20)), len(held.preferences)
        held.preferences.remove(TRAIN)
        assert without[0] != with_it[0] and found(held.search(TRAIN, k=20)) == without[0]
    states = [without[0], with_it[0]]
    steered = [{WINE, SEA}, {WINE, SEA, TRAIN}]
    searches: list[int] = []
    over = threading.Event()

    def hammer(reader: EpicMemory) -> None:
        count = 0
        while not (over.is_set() and count):
            hits = reader.search(TRAIN, k=20)
            assert found(hits) in states
            state = states.index(found(hits))
            assert {text for text, _, _ in hits.steered_by} <= steered[state]
            count += 1
        searches.append(count)

    def write() -> None:
        try:
            where(path, code)
        finally:
            over.set()

    code = "for _ in range(10):\n    m.preferences.add('night train')\n    m.preferences.remove('night train')"
    with memory_at(path) as one, memory_at(path, read_only=True) as two:
        together(write, *(partial(hammer, reader) for reader in (one, one, two)))
        assert len(searches) == 3
        assert found(one.search(TRAIN, k=20)) == found(two.search(TRAIN, k=20)) == without[0]
        assert one.file.verify() > 0


# writers


@pytest.mark.parametrize("where", ["row", "light_sizes"])
def test_what_another_forgets_in_between_is_there_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    generator = random.Random(0)
    texts = [Item(id=str(number), text=f"{generator.randbytes(500).hex()}") for number in range(60)]
    more = [Item(id=f"new {number}", text=f"{generator.randbytes(500).hex()}") for number in range(60)]
    path, read, others = tmp_path / "me.epic", getattr(Items, where), []
    with (
        EpicMemory.open(path, [WINE], settings=Settings(budget="120 kB")) as other,
        EpicMemory.open(path, settings=Settings(coarse=False, verifier=KeepAll())) as memory,
    ):
        other.add(texts)
        held = [item.id for item in other.items()]

        def interrupted(*given: Any) -> Any:
            found = read(*given) if where == "row" else None
            if not others:
                # What is read after it belongs to what was read before: the other has to wait, or is not seen.
                others.append(threading.Thread(target=other.forget, args=held))
                others[0].start()
                others[0].join(0.5)
            return found if where == "row" else read(*given)

        monkeypatch.setattr(Items, where, interrupted)
        if where == "row":
            assert memory.explain(held[0]).item.id == held[0]
        else:
            memory.add(more)
        others[0].join(FOREVER)
        assert not {item.id for item in memory.items()} & set(held)
        memory.file.verify()


def test_what_another_adds_anew_in_between_does_not_expire(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon, later = clock.ends(1), clock.ends(1000)
    with memory_at(path) as memory, memory_at(path) as other:
        other.preferences.replace(SEA, Preference(text=SEA, expires_at=soon))
        other.add([Item(id="wine", text="red wine today", expires_at=soon)])
        memory.search(SEA)
        whole, interruptions = removal._take_items_away, []

        def interrupted(*given: Any) -> None:
            if not interruptions:
                interruptions.append(1)
                other.preferences.add(Preference(text=SEA, expires_at=later))
                other.add([Item(id="wine", text="red wine today", expires_at=later)])
            whole(*given)

        clock.pass_by(2)
        monkeypatch.setattr(removal, "_take_items_away", interrupted)
        memory.add([Item(id="new", text="blue sea today")])
        assert [preference.text for preference in memory.preferences] == [WINE, SEA]
        assert {"wine", "new"} <= {item.id for item in memory.items()}
        assert interruptions
        memory.file.verify()


def test_many_threads_make_one_file(tmp_path: Path) -> None:
    path = tmp_path / "new.epic"
    made: list[EpicMemory] = []
    together(*[lambda: made.append(memory_at(path, WINE, SEA))] * 6)
    assert len(made) == 6
    made[0].add(ITEMS)
    assert all(looks(held) == looks(made[0]) for held in made)
    for held in made:
        held.close()
    assert [file.name for file in tmp_path.iterdir()] == ["new.epic"]


# a search in the way of others, and others in the way of a search


def unharmed(reader: EpicMemory, searches: int) -> None:
    """Searches come back while somebody else is in the way."""
    expected = found(reader.search(WINE, k=20))

    def search() -> None:
        for _ in range(searches):
            assert found(reader.search(WINE, k=20)) == expected

    together(search, seconds=FOREVER / 4)


def test_a_search_does_not_wait_for_who_holds_the_write_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_BUSY_SECONDS", FOREVER)
    with memory_at(path) as reader, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        unharmed(reader, 150)
        other.execute("ROLLBACK")


def test_a_search_does_not_wait_for_a_large_change_under_way(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is committed, others find what was there before."""
    monkeypatch.setattr(database_module, "_BUSY_SECONDS", 0.2)
    with memory_at(path) as reader, memory_at(path) as writer:
        before = looks(reader)
        with writer._session.lock, writer._session.store.transaction():
            for number in range(4000):
                writer._session.store.items.put_all(
                    "other", [Item(id=str(number), text=os.urandom(400).hex())], np.ones((1, 64), np.float32)
                )
            assert looks(reader) == before
        assert looks(reader) == before
