"""The pool of memories: whose file is whose, what stays open, who may write, and what is left of a user."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.encoders import encoder_of
from epic_memory.errors import InvalidInputError, MemoryClosedError, StoreError
from epic_memory.storage.additions import memory_schema
from epic_memory.storage.store import Store
from epic_scale import LeaseError, MemoryPool
from epic_scale.roots import name_of
from helpers import HashEncoder, KeepAll
from scripted import Scripted, until

TEXT = "red wine from far away"
SETTINGS = Settings(verifier=KeepAll())
PoolOf = Callable[..., MemoryPool]


@pytest.fixture
def pool_of(tmp_path: Path) -> Iterator[PoolOf]:
    """Makes pools over one folder, and closes them."""
    made: list[MemoryPool] = []

    def make(**options: object) -> MemoryPool:
        given: dict[str, object] = {"encoder": HashEncoder(), "settings": SETTINGS, "wait": 0.2} | options
        made.append(MemoryPool(tmp_path / "users", **given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("*") if file.is_file())


def fill(pool: MemoryPool, user: str, text: str = TEXT) -> None:
    with pool.get(user) as memory:
        if not memory.preferences:
            memory.preferences.add("I like red wine")
        assert memory.add([text]).kept == 1


def texts(pool: MemoryPool, user: str) -> list[str]:
    with pool.get(user, read_only=True) as memory:
        return [item.text for item in memory.items()]


@pytest.mark.parametrize(
    "user",
    ["../x", "/etc/passwd", "..", "a" * 100_000, "\u202ename\n", "é", "e\u0301", "CON", "*", "x\u0085", "🦊"],
    ids=lambda user: ascii(user)[:20],
)
def test_any_text_is_a_user_with_a_file_of_their_own_inside_the_root(
    pool_of: PoolOf, tmp_path: Path, user: str
) -> None:
    pool = pool_of()
    fill(pool, "somebody else", "other red wine")
    fill(pool, user)
    assert texts(pool, user) == [TEXT]
    assert sorted(pool.users()) == sorted([user, "somebody else"])
    pool.close()
    assert len(files(tmp_path)) == 2
    assert all(len(name) < 100 and name.isascii() for name in files(tmp_path))


@pytest.mark.parametrize(
    "user", ["", "  ", "\n", "\u200b\u00ad", "\u2800 \u3164", None, 7, b"x", "a\x00b", "\ud800"], ids=ascii
)
def test_what_names_nobody_is_refused_and_leaves_no_file(pool_of: PoolOf, tmp_path: Path, user: object) -> None:
    pool = pool_of()
    with pytest.raises(InvalidInputError, match="user's id"), pool.get(user):  # type: ignore[arg-type]
        pass
    assert not files(tmp_path)


def test_the_least_used_is_closed_but_nothing_in_use(pool_of: PoolOf) -> None:
    pool = pool_of(max_open=2)
    with pool.get("ann") as ann:
        for user in ("ben", "cas", "dan"):
            fill(pool, user)
        assert len(ann) == 0
        assert pool.health().open == 2
        with pool.get("dan"), pytest.raises(LeaseError, match="in use"), pool.get("eve"):
            pass
    health = pool.health()
    assert (health.in_use, health.refused, health.closed) == (0, 1, 2)
    assert texts(pool, "ben") == [TEXT]


def test_what_is_idle_is_closed_and_comes_back(pool_of: PoolOf) -> None:
    pool = pool_of(idle="200 ms")
    fill(pool, "ann")
    with pool.get("ann") as memory:
        # The pool's thread looks four times in that time.
        time.sleep(0.5)
        assert len(memory) == 1
    until(lambda: not pool.health().open)
    with pytest.raises(MemoryClosedError):
        len(memory)
    assert texts(pool, "ann") == [TEXT]


def test_closing_holds_up_nobody_elses_turn(pool_of: PoolOf, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    close = EpicMemory.close

    def closed(memory: EpicMemory) -> None:
        threads.append(threading.current_thread())
        close(memory)

    monkeypatch.setattr(EpicMemory, "close", closed)
    pool = pool_of(max_open=1)
    for user in ("ann", "ben", "cas"):
        fill(pool, user)
    until(lambda: len(threads) == 2)
    assert threading.current_thread() not in threads


async def test_turns_of_many_users_at_once(pool_of: PoolOf) -> None:
    pool = pool_of(max_open=3, wait="60 s")

    async def turn(number: int) -> None:
        async with pool.aget(f"user {number % 7}") as memory:
            await memory.aadd([f"red wine number {number}"])

    for number in range(7):
        fill(pool, f"user {number}")
    await asyncio.gather(*map(turn, range(35)))
    for number in range(7):
        mine = [f"red wine number {other}" for other in range(35) if other % 7 == number]
        assert sorted(texts(pool, f"user {number}")) == sorted([TEXT, *mine])
    assert pool.health().open <= 3
    async with pool_of() as other:
        assert len([*other.users()]) == 7


async def test_a_cancelled_turn_ends(pool_of: PoolOf) -> None:
    pool = pool_of()

    async def turn() -> None:
        async with pool.aget("ann"):
            await asyncio.sleep(60)

    task = asyncio.create_task(turn())
    while not pool.health().in_use:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.health().in_use == 0
    fill(pool_of(), "ann")


async def test_a_turn_ends_while_others_that_wait_for_it_have_all_threads(pool_of: PoolOf) -> None:
    pool = pool_of(max_open=1, wait="30 s")
    threads = ThreadPoolExecutor(2)
    asyncio.get_running_loop().set_default_executor(threads)

    def turn(number: int) -> None:
        with pool.get(f"user {number}"):
            pass

    async with pool.aget("ann"):
        waiting = [asyncio.create_task(asyncio.to_thread(turn, number)) for number in range(4)]
        while pool.health().waited < 2:
            await asyncio.sleep(0.001)
        begun = time.monotonic()
    assert time.monotonic() - begun < 10
    await asyncio.gather(*waiting)


def test_one_pool_writes_a_file_at_a_time_and_readers_are_free(pool_of: PoolOf) -> None:
    one, other = pool_of(), pool_of()
    fill(one, "ann")
    with one.get("ann") as memory:
        with pytest.raises(LeaseError, match="in use by another process"), other.get("ann"):
            pass
        assert texts(other, "ann") == [TEXT]
        # Another turn in the same pool shares the memory.
        with one.get("ann") as same:
            assert same is memory
        memory.add(["red wine again"])
        assert len(texts(other, "ann")) == 2
    fill(other, "ann", "red wine thrice")
    assert len(texts(one, "ann")) == 3


def test_a_turn_waits_for_another_process(pool_of: PoolOf) -> None:
    one, other = pool_of(), pool_of(wait="60 s")
    begun = threading.Event()

    def turn() -> None:
        with one.get("ann"):
            begun.set()
            time.sleep(0.1)

    thread = threading.Thread(target=turn)
    thread.start()
    assert begun.wait(60)
    fill(other, "ann")
    thread.join()
    assert other.health().waited == 1


@pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")
def test_a_lease_ends_with_a_killed_process(pool_of: PoolOf, tmp_path: Path) -> None:
    code = (
        "import sys, time; from epic_scale import MemoryPool\n"
        "with MemoryPool(sys.argv[1], encoder='static').get('ann'): print('in', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "users")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"in\n"
        with pytest.raises(LeaseError), pool_of(encoder="static").get("ann"):
            pass
        process.kill()
    fill(pool_of(encoder="static"), "ann")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_has_no_part_in_leases_and_turns(pool_of: PoolOf, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time; from epic_scale import MemoryPool\n"
        "pool = MemoryPool(sys.argv[1], encoder='static')\n"
        "with pool.get('ann'):\n"
        "    if not (child := os.fork()):\n"
        "        try: print(pool.get('ben').__enter__().namespace, os.getpid(), flush=True)\n"
        "        except Exception as error: print(type(error).__name__, os.getpid(), flush=True)\n"
        "        time.sleep(600)\n"
        "    time.sleep(600)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "users")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        refused, child = process.stdout.readline().split()
        try:
            assert refused == b"MemoryClosedError"
            with pytest.raises(LeaseError), pool_of(encoder="static").get("ann"):
                pass
            process.kill()
            process.wait()
            fill(pool_of(encoder="static"), "ann")
        finally:
            process.kill()
            os.kill(int(child), signal.SIGKILL)


def test_a_reader_makes_no_file_and_cannot_write(pool_of: PoolOf, tmp_path: Path) -> None:
    pool = pool_of()
    with pytest.raises(StoreError, match="There is no memory"), pool.get("ann", read_only=True):
        pass
    assert not files(tmp_path) and pool.health().open == 0
    fill(pool, "ann")
    with pool.get("ann", read_only=True) as memory, pytest.raises(StoreError, match="reading only"):
        memory.add(["red wine again"])


def test_a_user_who_is_forgotten_is_gone_from_every_pool(pool_of: PoolOf, tmp_path: Path) -> None:
    one, other = pool_of(), pool_of()
    fill(one, "ann")
    fill(one, "ben")
    assert texts(other, "ann") == [TEXT]
    proof = one.forget_user("ann")
    assert proof.removed == (f"{name_of('ann')}.epic",)
    assert proof.user == name_of("ann").replace("/", "")
    with pytest.raises(StoreError, match="There is no memory"):
        texts(other, "ann")
    with other.get("ann") as memory:
        assert not memory.preferences and not memory.items()
    assert texts(one, "ben") == [TEXT]
    assert one.forget_user("nobody").removed == ()
    with one.get("ben"), pytest.raises(LeaseError):
        other.forget_user("ben")
    assert texts(one, "ben") == [TEXT]


def test_forgetting_overwrites_also_what_a_killed_process_left(pool_of: PoolOf, tmp_path: Path) -> None:
    pool = pool_of()
    fill(pool, "ann")
    path = tmp_path / "users" / f"{name_of('ann')}.epic"
    left = path.with_name(f".{path.name}.0123456789ab.new")
    left.write_text("red wine in a file that was never completed")
    with path.open("rb") as still_open, left.open("rb") as also_open:
        assert len(pool.forget_user("ann").removed) == 2
        assert not still_open.read().strip(b"\x00") and not also_open.read().strip(b"\x00")
    assert not files(tmp_path)


def test_forgetting_where_no_open_file_can_be_removed(
    pool_of: PoolOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, denied, unlink = pool_of(), set[Path](), Path.unlink

    def as_on_windows(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".epic" and path not in denied:
            denied.add(path)
            raise PermissionError("used by another process")
        unlink(path, missing_ok)

    fill(pool, "ann")
    monkeypatch.setattr(Path, "unlink", as_on_windows)
    assert len(pool.forget_user("ann").removed) == len(denied) == 1
    assert not files(tmp_path)


def test_limits_of_each_user_and_an_error_ends_a_turn(pool_of: PoolOf) -> None:
    budgets = {"ann": 400_000, "ben": 800_000}
    pool = pool_of(settings=lambda user: Settings(verifier=KeepAll(), budget=budgets[user]))
    for user, budget in budgets.items():
        with pool.get(user) as memory:
            assert (memory.settings.budget, memory.namespace) == (budget, user)
    with pytest.raises(KeyError), pool.get("eve"):
        pass
    with pytest.raises(ZeroDivisionError), pool.get("ann"):
        _ = 1 / 0
    assert pool.health().in_use == 0
    with pool.get("ann") as memory:
        assert memory.settings.budget == budgets["ann"]


def test_a_verifier_is_shared_by_those_of_one_language(pool_of: PoolOf) -> None:
    pool = pool_of(encoder="static", settings=lambda user: Settings(language=user[:2]))
    with pool.get("de 1") as ann, pool.get("de 2") as ben, pool.get("en 1") as eve:
        assert ann.verifier is ben.verifier is not eve.verifier


@pytest.fixture
def minilm_of_this_tree(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "shared" / "epic_minilm")
    yield
    sys.modules.pop("epic_minilm", None)


@pytest.mark.usefixtures("minilm_of_this_tree")
def test_a_file_of_a_bundled_encoder_keeps_it(pool_of: PoolOf) -> None:
    made = pool_of(encoder="static", settings=Settings())
    for user in ("ann", "ben"):
        with made.get(user) as memory:
            memory.preferences.add("I like red wine")
    made.close()
    if encoder_of(None).name == "epic-static-v1":
        pytest.skip("the extra minilm is not installed")
    pool = pool_of(encoder=None, settings=Settings())
    with pool.get("ann") as ann, pool.get("ben") as ben, pool.get("cas") as new, pool.get("dan") as other:
        assert ann.encoder.name == "epic-static-v1" and new.encoder.name == "epic-minilm-v1"
        assert ann.encoder is ben.encoder and new.encoder is other.encoder
        assert ann.verifier is ben.verifier is not new.verifier is other.verifier


def test_settings_are_asked_for_users_only(pool_of: PoolOf, tmp_path: Path) -> None:
    asked: set[str] = set()

    def settings(user: str) -> Settings:
        asked.add(user)
        return SETTINGS

    pool = pool_of(settings=settings)
    fill(pool, "ann")
    pool.close_idle(0)
    assert list(pool.users()) == ["ann"]
    assert pool.for_each(len).done == pool.backup(tmp_path / "copy").done == 1
    assert asked == {"ann"}


def test_every_file_is_copied_and_everybody_with_a_rule_is_visited(pool_of: PoolOf, tmp_path: Path) -> None:
    pool = pool_of()
    fill(pool, "ann")
    with pool.get("be/n") as memory:
        memory.never.add("my health")
    with pool.get("c'as") as memory:
        memory.file.set_state(read=3)
    with pool.get("nothing at all"):
        assert sorted(pool.users()) == ["ann", "be/n", "c'as"]
    pool.close_idle(0)
    assert sorted(pool.users()) == ["ann", "be/n", "c'as"]
    assert pool.for_each(len).done == 3
    assert pool.backup(tmp_path / "copy").done == 4
    with MemoryPool(tmp_path / "copy", encoder=HashEncoder(), settings=SETTINGS) as copy:
        assert copy.has("nothing at all")
        with copy.get("be/n") as memory:
            assert list(memory.never) == ["my health"]


def test_every_user_is_visited_whatever_fails(pool_of: PoolOf, tmp_path: Path) -> None:
    pool = pool_of()
    for user in ("ann", "ben", "cas"):
        fill(pool, user)
    pool.close_idle(0)
    damaged = tmp_path / "users" / f"{name_of('cas')}.epic"
    damaged.write_bytes(damaged.read_bytes()[:-700])

    def visit(memory: EpicMemory) -> None:
        assert memory.namespace != "ben"
        memory.add(["red wine again"])

    users = pool.users()
    assert [next(users), next(users)] == sorted(["ann", "ben"], key=name_of)
    with pytest.raises(StoreError, match=f"1 file cannot be read: {name_of('cas')}"):
        next(users)
    visits = pool.for_each(visit)
    assert visits.done == 1 and visits.failed.keys() == {"ben", name_of("cas")}
    assert "damaged" in visits.failed[name_of("cas")]
    assert len(texts(pool, "ann")) == 2
    copied = pool.backup(tmp_path / "copy")
    assert copied.done == 2 and copied.failed.keys() == {name_of("cas")}


def test_the_memory_in_use_is_found_by_the_users_id_and_a_turn_that_reads_finds_its_own(pool_of: PoolOf) -> None:
    pool = pool_of()
    fill(pool, "ann")
    with pytest.raises(InvalidInputError, match="under way"):
        pool.in_use("ann")
    with pool.get("ann") as memory:
        with pool.get("ann", read_only=True) as reader:
            assert pool.in_use("ann") is reader
            with ThreadPoolExecutor() as threads:
                # A thread that knows of no turn gets what can do the least harm.
                assert threads.submit(pool.in_use, "ann").result() is reader
        assert pool.in_use("ann") is memory


async def test_turns_side_by_side_find_their_own_memories(pool_of: PoolOf) -> None:
    pool = pool_of()
    fill(pool, "ann")
    both = asyncio.Event()

    async def turn(read_only: bool) -> None:
        async with pool.aget("ann", read_only=read_only) as memory:
            if pool.health().in_use == 2:
                both.set()
            await both.wait()
            assert pool.in_use("ann") is memory
            assert await asyncio.to_thread(pool.in_use, "ann") is memory

    await asyncio.gather(turn(False), turn(True))


def test_a_closed_pool_lets_turns_end_and_begins_none(pool_of: PoolOf) -> None:
    pool = pool_of()
    with pool.get("ann") as memory:
        pool.close()
        memory.preferences.add("I like red wine")
        with pytest.raises(MemoryClosedError), pool.get("ben"):
            pass
    with pytest.raises(MemoryClosedError):
        len(memory)
    with pool_of().get("ann") as again:
        assert len(again.preferences) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_open": 0}, "max_open"),
        ({"idle": "soon"}, "idle"),
        ({"wait": -1}, "wait"),
        ({"settings": "small"}, "settings"),
        ({"encoder": "none"}, "encoder"),
    ],
)
def test_wrong_arguments_are_named(pool_of: PoolOf, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        pool_of(**options)


def test_health_is_numbers_for_opentelemetry_too(pool_of: PoolOf) -> None:
    pytest.importorskip("opentelemetry.sdk.metrics")
    from opentelemetry.metrics import set_meter_provider
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    set_meter_provider(MeterProvider([reader]))
    for name in ("ann", "ben"):
        pool = pool_of()
        fill(pool, name)
    found = reader.get_metrics_data()
    assert found is not None
    metrics = {one.name: one for one in found.resource_metrics[0].scope_metrics[0].metrics}
    (turns,) = metrics["epic.pool.turns"].data.data_points
    assert turns.value >= 2 and dict(turns.attributes or {}) == {}  # type: ignore[union-attr]
    assert "ann" not in repr(pool.health()) + found.to_json()


def test_a_verdict_that_comes_after_its_turn_changes_nothing_that_another_pool_has_changed_since(
    pool_of: PoolOf,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(asked: object) -> None:
        begun.set()
        assert go_on.wait(60)

    settings = Settings(on_demand="background", aspects="parser", expansions="off")
    one = pool_of(encoder="static", llm=Scripted(hook=slow), settings=settings)
    other = pool_of(encoder="static", settings=Settings())
    preferences = ["I love red wine from Portugal.", "I like trains."]
    seed = EpicMemory(preferences, encoder="static", settings=Settings(namespace="ann", fine=False))
    seed.add(["A Douro red wine from Portugal with dark fruit."])
    one.put(seed)
    with one.get("ann") as memory:
        memory.search("Which red wine from Portugal should I buy?")
    assert begun.wait(60)
    # The turn has ended, so another process may write while the model still thinks.
    with other.get("ann") as changed:
        changed.preferences.remove("I love red wine from Portugal.")
    go_on.set()
    one.close()
    with other.get("ann", read_only=True) as found:
        assert [str(each) for each in found.preferences] == ["I like trains."]
        assert "Portugal" not in repr(found.file.entries([item.id for item in found.items()]))
        assert found.stats().counts["verdicts"] == 0


def test_an_older_file_is_migrated_by_the_first_turn_that_writes(
    pool_of: PoolOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pool_of(), "ann")
    migrated: list[int] = []
    newer = replace(memory_schema(), migrations=(lambda db: migrated.append(1),))
    monkeypatch.setattr(Store, "make_schema", staticmethod(lambda: newer))
    pool = pool_of()
    with pytest.raises(StoreError, match="older epic-memory"):
        texts(pool, "ann")
    assert not migrated
    fill(pool, "ann", "red wine again")
    assert migrated == [1] and len(texts(pool, "ann")) == 2


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_the_address_of_a_folder_is_that_folder(tmp_path: Path, scheme: str) -> None:
    with MemoryPool(f"{scheme}://{tmp_path}/pool") as pool, pool.get("ann") as memory:
        memory.preferences.add("I like red wine")
    with MemoryPool(tmp_path / "pool") as pool, pool.get("ann", read_only=True) as memory:
        assert [each.text for each in memory.preferences] == ["I like red wine"]
