"""Score of a language model that verifies: our labelled pairs of a note and a preference, by the package's prompts.

Half of the pairs matter: the note supports the preference or conflicts with it, and some of its words decide that. A
verifier is asked about notes as in a memory, each under its preferences, several notes in a call.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from epic_eval.journal import Journal, Record, key_of, read_lines
from epic_eval.report import Table
from epic_memory import Item
from epic_memory.encoders import Encoder, embed
from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import sentences
from epic_memory.types import Candidate, Decision, Preference, Stance, Usage, Verdict
from epic_memory.verification import Verifier

Say = Callable[[str], None]

BUNDLED = "data/pairs.jsonl"

_REASON_SHOWN = 240
_TELL_EVERY = 20


@dataclass(frozen=True)
class Label:
    """Label of a note under a preference.

    Attributes:
        stance: None if the note does not matter to the preference.
        evidence: The words of the note that decide; empty if they are not labelled.
    """

    stance: Stance | None = None
    evidence: str = ""


@dataclass(frozen=True)
class Note:
    """A note with the labels of its preferences, nearest first."""

    item: Item
    labels: Mapping[str, Label]

    def candidate(self, encoder: Encoder) -> Candidate:
        """Return what a verifier is asked about the note."""
        preferences = tuple(Preference(text=text) for text in self.labels)
        vectors = embed(encoder, [self.item.content, *self.labels])
        return Candidate(
            item=self.item,
            embedding=vectors[0],
            preferences=preferences,
            similarities=tuple((vectors[1:] @ vectors[0]).tolist()),
            preference_embeddings=vectors[1:],
        )


def read_notes(path: str | Path | None = None) -> list[Note]:
    """Read labelled notes: lines of JSON with `text`, `title` if it has one, and `pairs`; default: the bundled ones.

    Each of the pairs has a `preference`, and if the note matters to it a `stance` and perhaps the `evidence`.

    Raises:
        InvalidInputError: naming the line that is none.
    """
    source = Path(str(files("epic_eval") / BUNDLED)) if path is None else Path(path)
    notes = []
    for number, record in enumerate(read_lines(source), start=1):
        try:
            title = {"title": record["title"]} if record.get("title") else {}
            labels = {
                pair["preference"]: Label(
                    Stance(pair["stance"]) if pair.get("stance") else None, pair.get("evidence") or ""
                )
                for pair in record["pairs"]
            }
            notes.append(Note(Item(text=record["text"], metadata=title), labels))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(f"{source}, line {number} is no labelled note ({error!r}).") from None
        if not labels:
            raise InvalidInputError(f"{source}, line {number} has no pairs.")
    if not notes:
        raise InvalidInputError(f"{source} holds no notes.")
    return notes


def ask(
    verifier: Verifier,
    notes: Sequence[Note],
    encoder: Encoder,
    *,
    journal: Journal | None = None,
    seconds: float | None = None,
    say: Say = lambda line: None,
) -> list[Record | None]:
    """Return what a verifier says of notes, in their order; None for those that it was not asked about.

    It ends early after `seconds`, or by an interrupt from the keyboard: the call that is made then is cancelled. What
    the journal holds is not asked again, unless it is undecided.
    """
    keys = [key_of(verifier.name, note.item.content, list(note.labels)) for note in notes]
    known = [None if journal is None else journal.get(key) for key in keys]
    made: dict[int, Record] = {place: record for place, record in enumerate(known) if record is not None}
    # A failure may succeed when it is asked again.
    due = [place for place in range(len(notes)) if place not in made or _is_undecided(made[place])]

    async def collect() -> None:
        last = time.perf_counter()
        asked = verifier.averify([notes[place].candidate(encoder) for place in due])
        places = iter(due)
        async for verdict in asked:
            place, now = next(places), time.perf_counter()
            made[place], last = _record(verdict, now - last, made.get(place)), now
            if journal is not None:
                journal.add(keys[place], made[place])
            if not len(made) % _TELL_EVERY:
                say(f"{len(made)} of {len(notes)} notes")

    try:
        asyncio.run(asyncio.wait_for(collect(), seconds))
    except asyncio.TimeoutError:
        say(f"{seconds:g} s are over.")
    except KeyboardInterrupt:
        say("Stopped.")
    return [made.get(place) for place in range(len(notes))]


def _record(verdict: Verdict, seconds: float, before: Record | None) -> Record:
    """Return what a verdict says, and what it cost together with what was asked about the note before."""
    used = Usage() if verdict.usage is None else verdict.usage
    tokens = used.prompt_tokens + used.completion_tokens
    costs = {"seconds": seconds, "calls": used.calls, "retries": used.retries, "tokens": tokens}
    return {
        "decision": verdict.decision.value,
        "stances": {one.preference_id: one.stance.value for one in verdict.alignments},
        "evidence": {one.preference_id: one.rationale for one in verdict.completed()},
        "reason": verdict.rationale if verdict.decision is Decision.UNDECIDED else "",
        **{name: cost + (before[name] if before else 0) for name, cost in costs.items()},
    }


def _is_undecided(record: Record) -> bool:
    return bool(record["decision"] == Decision.UNDECIDED.value)


@dataclass(frozen=True)
class Pair:
    """A pair with what is right and what was said."""

    note: Note
    preference: str
    label: Label
    decided: bool
    stance: Stance | None
    evidence: str

    @property
    def is_kept_right(self) -> bool:
        """Return whether the decision is right; undecided is wrong."""
        return self.decided and (self.stance is None) == (self.label.stance is None)

    @property
    def has_evidence(self) -> bool:
        """Return whether the sentence that shares most words with the evidence given is one that the label quotes."""
        said = _words(self.evidence)
        spoken = [*([self.note.item.metadata["title"]] if "title" in self.note.item.metadata else [])]
        spoken += sentences(self.note.item.text)
        nearest = max(spoken, key=lambda sentence: _shared(said, _words(sentence)))
        label = _words(self.label.evidence)
        return bool(said) and len(label & _words(nearest)) * 2 >= len(label)


def pairs_of(notes: Sequence[Note], said: Sequence[Record | None]) -> list[Pair]:
    """Return the pairs of the notes that a verifier was asked about."""
    made = []
    for note, record in zip(notes, said, strict=True):
        for text, label in note.labels.items() if record is not None else ():
            assert record is not None
            key = Preference(text=text).id
            stance = record["stances"].get(key)
            decided = not _is_undecided(record)
            evidence = record["evidence"].get(key, "")
            made.append(Pair(note, text, label, decided, Stance(stance) if stance else None, evidence))
    return made


def table(columns: Mapping[str, Sequence[Record | None]], notes: Sequence[Note]) -> Table:
    """Return the accuracies of verifiers, a column for each."""
    labels = [label for note in notes for label in note.labels.values()]
    matter = sum(label.stance is not None for label in labels)
    rows: dict[str, list[str]] = {}
    reasons: Counter[str] = Counter()
    for said in columns.values():
        for name, value in _measures(notes, said).items():
            rows.setdefault(name, []).append(value)
        reasons.update(record["reason"] for record in said if record is not None and record["reason"])
    return Table(
        f"Verification: {len(notes)} notes, {len(labels)} pairs, {matter} of which matter",
        ("", *columns),
        tuple((name, *cells) for name, cells in rows.items()),
        (
            "keep: pairs that are kept, or not, as they should be; what is undecided is wrong. Of the pairs that"
            " matter, found is the share that is kept, stance the share with the right stance. Of those kept, right is"
            " the share that matters; of these, evidence is the share with the sentence that decides.",
            *(f"{count} notes undecided: {reason[:_REASON_SHOWN]}" for reason, count in reasons.most_common(2)),
        ),
    )


def _measures(notes: Sequence[Note], said: Sequence[Record | None]) -> dict[str, str]:
    pairs = pairs_of(notes, said)
    records = [record for record in said if record is not None]
    mattering = [pair for pair in pairs if pair.label.stance is not None]
    kept = [pair for pair in pairs if pair.stance is not None]
    rightly = [pair for pair in kept if pair.label.stance is not None]
    calls, tokens = (sum(record[name] for record in records) for name in ("calls", "tokens"))
    seconds = sum(record["seconds"] for record in records)
    return {
        "keep": _share(pair.is_kept_right for pair in pairs),
        "  found": _share(pair.stance is not None for pair in mattering),
        "  right": _share(pair.label.stance is not None for pair in kept),
        "stance": _share(pair.stance is pair.label.stance for pair in mattering),
        "evidence": _share(pair.has_evidence for pair in rightly if pair.label.evidence),
        "undecided notes": str(sum(map(_is_undecided, records))),
        "notes asked about": f"{len(records)} of {len(said)}",
        "calls": f"{calls}, {sum(record['retries'] for record in records)} of them again" if calls else "-",
        "calls a second": f"{calls / seconds:.2f}" if calls else "-",
        "tokens a call": f"{tokens / calls:.0f}" if calls and tokens else "-",
        "seconds": f"{seconds:.1f}",
    }


def _share(right: Iterable[bool]) -> str:
    values = list(right)
    return f"{sum(values) / len(values):.2f} of {len(values)}" if values else "-"


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _shared(one: set[str], other: set[str]) -> tuple[int, int]:
    """Return how many words two texts share; of texts that share as many the shorter one is nearer."""
    return len(one & other), -len(other)
