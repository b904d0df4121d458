"""Merges of two devices' files of one memory: each device merges a copy of the other's file into its own.

Afterwards both hold the items, preferences, facts and verdicts of both, without what either has forgotten. The order of
merges makes no difference, and to merge again changes nothing. A preference that both have changed differently is a
proposal. Local to a device are the order of preferences, settings, and rules about what is never kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_learn.export import Portable, lines_of, put_in, take_line, vectors_of
from epic_learn.marks import MarkTable, level_of, line_mark
from epic_learn.never import rules_of, topics_of
from epic_learn.tables import BARE, ProposalTable
from epic_learn.types import Proposal, plain
from epic_memory import EpicMemory, Preference, Settings
from epic_memory.errors import LockedError, StoreError
from epic_memory.memory import checked_memory
from epic_memory.pipeline.removal import forget_traces
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import run
from epic_memory.storage.store import Contents
from epic_memory.storage.tables.entries import verifier_number
from epic_memory.types.validation import moment
from epic_memory.verification import EmbeddedVerifier

_SOURCE = "merge"
_STATES = ("open", "accepted", "rejected")
_UNJUDGED = "it came from another device, and is to be verified under the preferences of this one"

Line = dict[str, Any]
Lines = dict[str, Line]


@dataclass(frozen=True, kw_only=True)
class MergeReport:
    """Counts of what came into a memory, what left it because the other had forgotten or replaced it, and the rest.

    Attributes:
        ruled_out: Items that did not come, because of a topic that is never kept here.
        conflicts: Preferences that both changed, which wait as proposals.
    """

    items: int
    preferences: int
    gone: int
    ruled_out: int
    conflicts: int

    def __str__(self) -> str:
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in vars(self).items())


@dataclass(kw_only=True)
class State:
    """Parts of a memory that are merged: the lines of its export by their ids, and the marks of what was forgotten.

    Attributes:
        conflicts: Open proposals of merges, by the ids of the preferences that they propose.
        gone, origins: Marks by their salt; from the mark of a preference to that of the first of its line.
    """

    preference: Lines = field(default_factory=dict)
    item: Lines = field(default_factory=dict)
    pending: Lines = field(default_factory=dict)
    proposal: Lines = field(default_factory=dict)
    conflicts: dict[str, Proposal] = field(default_factory=dict)
    gone: dict[str, set[bytes]] = field(default_factory=dict)
    origins: dict[str, dict[bytes, bytes]] = field(default_factory=dict)

    def level(self, key: str) -> int:
        """Return how many marks something has; it is gone if any number is odd."""
        levels = [level_of(marks, salt, key) for salt, marks in self.gone.items()]
        return max((level for level in levels if level % 2), default=max(levels, default=0))


def merge(memory: EpicMemory, other: str | Path, *, key: Any = None) -> MergeReport:
    """Merge the file of another device into a memory, in one transaction; the other file stays as it is.

    Args:
        memory: The memory.
        other: A file with the same encoder; the namespace is the memory's.
        key: What the other file is locked with; default: what the memory's own is.

    Raises:
        StoreError: if the other file is damaged or was copied in the midst of a write, or the memory's file cannot be
            written; nothing is changed then.
        EncoderMismatchError: if it was made with another encoder.
    """
    own, path = checked_memory(memory)._session, Path(other)
    own.store.check_writable()
    own.store.check_other(path)
    key = own.settings.key if key is None else key
    how = Settings(namespace=own.namespace, must_exist=True, read_only=True, key=key)
    try:
        with EpicMemory.open(path, encoder=memory.encoder, settings=how) as opened:
            opened.file.verify()
            theirs, _ = _state_of(opened._session)
    except LockedError:
        raise
    except StoreError as error:
        wrong = (
            f"{other} cannot be merged, and nothing was changed. If another program copied it in the midst of a write"
        )
        raise StoreError(f"{wrong}, have it copied again. {error}") from None
    for _ in range(3):
        mine, contents = _state_of(own)
        joined = join(mine, theirs)
        ruled_out = _rule_out(own, [line for key, line in joined.item.items() if key not in mine.item])
        for key in ruled_out:
            del joined.item[key]
        _judge(memory, mine, theirs, joined)
        if _written(own, mine, joined, contents):
            return MergeReport(
                items=len(joined.item.keys() - mine.item),
                preferences=len(joined.preference.keys() - mine.preference),
                gone=len(mine.item.keys() - joined.item) + len(mine.preference.keys() - joined.preference),
                ruled_out=len(ruled_out),
                conflicts=len(joined.conflicts),
            )
    raise StoreError(f"{own.store.path} is being changed by another program. Nothing was merged; do it again.")


def _state_of(session: Session) -> tuple[State, Contents]:
    state, store = State(), session.store
    with session.lock, store.reading():
        for line in map(json.loads, lines_of(session)):
            line.get("entries", []).sort(key=lambda entry: str(entry["preference"]))
            if line["kind"] == "proposal" and (line["state"], line["source"]) == ("open", _SOURCE):
                ends = None if line["expires"] is None else moment(line["expires"])
                state.conflicts[Preference(text=line["text"]).id] = _conflict(line["text"], line["old"], ends)
            elif line["kind"] in vars(state):
                vars(state)[line["kind"]][line["id"]] = line
        for salt, marks in MarkTable(store).marks(session.namespace).items():
            state.gone[salt] = set(marks)
        for salt, marks in MarkTable(store).marks(session.namespace, "from").items():
            state.origins[salt] = {mark[:6]: mark[6:] for mark in marks}
        return state, store.contents()


def _conflict(text: str, old: str, ends: Any) -> Proposal:
    return Proposal(kind="replace_preference", text=text, old=old, quote=text, source=_SOURCE, expires_at=ends)


def _rule_out(session: Session, lines: Sequence[Line]) -> list[str]:
    with session.lock:
        rules = rules_of(session)
    about = run(topics_of(session, tuple(rules.topics), [line["text"] for line in lines]))
    return [lines[place]["id"] for place, topics in enumerate(about) if topics]


def join(one: State, other: State) -> State:
    """Return what both states come to: the same whichever is first."""
    joined = State()
    for salt in one.gone.keys() | other.gone:
        joined.gone[salt] = one.gone.get(salt, set()) | other.gone.get(salt, set())
    for origins in (one.origins, other.origins):
        for salt, marks in origins.items():
            known = joined.origins.setdefault(salt, {})
            known |= {mark: min(first, known.get(mark, first)) for mark, first in marks.items()}
    for key in one.proposal.keys() | other.proposal:
        lines = [side.proposal[key] for side in (one, other) if key in side.proposal]
        joined.proposal[key] = max(lines, key=lambda line: (_STATES.index(line["state"]), _json(line)))
    _join_preferences(one, other, joined)
    _join_items(one, other, joined)
    texts = {plain(line["text"]) for line in (*joined.preference.values(), *joined.item.values())}
    for key, line in list(joined.proposal.items()):
        if line["state"] == "open" and line["old"] and plain(line["old"]) not in texts:
            del joined.proposal[key]
        elif line["state"] == "accepted" and line["text"] and plain(line["text"]) not in texts:
            # Of what is not held any more no words stay.
            joined.proposal[key] = {**line, **BARE, "state": "rejected"}
    return joined


def _json(line: Line) -> str:
    return json.dumps(line, sort_keys=True, ensure_ascii=False)


def _both(one: State, other: State, kind: str, joined: State, *marked: str) -> Iterator[tuple[str, list[Line]]]:
    """Yield the ids that one or both have and neither has forgotten, with their lines of the newest version."""
    for key in vars(one)[kind].keys() | vars(other)[kind]:
        newest = [joined.level(f"{mark} {key}") for mark in marked]
        sides = [side for side in (one, other) if key in vars(side)[kind]] if newest[0] % 2 == 0 else []
        lines = [vars(side)[kind][key] for side in sides if [side.level(f"{mark} {key}") for mark in marked] == newest]
        if lines:
            yield key, lines


def _join_preferences(one: State, other: State, joined: State) -> None:
    """Unite the preferences; of those that came in place of one and the same, one is in force and the others wait."""
    held, waiting = joined.preference, dict[str, tuple[str, Line]]()
    for key, lines in _both(one, other, "preference", joined, "preference"):
        lines.sort(key=lambda line: ("expansion" in line, "aspects" in line, _json(line)))
        held[key] = lines[-1]
        if plain(lines[0]["text"]) != plain(lines[-1]["text"]):
            waiting[Preference(text=lines[0]["text"]).id] = key, lines[0]
    for key, proposal in sorted({**one.conflicts, **other.conflicts}.items()):
        if key not in held and joined.level(f"preference {key}") % 2 == 0:
            proposed = Preference(text=proposal.text, expires_at=proposal.expires_at)
            held[key] = {"kind": "preference", **proposed.as_object()}
    beaten = _beaten(joined)
    waiting |= {key: (winner, held[key]) for key, winner in beaten.items()}
    for key in beaten:
        del held[key]
    for key, (winner, line) in waiting.items():
        ends = Preference(text=line["text"], expires_at=line["expires_at"]).expires_at
        proposal = _conflict(line["text"], held[winner]["text"], ends)
        if proposal.id not in joined.proposal:
            joined.conflicts[key] = proposal


def _beaten(joined: State) -> dict[str, str]:
    """Return the preferences that came in place of one in whose place another came, too, and is in force."""
    above: dict[str, str] = {}
    for salt, origins in joined.origins.items():
        lines: dict[bytes, list[str]] = {}
        for key in sorted(joined.preference):
            if (origin := origins.get(line_mark(joined.gone[salt], salt, key))) is not None:
                lines.setdefault(origin, []).append(key)
        for keys in lines.values():
            above |= dict.fromkeys(keys[:-1], keys[-1])
    for key in sorted(above, reverse=True):
        above[key] = above.get(above[key], above[key])
    return above


def _join_items(one: State, other: State, joined: State) -> None:
    """Unite the items; of versions of which neither is newer, one is held."""
    for key, lines in _both(one, other, "item", joined, "item", "version"):
        best = max(lines, key=lambda line: (bool(line.get("fact")), line["version"], len(line["text"]), _json(line)))
        entries: dict[str | None, Line] = {}
        for entry in (entry for line in lines if line["version"] == best["version"] for entry in line["entries"]):
            known = entries.get(entry["preference"], entry)
            entries[entry["preference"]] = max((known, entry), key=lambda entry: (entry["added"], _json(entry)))
        held = [entries[each] for each in sorted(entries, key=str) if each is None or each in joined.preference]
        joined.item[key] = {**best, "entries": held, "light": not held and not best.get("fact")}
    for key, lines in _both(one, other, "pending", joined, "item", "version"):
        under = {each for line in lines for each in line["preferences"]} & joined.preference.keys()
        if under and not joined.item.get(key, {}).get("entries"):
            newest = max(lines, key=_json)
            joined.pending[key] = {**newest, "preferences": sorted(under)}


def _judge(memory: EpicMemory, mine: State, theirs: State, joined: State) -> None:
    """Judge what only one has, in its version, under the preferences that only the other has."""
    new, items = joined.preference, joined.item
    for here, there in ((mine, theirs), (theirs, mine)):
        under = [line for key, line in new.items() if key in here.preference and key not in there.preference]
        known = {key: line["version"] for key, line in here.item.items()}
        fresh = [line for key, line in items.items() if known.get(key) != line["version"]]
        _judge_under(memory, under, fresh, joined)
    under = [line for key, line in new.items() if key not in mine.preference and key not in theirs.preference]
    _judge_under(memory, under, items.values(), joined)


def _judge_under(memory: EpicMemory, preferences: Sequence[Line], lines: Iterable[Line], joined: State) -> None:
    """Judge items under some preferences; where a model judges, they wait for it."""
    lines, verifier, read = [line for line in lines if not line.get("fact")], memory.verifier, Portable()
    if not preferences or not lines:
        return
    if not isinstance(verifier, EmbeddedVerifier):
        for line in lines:
            known = joined.pending.get(line["id"], {**line, "kind": "pending", "reason": _UNJUDGED, "preferences": []})
            under = {*known["preferences"], *(each["id"] for each in preferences)}
            joined.pending[line["id"]] = {**known, "preferences": sorted(under)}
        return
    for line in (*preferences, *lines):
        take_line(read, line, first=False)
    settings = Settings(tau=memory.tau, verifier=verifier, aspects="parser")
    judging = EpicMemory(read.preferences, encoder=memory.encoder, settings=settings)
    for line, judged in zip(lines, judging.judge([held.item for held, _ in read.items]), strict=True):
        verdict, added = judged.verdict, max((entry["added"] for entry in line["entries"]), default=0)
        for one, similarity in zip(verdict.alignments if judged.kept else (), judged.similarities, strict=False):
            entry: Line = {"preference": one.preference_id, "stance": str(one.stance), "similarity": float(similarity)}
            entry["confidence"] = verdict.confidence if one.confidence is None else one.confidence
            entry |= {"added": added, "verifier": verifier_number(verifier.name) if one.instruction else 0}
            line["entries"].append(
                {**entry, "instruction": one.instruction, "rationale": one.rationale or verdict.rationale}
            )
        line["light"] = not line["entries"]


def _written(session: Session, mine: State, joined: State, contents: Contents) -> bool:
    """Write what differs, in one transaction; return False if the file was changed since it was read."""
    read, over = Portable(), dict[str, list[str]]()
    for kind in ("preference", "item", "pending", "proposal"):
        before, after = vars(mine)[kind], vars(joined)[kind]
        over[kind] = [key for key, line in before.items() if after.get(key) != line]
        for line in (line for key, line in after.items() if before.get(key) != line):
            take_line(read, line, first=False)
    read.items = [each for each in read.items if each[1] or each[0].item.fact or session.reserve]
    vector_of = vectors_of(session, read)
    with session.lock, session.store.transaction():
        if session.store.contents() != contents:
            return False
        session.mark_stale()
        _take_out(session, joined, over)
        put_in(session, read, vector_of)
        for key, proposal in mine.conflicts.items():
            if joined.conflicts.get(key) != proposal:
                ProposalTable(session.store).remove(session.namespace, proposal.id)
        for key, proposal in joined.conflicts.items():
            if mine.conflicts.get(key) != proposal:
                ProposalTable(session.store).put(session.namespace, proposal, "open")
    session.store.give_back()
    return True


def _take_out(session: Session, joined: State, over: dict[str, list[str]]) -> None:
    """Write the marks, and remove what leaves or is written anew."""
    store, namespace = session.store, session.namespace
    for salt, marks in joined.gone.items():
        MarkTable(store).unite(namespace, salt, marks)
    for salt, origins in joined.origins.items():
        MarkTable(store).unite(namespace, salt, [mark + first for mark, first in origins.items()], "from")
    forgotten = [key for key in over["item"] if key not in joined.item]
    forget_traces(session, forgotten, forgotten)
    known = store.preferences.rows_of(namespace, over["preference"])
    for key in over["preference"]:
        if key not in joined.preference:
            items = store.take_out(namespace, known[key], key)[1]
            store.drop_orphans(items, keep_texts=session.reserve > 0)
    store.items.remove(namespace, over["item"])
    store.retry_queue.delete_ids(namespace, over["pending"])
    ProposalTable(store).delete_ids(namespace, over["proposal"])
