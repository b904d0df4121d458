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

from epic_memory import EpicMemory, Item, Preference, Settings
from epic_memory.errors import (
    BudgetError,
    DuplicatePreferenceError,
    InvalidInputError,
    NoPreferencesError,
    StoreError,
    UnknownItemError,
    UnknownPreferenceError,
)
from epic_memory.types import Candidate, Decision, Verdict
from helpers import Answering, HashEncoder, KeepAll, keep, settled

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
EXPECTED = (
    BudgetError,
    DuplicatePreferenceError,
    NoPreferencesError,
    UnknownItemError,
    UnknownPreferenceError,
)


class Judge(Answering):
    """A model whose verdicts are cached. They say for whom they were reached: another's would be noticed."""

    cached = True
    name = "judge"

    def __init__(self, who: str) -> None:
        super().__init__(self._answer)
        self.who = who
        self.decides = False

    def _answer(self, candidate: Candidate) -> Verdict:
        text = candidate.item.text
        if "drop" in text:
            return Verdict(decision=Decision.DISCARD, rationale=f"{self.who} does not care")
        if "wait" in text and not self.decides:
            return Verdict(decision=Decision.UNDECIDED, rationale=f"{self.who} waits")
        alignments = tuple(
            type(alignment)(
                preference_id=alignment.preference_id,
                instruction=f"{self.who}: {alignment.instruction}",
                stance=alignment.stance,
                confidence=alignment.confidence,
                rationale=f"{self.who} likes it",
            )
            for alignment in keep(candidate).alignments
        )
        return Verdict(decision=Decision.KEEP, rationale=f"{self.who} likes it", alignments=alignments)


def opened(path: Path, who: str, preferences: Any = None, **options: Any) -> EpicMemory:
    options = {
        "encoder": HashEncoder(256),
        "verifier": Judge(who),
        "namespace": who,
        "tau": 0.3,
        "reserve": "1 MB",
        **options,
    }
    return EpicMemory.open(path, preferences, **settled(**options))


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
    return {
        "preferences": list(held.preferences),
        "hits": [
            [(hit.item, hit.score, hit.tier, hit.entries) for hit in held.search(query, k=30)] for query in QUERIES
        ],
        "explained": {item_id: explained(held, item_id) for item_id in (*IDS, "extra0", "extra99")},
        "not kept": held.file.not_kept(),
        "export": exported(held, folder),
        "counts": counts,
        "length": len(held),
        "tau": held.tau,
    }


def texts(seen: Any) -> str:
    return repr(seen)


# what somebody may do

Act = Callable[[EpicMemory, Path], object]


def _expire(held: EpicMemory, _: Path) -> None:
    held.preferences.replace(WINE, Preference(text=WINE, expires_at=PAST))
    held.add(ITEMS[5:7])


def _decide(held: EpicMemory, _: Path) -> None:
    held.verifier.decides = True  # type: ignore[attr-defined]
    held.retry()


def _flood(held: EpicMemory, _: Path) -> None:
    held.add(
        Item(id=f"extra{n}", text=f"red wine keep {'filler ' * 10}{n * 7919}", metadata={"n": n}) for n in range(80)
    )


def _search_much(held: EpicMemory, _: Path) -> None:
    for _n in range(70):
        held.search("red keep")


ACTS: dict[str, Act] = {
    "add": lambda held, _: held.add(ITEMS),
    "add other texts": lambda held, _: held.add([Item(id=item.id, text=f"{item.text} anew") for item in ITEMS]),
    "flood": _flood,
    "forget ids": lambda held, _: held.forget("keep0", "both1"),
    "forget items": lambda held, _: held.forget(*ITEMS),
    "add preference": lambda held, _: held.preferences.add(HILLS),
    "add preference that ends": lambda held, _: held.preferences.add(
        Preference(text="yellow desert", expires_at=datetime.now(timezone.utc) + timedelta(days=1))
    ),
    "remove preference": lambda held, _: held.preferences.remove(WINE),
    "remove the other": lambda held, _: held.preferences.remove(SEA),
    "replace preference": lambda held, _: held.preferences.replace(SEA, "red keep"),
    "expire": _expire,
    "retry": _decide,
    "compact": lambda held, _: held.file.compact(),
    "export": lambda held, folder: held.file.export(folder / "hers.jsonl", overwrite=True),
    "search": _search_much,
}


def _again(held: EpicMemory, path: Path, **options: Any) -> EpicMemory:
    held.close()
    return opened(path, A, **options)


def _act(held: EpicMemory, name: str, path: Path, folder: Path) -> EpicMemory:
    """Do something; the memory to go on with."""
    if name == "open again":
        return _again(held, path)
    if name == "open with sync":
        return _again(held, path, preferences=[HILLS], sync=True)
    if name == "no ledger":
        return _again(held, path, ledger=0, not_kept=0)
    if name == "import":
        held.file.export(folder / "hers.jsonl", overwrite=True)
        with EpicMemory.restore(
            folder / "hers.jsonl",
            path,
            encoder=HashEncoder(256),
            settings=Settings(
                verifier=Judge("carl"), namespace=f"carl{len(list(folder.iterdir()))}-{datetime.now().timestamp()}"
            ),
        ):
            pass
        return held
    ACTS[name](held, folder)
    return held


NAMES = sorted([*ACTS, "open again", "open with sync", "no ledger", "import"])


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    acts=st.lists(st.sampled_from(NAMES), min_size=1, max_size=7),
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
                ann = _act(ann, act, hers, folder)
            assert everything(bob, folder) == before, act
        # And nothing of his is shown to her.
        assert "bob" not in texts(everything(ann, folder)).replace("bob.epic", "")
        ann.close()
        bob.close()
        with opened(his, B) as bob:
            assert everything(bob, folder) == before
            if budget is None:
                # What he was told is remembered for him, what he turned down is known.
                report = bob.add(ITEMS)
                assert report.new == 0 and bob.verifier.asked == []  # type: ignore[attr-defined]
            assert bob.file.verify() > 0


def test_a_verdict_cache_that_one_does_without_stays_for_the_other(tmp_path: Path) -> None:
    path = tmp_path / "both.epic"
    with opened(path, B, [WINE]) as bob:
        bob.add(ITEMS)
    with opened(path, A, [WINE], verdict_cache=0) as ann:
        ann.add(ITEMS)
    with opened(path, B) as bob:
        assert bob.stats().counts["verdicts"] > 0


def test_under_a_budget_everybody_makes_room_from_what_is_theirs(tmp_path: Path) -> None:
    path = tmp_path / "both.epic"
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
    "' OR 1=1 --",
    '"; DROP TABLE items; --',
    "DEFAULT",
    " default",
    "ледниковый 🙂",
    "e\u0301",
    "\u00e9",
    "a\x1fb",
    "x" * 5000,
    "../../etc",
]


def test_hostile_names_are_names_like_others(tmp_path: Path) -> None:
    path = tmp_path / "many.epic"
    for number, name in enumerate(HOSTILE):
        options = {"tau": 0.3 + number / 1000, "encoder": HashEncoder(256), "verifier": KeepAll()}
        with EpicMemory.open(path, [WINE, f"blue no{number}"], **settled(namespace=name, **options)) as held:
            held.add([Item(id="same", text=f"red wine number {number}"), Item(id=f"far{number}", text=f"far {number}")])
    for number, name in enumerate(HOSTILE):
        with EpicMemory.open(
            path, settings=Settings(namespace=name, verifier=KeepAll()), encoder=HashEncoder(256)
        ) as held:
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
        with EpicMemory.open(
            path, settings=Settings(namespace=name, verifier=KeepAll()), encoder=HashEncoder(256)
        ) as held:
            held.forget("same")
            held.preferences.remove(WINE)
    with EpicMemory.open(path, encoder=HashEncoder(256), settings=Settings(verifier=KeepAll())) as held:
        assert [hit.item.text for hit in held.search(WINE)] == ["red wine number 0", "far 0"]
        assert held.tau == pytest.approx(0.3)
        held.file.verify()


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "\ud800", None, 7, b"x"])
def test_what_is_no_name_is_refused_and_leaves_no_file(tmp_path: Path, name: Any) -> None:
    with pytest.raises(InvalidInputError):
        EpicMemory.open(
            tmp_path / "me.epic",
            [WINE],
            settings=Settings(namespace=name, verifier=KeepAll()),
            encoder=HashEncoder(256),
        )
    assert list(tmp_path.iterdir()) == []


def test_a_search_in_a_namespace_that_nobody_has_finds_nothing_and_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with opened(path, A, [WINE]) as ann:
        ann.add(ITEMS)
        assert ann.search(WINE, namespace="nobody") == []
        assert ann._session.store.preferences.namespaces() == [A]
    with pytest.raises(StoreError), opened(path, "nobody", [WINE], read_only=True):
        pass
