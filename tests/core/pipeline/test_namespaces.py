"""Many users, in one file or in one each: nothing one of them does changes or shows what another one holds."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epic_memory import EpicMemory, Item, Preference
from epic_memory.errors import (
    BudgetError,
    DuplicatePreferenceError,
    NoPreferencesError,
    StoreError,
    UnknownItemError,
    UnknownPreferenceError,
)
from helpers import HashEncoder, WordModel, imported, memory_at, settled

WINE, SEA, HILLS = "red wine", "blue sea", "green hills"
PAST = datetime(2020, 1, 1, tzinfo=timezone.utc)
A, B = "ann", "bob"

# The same ids with the same texts for everybody: kept, discarded, waiting, light tier, below everything.
ITEMS = [
    *(Item(id=f"keep{n}", text=f"red wine keep {n}", metadata={"n": n}) for n in range(4)),
    *(Item(id=f"both{n}", text=f"blue sea red wine keep {n}") for n in range(3)),
    *(Item(id=f"drop{n}", text=f"red wine drop {n}") for n in range(4)),
    *(Item(id=f"wait{n}", text=f"blue sea wait {n}") for n in range(3)),
    *(Item(id=f"tier{n}", text=f"red bricks of houses at roads in towns {n}") for n in range(2)),
    *(Item(id=f"far{n}", text=f"yellow desert {n}") for n in range(4)),
]
IDS = [item.id for item in ITEMS]
QUERIES = (WINE, SEA, "red keep", "yellow desert")

# What an act may say where there is nothing to do it with.
EXPECTED = (BudgetError, DuplicatePreferenceError, NoPreferencesError, UnknownItemError, UnknownPreferenceError)


def opened(path: Path, who: str, preferences: Any = None, **options: Any) -> EpicMemory:
    own = {"encoder": HashEncoder(256), "verifier": WordModel(who), "namespace": who, "tau": 0.3, "reserve": "1 MB"}
    return EpicMemory.open(path, preferences, **settled(**{**own, **options}))


def exported(held: EpicMemory, folder: Path) -> list[Any]:
    """What is written of a namespace."""
    held.file.export(folder / "export.jsonl", overwrite=True)
    return [json.loads(line) for line in (folder / "export.jsonl").read_text("utf-8").splitlines()]


def explained(held: EpicMemory, item_id: str) -> str:
    try:
        return str(held.explain(item_id))
    except UnknownItemError:
        return "unknown"


def everything(held: EpicMemory, folder: Path) -> dict[str, Any]:
    """All that the owner of a memory can see of it."""
    counts = held.stats().counts
    del counts["verdicts"]  # of the whole file
    found = [(hit.item, hit.score, hit.tier, hit.entries) for query in QUERIES for hit in held.search(query, k=30)]
    return {
        "preferences": list(held.preferences),
        "hits": found,
        "explained": {item_id: explained(held, item_id) for item_id in (*IDS, "extra0", "extra99")},
        "not kept": held.file.not_kept(),
        "export": exported(held, folder),
        "counts": (counts, len(held), held.tau),
    }


# what somebody may do: with a memory, which is in a file, and a folder

Act = Callable[[EpicMemory, Path, Path], object]


def _decide(held: EpicMemory, path: Path, folder: Path) -> None:
    held.verifier.decides = True  # type: ignore[attr-defined]
    held.retry()


def _import(held: EpicMemory, path: Path, folder: Path) -> None:
    held.file.export(folder / "hers.jsonl", overwrite=True)
    made = f"carl{len(list(folder.iterdir()))}-{datetime.now().timestamp()}"
    imported(folder / "hers.jsonl", path, encoder=HashEncoder(256), verifier=WordModel("carl"), namespace=made).close()


def _again(**options: Any) -> Act:
    """Opens the memory once more, which is the one to go on with."""

    def act(held: EpicMemory, path: Path, folder: Path) -> EpicMemory:
        held.close()
        return opened(path, A, **options)

    return act


ACTS: dict[str, Act] = {
    "add": lambda held, *_: held.add(ITEMS),
    "add other texts": lambda held, *_: held.add([Item(id=item.id, text=f"{item.text} anew") for item in ITEMS]),
    "flood": lambda held, *_: held.add(
        Item(id=f"extra{n}", text=f"red wine keep {'filler ' * 10}{n * 7919}", metadata={"n": n}) for n in range(80)
    ),
    "forget ids": lambda held, *_: held.forget("keep0", "both1"),
    "forget items": lambda held, *_: held.forget(*ITEMS),
    "add preference": lambda held, *_: held.preferences.add(HILLS),
    "add preference that ends": lambda held, *_: held.preferences.add(
        Preference(text="yellow desert", expires_at=datetime.now(timezone.utc) + timedelta(days=1))
    ),
    "remove preference": lambda held, *_: held.preferences.remove(WINE),
    "remove the other": lambda held, *_: held.preferences.remove(SEA),
    "replace preference": lambda held, *_: held.preferences.replace(SEA, "red keep"),
    "expire": lambda held, *_: [
        held.preferences.replace(WINE, Preference(text=WINE, expires_at=PAST)),
        held.add(ITEMS[5:7]),
    ],
    "retry": _decide,
    "compact": lambda held, *_: held.file.compact(),
    "export": lambda held, _, folder: held.file.export(folder / "hers.jsonl", overwrite=True),
    "search": lambda held, *_: [held.search("red keep") for _ in range(70)],
    "import": _import,
    "open again": _again(),
    "open with sync": _again(preferences=[HILLS], sync=True),
    "no ledger": _again(ledger=0, not_kept=0),
}


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    acts=st.lists(st.sampled_from(sorted(ACTS)), min_size=1, max_size=7),
    together=st.booleans(),
    budget=st.sampled_from([None, 260_000]),
)
@pytest.mark.slow
def test_nothing_one_does_changes_what_another_holds(acts: list[str], together: bool, budget: int | None) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        his = folder / "bob.epic"
        hers = his if together else folder / "ann.epic"
        bob = opened(his, B, [WINE, SEA], budget=budget)
        ann = opened(hers, A, [WINE, SEA], budget=budget)
        bob.add(ITEMS)
        ann.add(ITEMS)
        before = everything(bob, folder)
        for act in acts:
            with suppress(*EXPECTED):
                result = ACTS[act](ann, hers, folder)
                ann = result if isinstance(result, EpicMemory) else ann
            assert everything(bob, folder) == before, act
        # And nothing of his is shown to her.
        assert "bob" not in repr(everything(ann, folder)).replace("bob.epic", "")
        ann.close()
        bob.close()
        with opened(his, B) as bob:
            assert everything(bob, folder) == before
            if budget is None:
                # What he was told is remembered for him, what he turned down is known.
                report = bob.add(ITEMS)
                assert report.new == 0 and bob.verifier.asked == []  # type: ignore[attr-defined]
            assert bob.file.verify() > 0


def test_a_verdict_cache_that_one_does_without_stays_for_the_other(path: Path) -> None:
    with opened(path, B, [WINE]) as bob:
        bob.add(ITEMS)
    with opened(path, A, [WINE], verdict_cache=0) as ann:
        ann.add(ITEMS)
    with opened(path, B) as bob:
        assert bob.stats().counts["verdicts"] > 0


def test_under_a_budget_everybody_makes_room_from_what_is_theirs(tmp_path: Path, path: Path) -> None:
    with opened(path, B, [WINE, SEA], budget=200_000, floor=0) as bob:
        bob.add(ITEMS)
        before = everything(bob, tmp_path)
    with opened(path, A, [WINE], floor=0) as ann:
        report = ann.add(
            Item(id=f"extra{n}", text="red wine keep " * 40 + " ".join(f"{n * k % 9973}" for k in range(120)))
            for n in range(150)
        )
        assert report.evicted > 0
        assert {record.item_id[:5] for record in ann.file.not_kept()} <= {"extra"}
    with opened(path, B) as bob:
        assert everything(bob, tmp_path) == before


HOSTILE = [
    "default",
    "DEFAULT",
    " default",
    "' OR 1=1 --",
    '"; DROP TABLE items; --',
    "../../etc",
    "x" * 5000,
    "ледниковый 🙂",
    "e\u0301",
    "\u00e9",
    "a\x1fb",
]


def test_hostile_names_are_names_like_others(tmp_path: Path, path: Path) -> None:
    for number, name in enumerate(HOSTILE):
        with memory_at(path, WINE, f"blue no{number}", namespace=name, tau=0.3 + number / 1000) as held:
            held.add([Item(id="same", text=f"red wine number {number}"), Item(id=f"far{number}", text=f"far {number}")])
    for number, name in enumerate(HOSTILE):
        with memory_at(path, namespace=name) as held:
            assert held.namespace == name and held.tau == pytest.approx(0.3 + number / 1000)
            assert [p.text for p in held.preferences] == [WINE, f"blue no{number}"]
            assert [(h.item.id, h.item.text) for h in held.search(WINE, k=1)] == [("same", f"red wine number {number}")]
            assert [record.item_id for record in held.file.not_kept()] == [f"far{number}"]
            assert held.stats().counts["items"] == len(held) == 1
            lines = exported(held, tmp_path)
            items = {line["id"]: line["light"] for line in lines if line["kind"] == "item"}
            assert lines[0]["namespace"] == name and items == {"same": False, f"far{number}": True}
            assert held.add([Item(id=f"far{number}", text=f"far {number}")]).duplicates == 1
    for name in HOSTILE[1:]:
        with memory_at(path, namespace=name) as held:
            held.forget("same")
            held.preferences.remove(WINE)
    with memory_at(path) as held:
        assert held.file.namespaces == sorted(HOSTILE)
        assert [hit.item.text for hit in held.search(WINE)] == ["red wine number 0", "far 0"]
        assert held.tau == pytest.approx(0.3)
        held.file.verify()


def test_a_search_in_a_namespace_that_nobody_has_finds_nothing_and_makes_none(path: Path) -> None:
    with opened(path, A, [WINE]) as ann:
        ann.add(ITEMS)
        assert ann.search(WINE, namespace="nobody") == []
        assert ann.file.namespaces == [A]
    with pytest.raises(StoreError), opened(path, "nobody", [WINE], read_only=True):
        pass
