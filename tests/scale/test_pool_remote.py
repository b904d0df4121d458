"""A pool over a remote root: fetched, used, written back; no write is lost, and what was forgotten does not return."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.errors import StoreError
from epic_scale import ConflictError, MemoryPool
from helpers import HashEncoder, KeepAll
from scripted import Scripted, until

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402 - after it is known to be there

PoolOf = Callable[[], MemoryPool]


@pytest.fixture
def address() -> str:
    return f"memory://{uuid.uuid4().hex}/users"


@pytest.fixture
def pool_of(address: str) -> Iterator[PoolOf]:
    """Makes pools over one remote root, each as if on a machine of its own."""
    made: list[MemoryPool] = []

    def make() -> MemoryPool:
        made.append(MemoryPool(address, encoder=HashEncoder(), settings=Settings(verifier=KeepAll()), wait=0.2))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def add(pool: MemoryPool, text: str, user: str = "ann") -> None:
    with pool.get(user) as memory:
        if not memory.preferences:
            memory.preferences.add("I like red wine")
        assert memory.add([text]).kept == 1


def texts(pool: MemoryPool, user: str = "ann") -> list[str]:
    with pool.get(user, read_only=True) as memory:
        return [item.text for item in memory.items()]


def test_what_one_machine_writes_the_other_reads_and_nothing_is_written_for_nothing(
    pool_of: PoolOf, address: str
) -> None:
    one, other = pool_of(), pool_of()
    add(one, "red wine 1")
    assert texts(other) == ["red wine 1"]
    add(other, "red wine 2")
    add(one, "red wine 3")
    assert texts(other) == texts(one) == ["red wine 1", "red wine 2", "red wine 3"]
    assert (one.health().uploads, other.health().uploads) == (2, 1)
    with one.get("ann") as memory:
        assert memory.search("red wine")
    assert one.health().uploads == 2
    files, root = fsspec.core.url_to_fs(address)
    assert len(files.find(root)) == 1


def test_of_two_machines_the_second_learns_that_it_was_slower(pool_of: PoolOf) -> None:
    one, other = pool_of(), pool_of()
    add(one, "red wine 1")
    with pytest.raises(ConflictError, match="Do the turn again"), one.get("ann") as memory:
        memory.add(["red wine of the slower"])
        add(other, "red wine of the faster")
    assert texts(one) == ["red wine 1", "red wine of the faster"]
    add(one, "red wine of the slower")
    assert len(texts(other)) == 3
    assert one.health().conflicts == 1


@pytest.mark.parametrize("how", ["cancelled", "timeout"])
async def test_a_conflict_swallows_no_cancellation(pool_of: PoolOf, how: str) -> None:
    one, other = pool_of(), pool_of()
    begun = asyncio.Event()

    async def turn() -> None:
        async with one.aget("ann") as memory:
            memory.preferences.add("I like blue sea")
            add(other, "red wine")
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(turn() if how == "cancelled" else asyncio.wait_for(turn(), 2))
    await begun.wait()
    if how == "cancelled":
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert isinstance(raised.value.__cause__, ConflictError)
    else:
        with pytest.raises(asyncio.TimeoutError):
            await task
    assert one.health().conflicts == 1 and one.health().in_use == 0
    assert texts(one) == ["red wine"]


def test_an_interrupted_turn_is_not_taken_for_a_conflict_and_a_new_file_does_not_replace_another(
    pool_of: PoolOf,
) -> None:
    one, other = pool_of(), pool_of()
    with pytest.raises(KeyboardInterrupt), one.get("ann") as memory:
        memory.preferences.add("I like blue sea")
        add(other, "red wine")
        raise KeyboardInterrupt
    assert one.health().conflicts == 1 and texts(one) == ["red wine"]
    with pytest.raises(ConflictError), one.get("ben") as memory:
        memory.preferences.add("I like blue sea")
        add(other, "red wine", "ben")
    assert texts(one, "ben") == ["red wine"]


def test_turns_of_one_machine_share_the_copy_and_each_is_written_back(pool_of: PoolOf) -> None:
    one, other = pool_of(), pool_of()
    with one.get("ann") as memory:
        add(one, "red wine 1")
        assert texts(other) == ["red wine 1"]
        memory.add(["red wine 2"])
    assert len(texts(other)) == 2


def test_a_conflict_undoes_nothing_that_a_turn_beside_it_took_along(pool_of: PoolOf) -> None:
    one, other = pool_of(), pool_of()
    with pytest.raises(ConflictError, match="since the last turn"), one.get("ann") as memory:
        memory.preferences.add("I like blue sea")
        with one.get("ann"):
            pass
        with other.get("ann") as same:
            assert [str(each) for each in same.preferences] == ["I like blue sea"]
            same.preferences.add("I like red wine")
        memory.preferences.add("I like green tea")
    with one.get("ann") as memory:
        assert [str(each) for each in memory.preferences] == ["I like blue sea", "I like red wine"]


def test_a_store_that_fails_is_told_and_the_next_turn_writes_all(
    pool_of: PoolOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pool_of(), pool_of()
    add(one, "red wine 1")
    with monkeypatch.context() as broken:

        def fail(*_: Any, **__: Any) -> None:
            raise OSError("no route to host")

        broken.setattr(MemoryFileSystem, "pipe_file", fail)
        with pytest.raises(StoreError, match="no route to host"):
            add(one, "red wine 2")
    assert texts(other) == ["red wine 1"]
    add(one, "red wine 3")
    assert len(texts(other)) == 3


def test_what_was_forgotten_is_not_brought_back_by_a_machine_that_still_has_it(pool_of: PoolOf, address: str) -> None:
    one, other = pool_of(), pool_of()
    add(one, "red wine 1")
    add(one, "red wine 1", "ben")
    with pytest.raises(ConflictError), one.get("ann") as memory:
        proof = other.forget_user("ann")
        memory.add(["red wine 2"])
    assert len(proof.removed) == 1
    files, root = fsspec.core.url_to_fs(address)
    assert sorted(size > 0 for size in files.du(root, total=False).values()) == [False, True]
    assert list(one.users()) == ["ben"]
    with one.get("ann") as memory:
        assert not memory.preferences and not memory.items()
    add(one, "red wine anew")
    assert texts(other) == ["red wine anew"]


def test_a_store_that_overwrites_what_was_to_be_created_is_refused(
    pool_of: PoolOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = MemoryFileSystem.pipe_file

    def careless(self: Any, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        written(self, path, value, mode="overwrite", **options)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", careless)
    with pytest.raises(StoreError, match="overwrite each other"):
        pool_of()


def test_copies_go_with_the_pool_and_backups_come_from_it(pool_of: PoolOf, tmp_path: Path) -> None:
    pool = pool_of()
    add(pool, "red wine 1")
    add(pool, "red wine 1", "ben")
    assert pool.backup(tmp_path).done == 2
    with pool.get("ann") as memory:
        copy = memory.file.path
        assert copy is not None and copy.exists()
    pool.close()
    assert not copy.parent.exists()
    with MemoryPool(f"file://{tmp_path}", encoder=HashEncoder(), settings=Settings(verifier=KeepAll())) as local:
        assert texts(local, "ben") == ["red wine 1"]


def judged_later(address: str, lm: Scripted) -> MemoryPool:
    """Make a pool with a text that a model judges in the background, once it is found."""
    settings = Settings(on_demand="background", aspects="parser", expansions="off")
    pool = MemoryPool(address, llm=lm, settings=settings)
    seed = EpicMemory(["I love red wine from Portugal."], settings=Settings(namespace="ann", fine=False))
    seed.add(["A Douro red wine from Portugal with dark fruit."])
    pool.put(seed)
    return pool


def test_what_a_model_answers_after_a_turn_is_written_back_when_the_memory_is_closed(address: str) -> None:
    pool = judged_later(address, Scripted())
    with pool.get("ann") as memory:
        memory.search("Which red wine from Portugal should I buy?")
    until(lambda: memory.stats().counts["verdicts"] > 0)
    pool.close()
    with MemoryPool(address) as other, other.get("ann", read_only=True) as found:
        assert found.stats().counts["verdicts"] > 0


def test_a_verdict_that_comes_after_another_machine_wrote_is_written_nowhere(address: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(asked: object) -> None:
        begun.set()
        assert go_on.wait(60)

    pool = judged_later(address, Scripted(hook=slow))
    with pool.get("ann") as memory:
        memory.search("Which red wine from Portugal should I buy?")
    assert begun.wait(60)
    with MemoryPool(address) as other:
        with other.get("ann") as changed:
            changed.preferences.add("I like trains.")
        go_on.set()
        pool.close()
        with other.get("ann", read_only=True) as found:
            assert len(found.preferences) == 2 and found.stats().counts["verdicts"] == 0
    assert pool.health().conflicts <= 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_leaves_the_copies_alone() -> None:
    code = (
        "import os, sys; from epic_scale import MemoryPool\n"
        "pool = MemoryPool('memory://root', encoder='static')\n"
        "def forked():\n"
        "    child = os.fork()\n"
        "    if not child: sys.exit()\n"
        "    os.waitpid(child, 0)\n"
        "with pool.get('ann') as memory: memory.preferences.add('I like tea.'); copy = memory.file.path; forked()\n"
        "forked()\n"
        "with pool.get('ann') as memory: memory.preferences.add('I like milk.'); print(len(memory.preferences))\n"
        "pool.close(); print(copy.parent.exists())"
    )
    printed = subprocess.check_output([sys.executable, "-W", "ignore", "-c", code], text=True, timeout=300)
    assert printed.split() == ["2", "False"]


def test_an_address_without_a_driver_says_so() -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        MemoryPool("nothing-of-this-kind://bucket")
