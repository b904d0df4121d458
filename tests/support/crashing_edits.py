"""Edits of facts, and decisions about proposals, whose process is killed: at each SQL statement, and at random moments.

    python crashing_edits.py FOLDER BUDGET NAME ...

For each kill a worker is forked that does one of the calls named, on a copy of one file. What is left has to be the
memory before the call or after it. Printed are the number of kills by what they left, for each call.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from epic_learn.tables import ProposalTable
from epic_learn.types import Proposal
from epic_memory import EpicMemory, Item, SearchOptions, Settings
from epic_memory.encoders import default_encoder
from epic_memory.storage.sqlite.files import SIDE_FILES

Write = Callable[[EpicMemory], object]
_RANDOM_KILLS = 6
_CODE, _NEW_CODE = (Item(id="code", text=f"The door code is {code}.") for code in (4471, 9902))
_HOME, _COFFEE, _JAZZ = "I live in Porto.", "I drink a lot of coffee.", "I love jazz."
_PLAIN = [
    Item(id=f"note {number}", text=f"A note of jazz concert number {number}, with coffee.") for number in range(6)
]


def proposed(kind: Any, text: str = "", old: str = "") -> Proposal:
    return Proposal(kind=kind, text=text, old=old, quote=text or old, turn=3)


WAITING = {
    "accept add_preference": proposed("add_preference", "I follow a vegan diet."),
    "accept replace_preference": proposed("replace_preference", "I drink tea.", _COFFEE),
    "accept remove_preference": proposed("remove_preference", old=_COFFEE),
    "accept add_fact": proposed("add_fact", "My sister is called Ines."),
    "accept update_fact": proposed("update_fact", "I live in Braga.", _HOME),
    "accept end_fact": proposed("end_fact", old=_HOME),
}


def last_edit(memory: EpicMemory, kind: str) -> Any:
    return next(edit for edit in memory.facts.edits() if edit.kind == kind)


WRITES: dict[str, Write] = {
    "insert a fact": lambda memory: memory.facts.add("I work night shifts."),
    "replace a fact": lambda memory: memory.facts.add(_NEW_CODE),
    "undo an insertion": lambda memory: memory.facts.undo(last_edit(memory, "insert")),
    "undo a replacement": lambda memory: memory.facts.undo(last_edit(memory, "replace")),
    "undo an end": lambda memory: memory.facts.undo(last_edit(memory, "end")),
    "reject": lambda memory: memory.proposals.reject(WAITING["accept add_fact"].id),
    "accept other words": lambda memory: memory.proposals.accept(WAITING["accept add_fact"].id, "My sister is Ines."),
    **{name: lambda memory, given=given: memory.proposals.accept(given.id) for name, given in WAITING.items()},
}


def prepare(path: Path, budget: str | None) -> None:
    """Make a memory with preferences, items, facts, edits of each kind and open proposals."""
    with EpicMemory.open(path, [_COFFEE, _JAZZ], encoder=default_encoder(), settings=Settings(budget=budget)) as memory:
        memory.add(_PLAIN)
        for fact in ("The bike lock is 1234.", "The bike lock is 5678."):
            memory.facts.add(Item(id="lock", text=fact))
        for fact in ("I play the cello.", "I stopped playing the cello.", _CODE, _HOME):
            memory.facts.add(fact)
        memory.proposals.accept(*memory.proposals)
        kinds = {edit.kind for edit in memory.facts.edits()}
        assert kinds == {"insert", "replace", "end"}, memory.facts.edits()
        session = memory._session
        with session.lock, session.store.transaction():
            for proposal in WAITING.values():
                ProposalTable(session.store).put(session.namespace, proposal, "open")


def state_of(memory: EpicMemory, *, evicting: bool) -> dict[str, Any]:
    """Return all that a call changes; of a memory with a budget, which makes room first, without its items."""
    session = memory._session
    items = [] if evicting else sorted((item.id, item.text, item.fact) for item in memory.items())
    return {
        "items": items,
        "facts": sorted(item.text for item in memory.facts),
        "preferences": [preference.text for preference in memory.preferences],
        "open": sorted(proposal.id for proposal in memory.proposals),
        "accepted": sorted((each.id, each.text, each.quote) for each in memory.proposals.accepted()),
        "decided": sorted(map(str, ProposalTable(session.store).decided(session.namespace))),
        "edits": [(edit.kind, edit.item.text, edit.old and edit.old.text) for edit in memory.facts.edits()],
    }


def opened(path: Path) -> EpicMemory:
    return EpicMemory.open(path, encoder=default_encoder(), settings=Settings(must_exist=True))


_searched: set[str] = set()


def looked_at(path: Path, *, evicting: bool) -> dict[str, Any]:
    """Return the state of a file that has to be whole, and whose facts are found."""
    with opened(path) as memory:
        assert memory.file.verify() > 0
        state = state_of(memory, evicting=evicting)
        # Of files with the same rows, which are verified by now, one is searched.
        rows = str(memory._session.store.contents())
        for fact in () if rows in _searched else state["facts"]:
            hits = memory.search(fact, k=20, options=SearchOptions(min_score=None))
            assert fact in [hit.item.text for hit in hits], fact
        _searched.add(rows)
    assert not [suffix for suffix in SIDE_FILES if Path(f"{path}{suffix}").exists()]
    return state


def worker(path: Path, write: Write, told: int, statement: int) -> None:
    """Do one call; be killed at the beginning of a statement, counted from 1, if it is not 0.

    Only statements that may write count: a kill at one that reads leaves what a kill at the next of these does.
    """
    memory = opened(path)
    seen = 0

    def count(sql: str) -> None:
        nonlocal seen
        if sql.lstrip().upper().startswith(("SELECT", "PRAGMA")):
            return
        seen += 1
        if seen == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    memory._session.store._connection.set_trace_callback(count)  # type: ignore[union-attr]
    os.write(told, b"begun\n")
    write(memory)
    os.write(told, b"done\n")
    memory.close()
    os._exit(0)


def run(path: Path, write: Write, *, statement: int = 0, delay: float | None = None) -> tuple[bool, float]:
    """Fork a worker, kill it if it does not kill itself; whether the call returned, and its seconds."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            worker(path, write, told, statement)
        finally:
            os._exit(1)
    os.close(told)
    with os.fdopen(heard, "rb") as pipe:
        assert pipe.readline() in (b"begun\n", b"")
        started = time.perf_counter()
        if delay is not None:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
        done = pipe.readline() == b"done\n"
        seconds = time.perf_counter() - started
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or (done and os.WEXITSTATUS(status) == 0), "the worker failed"
    return done, seconds


def killed(folder: Path, name: str, *, evicting: bool) -> Counter[str]:
    """Kill a call at each of its statements and at random moments; count what the kills left.

    Raises:
        AssertionError: if one left anything else than the memory before the call, or after it.
    """
    before_file, path, write = folder / "before.epic", folder / "me.epic", WRITES[name]
    before = looked_at(before_file, evicting=evicting)

    def attempt(**how: Any) -> tuple[bool, float, dict[str, Any]]:
        shutil.copy(before_file, path)
        for suffix in SIDE_FILES:
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        done, seconds = run(path, write, **how)
        return done, seconds, looked_at(path, evicting=evicting)

    done, seconds, after = attempt()
    assert done and after != before, f"{name} changed nothing"
    left: Counter[str] = Counter()

    def judge(done: bool, state: dict[str, Any], when: str) -> None:
        assert state in (before, after), (name, when, {key: (before[key], state[key], after[key]) for key in state})
        assert state == after or not done, f"{name}, {when}: what was acknowledged is not there"
        left["after" if state == after else "before"] += 1

    statement, done = 0, False
    while not done:
        statement += 1
        done, _, state = attempt(statement=statement)
        judge(done, state, f"at statement {statement}")
    chance = random.Random(name)
    for _ in range(_RANDOM_KILLS):
        delay = chance.uniform(0.0, 1.3 * seconds)
        done, _, state = attempt(delay=delay)
        judge(done, state, f"after {delay:.4f} s")
    return left


if __name__ == "__main__":
    place, budget = Path(sys.argv[1]), sys.argv[2] or None
    prepare(place / "before.epic", budget)
    print(json.dumps({each: killed(place, each, evicting=budget is not None) for each in sys.argv[3:]}))
