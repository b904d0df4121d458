"""Histories of devices that share a memory: what is done on files, or on the states that merges join."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from epic_learn.marks import level_of, line_mark, mark_of
from epic_learn.merging import State, join, merge
from epic_memory import EpicMemory, Item, Preference

Step: TypeAlias = "tuple[int, str, int, int]"
"""Device, what is done, to which thing, in which version."""
DEEDS = ("item", "forget", "prefer", "unprefer", "replace", "fact")
PREFERENCES = (
    "I avoid casinos.",
    "I love hotels with a pool.",
    "I prefer trains over flights.",
    "I follow a vegan diet.",
)
TEXTS = (
    ("A quiet hotel without a casino.", "A loud hotel whose casino never closes."),
    ("The night train to Rome.", "The morning flight to Rome."),
    ("A vegan stew with lentils.", "A steak with butter."),
    ("The steam engine of James Watt.", "A hotel with a pool on the roof."),
)
FACTS = ("My sister is called Ann.", "I live in Bern.", "My car is red.", "I was born in May.")


def do(memory: EpicMemory, deed: str, thing: int, version: int) -> None:
    """Do something on a device, if it can be done there."""
    held = [preference.text for preference in memory.preferences]
    text, other = PREFERENCES[thing], PREFERENCES[(thing + 1 + version) % 4]
    if deed == "item":
        memory.add([Item(id=f"item-{thing}", text=TEXTS[thing][version])])
    elif deed == "forget":
        memory.forget(Item(id=f"item-{thing}", text="whatever it says"))
    elif deed == "fact":
        known = [fact for fact in memory.facts if fact.text == FACTS[thing]]
        memory.forget(*known) if version and known else memory.facts.add(FACTS[thing])
    elif deed == "prefer" and text not in held:
        memory.preferences.add(text)
    elif deed == "unprefer" and text in held:
        memory.preferences.remove(text)
    elif deed == "replace" and text in held and other not in held:
        memory.preferences.replace(text, other)


def observed(memory: EpicMemory) -> dict[str, Any]:
    """What a user can observe of a memory, but for the order."""
    kept = {item.id: memory.explain(item.id).entries for item in memory.items()}
    return {
        "preferences": sorted(preference.text for preference in memory.preferences),
        "items": {
            item.id: (item.text, item.fact, sorted((entry.preference, str(entry.stance)) for entry in kept[item.id]))
            for item in memory.items()
        },
        "proposals": sorted((proposal.old, proposal.text) for proposal in memory.proposals),
    }


class Device:
    """The state of a device, without a file."""

    def __init__(self) -> None:
        self.state = State(gone={"salt": set()}, origins={"salt": {}})

    def mark(self, key: str, *, gone: bool | None) -> None:
        level = level_of(self.state.gone["salt"], "salt", key)
        if level % 2 != gone:
            self.state.gone["salt"].add(mark_of("salt", key, level + 1))

    def put(self, text: str) -> None:
        self.mark(f"preference {(key := Preference(text=text).id)}", gone=False)
        self.state.preference[key] = {"kind": "preference", **Preference(text=text).as_object()}

    def drop(self, text: str) -> None:
        self.mark(f"preference {(key := Preference(text=text).id)}", gone=True)
        del self.state.preference[key]
        for one, conflict in list(self.state.conflicts.items()):
            if text in (conflict.old, conflict.text):
                del self.state.conflicts[one]

    def do(self, deed: str, thing: int, version: int) -> None:
        text, other, key = PREFERENCES[thing], PREFERENCES[(thing + 1 + version) % 4], f"item-{thing}"
        held = {line["text"] for line in self.state.preference.values()}
        if deed in ("item", "fact"):
            self.mark(f"item {key}", gone=False)
            tag = f"{deed}{version}"
            if self.state.item.get(key, {}).get("version", tag) != tag:
                self.mark(f"version {key}", gone=None)
            line = {"id": key, "text": TEXTS[thing][version], "version": tag, "fact": deed == "fact", "entries": []}
            self.state.item[key] = line
        elif deed == "forget":
            self.mark(f"item {key}", gone=True)
            self.state.item.pop(key, None)
        elif deed == "prefer" and text not in held:
            self.put(text)
        elif deed == "unprefer" and text in held:
            self.drop(text)
        elif deed == "replace" and text in held and other not in held:
            self.put(other)
            ids, origins = [Preference(text=each).id for each in (text, other)], self.state.origins["salt"]
            first, mark = (line_mark(self.state.gone["salt"], "salt", each) for each in ids)
            origins.setdefault(mark, origins.get(first, first))
            self.drop(text)


def shown(state: State) -> dict[str, Any]:
    """What a user can observe of a state, but for entries: they are judged anew."""
    return {
        "preferences": sorted(line["text"] for line in state.preference.values()),
        "items": {key: (line["text"], line["fact"]) for key, line in state.item.items()},
        "proposals": sorted((proposal.old, proposal.text) for proposal in state.conflicts.values()),
        "gone": state.gone,
    }


def check_states(before: Sequence[Step], steps: Sequence[Step]) -> None:
    """Check what a merge has to be, on the states of three devices that had one history and then each its own."""
    first = Device()
    for _, *step in before:
        first.do(*step)
    devices = [copy.deepcopy(first) for _ in range(3)]
    for device, *step in steps:
        devices[device].do(*step)
    one, two, three = (device.state for device in devices)
    assert shown(join(one, two)) == shown(join(two, one))
    assert shown(join(one, one)) == shown(one)
    twice = join(join(one, two), two)
    assert shown(twice) == shown(join(one, two)) == shown(join(join(one, two), one))
    whole = shown(join(join(one, two), three))
    assert whole == shown(join(one, join(two, three))) == shown(join(join(three, one), two))
    known = first.state.gone["salt"]
    for thing in range(4):
        levels = [level_of(state.gone["salt"], "salt", f"item item-{thing}") for state in (one, two, three)]
        if max(levels) == level_of(known, "salt", f"item item-{thing}") + 1 and max(levels) % 2:
            assert f"item-{thing}" not in whole["items"]


def check_files(folder: Path, before: Sequence[Step], steps: Sequence[Step]) -> None:
    """Check the same on files."""
    base = folder / "base.epic"
    with EpicMemory.open(base) as memory:
        for _, *step in before:
            do(memory, *step)
    for device in range(3):
        shutil.copy(base, folder / f"{device}.epic")
        with EpicMemory.open(folder / f"{device}.epic") as memory:
            for at, *step in steps:
                if at == device:
                    do(memory, *step)

    def merged(name: str, *others: str) -> dict[str, Any]:
        shutil.copy(folder / f"{name[0]}.epic", folder / f"{name}.epic")
        with EpicMemory.open(folder / f"{name}.epic") as memory:
            for other in others:
                merge(memory, folder / f"{other}.epic")
            found, bytes_held = observed(memory), memory._session.store.contents()
            merge(memory, folder / f"{others[-1]}.epic")
            assert memory._session.store.contents() == bytes_held
            return found

    assert merged("0with1", "1") == merged("1with0", "0")
    merged("1with2", "2")
    assert merged("0first", "1", "2") == merged("0last", "1with2") == merged("2first", "0with1")
