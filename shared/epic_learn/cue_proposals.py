"""Proposals by cues: what the user's own words call for beside what is known, read without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from epic_learn.conversations import Turn
from epic_learn.cues import Statement, said_at, sentence_of, statements
from epic_learn.facts.matching import matched
from epic_learn.facts.statements import statement_of
from epic_learn.proposal_report import ProposalReport
from epic_learn.references import (
    Known,
    contrary,
    in_first_person,
    lifts,
    referred,
    same,
    shared,
    takes_back,
    topic,
)
from epic_learn.tables import ProposalTable
from epic_learn.types import Proposal, ProposalKind
from epic_memory.encoders.base import Embed
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Effects
from epic_memory.types import FloatArray


@dataclass(kw_only=True, eq=False)
class _Candidate:
    """Something known that a statement may refer to.

    Attributes:
        known: Its text.
        row: Of E(text) among the embeddings of what was read.
        proposal: The proposal of this conversation that it is of.
        changed: Whether a statement before has changed it.
    """

    known: Known
    row: int
    proposal: Proposal | None = None
    changed: bool = False


def by_cues(
    session: Session, turns: Sequence[Turn], known: Sequence[Known], report: ProposalReport
) -> Effects[tuple[list[Proposal], list[Proposal]]]:
    """Return what the user's own words call for, read without a model, and what of it they take back again."""
    with session.lock:
        waiting = ProposalTable(session.store).of(session.namespace, "open")
    # What this conversation itself says is read anew, and in its order.
    elsewhere = [each for each in waiting if each.text and not any(each.quote in turn.text for turn in turns)]
    said = _said(turns, known, [each.text for each in elsewhere], report)
    if not said:
        return [], []
    texts = [*(each.text for each in known), *(_text(each.quote) for _, each in said)]
    vectors: FloatArray = yield Embed(session.encoder, texts, "embedding")
    pool = [_Candidate(known=each, row=row) for row, each in enumerate(known)]
    made: list[Proposal] = []
    back: list[Proposal] = []
    for row, (turn, statement) in enumerate(said, start=len(known)):
        assert statement.quote in turn.text
        cosines = (vectors @ vectors[row])[[each.row for each in pool]]
        outcome = _Reading(statement, [each.known for each in pool], cosines).read()
        kind, old = outcome.kind, None if outcome.old is None else pool[outcome.old]
        if outcome.reason:
            report.leave_out(turn.number, statement.quote, outcome.reason)
            if old is not None and old.changed:
                # It is said again after all: what changed it before does not.
                changing = [each for each in made if each.old == old.known.text]
                made, old.changed = [each for each in made if each not in changing], False
                back += changing
            continue
        if old is not None and old.changed:
            report.leave_out(turn.number, statement.quote, "said twice")
            continue
        if old is not None and old.known.pending:
            # It was only proposed: it is taken back, and nothing has to be removed for it.
            pool.remove(old)
            report.leave_out(turn.number, statement.quote, "taken back later")
            assert old.proposal is not None
            made = [each for each in made if each is not old.proposal]
            back.append(old.proposal)
            for each in pool:
                each.changed = each.changed and each.known.text != old.proposal.old
            if kind.startswith(("remove", "end")):
                continue
            kind, old = ("add_preference" if kind.endswith("preference") else "add_fact"), None
        proposal = Proposal(
            kind=kind,
            text="" if kind.startswith(("remove", "end")) else _text(statement.quote),
            old="" if old is None else old.known.text,
            quote=statement.quote,
            turn=turn.number,
            confidence=statement.confidence,
            expires_at=statement.until,
        )
        made.append(proposal)
        if old is not None:
            old.changed = True
        if proposal.text:
            new = Known(text=proposal.text, preference=proposal.about_preference, pending=True)
            pool.append(_Candidate(known=new, row=row, proposal=proposal))
    return made, back


def _said(
    turns: Sequence[Turn], known: Sequence[Known], waiting: Sequence[str], report: ProposalReport
) -> list[tuple[Turn, Statement]]:
    """Return what the user says of themselves, with its turn; what does not count is reported."""
    said: list[tuple[Turn, Statement]] = []
    texts, before = [each.text for each in known], list(waiting)
    for turn in turns:
        found = statements(turn, said_at(turn), texts, every=True)
        unsure = frozenset[str]().union(*(topic(each.quote) for each in found if each.left_out == "not sure enough"))
        if related := [text for text in before if unsure & topic(text)] if unsure else []:
            # What was only proposed makes it plainer: "Actually I like opera now."
            found = statements(turn, said_at(turn), [*texts, *related], every=True)
        before += [each.quote for each in found if not each.left_out]
        for each in found:
            if each.left_out:
                report.leave_out(turn.number, each.quote, each.left_out)
            else:
                said.append((turn, each))
    return said


def _text(quote: str) -> str:
    text = " ".join(quote.split())
    return text[:1].upper() + text[1:]


class _Outcome(NamedTuple):
    """Edit that a statement calls for, the position of what it changes or repeats, and a reason not to propose it."""

    kind: ProposalKind = "add_preference"
    old: int | None = None
    reason: str = ""


class _Reading:
    """The reading of one statement in the light of what is known."""

    def __init__(self, statement: Statement, known: Sequence[Known], cosines: FloatArray) -> None:
        self._statement, self._known, self._cosines = statement, known, cosines
        self._text = _text(statement.quote)
        self._perhaps = False  # whether it may change what was only proposed

    def read(self) -> _Outcome:
        change = self._statement.change
        if change == "none":
            return self._stated()
        if (told := self._told_of_a_fact()) is not None:
            return told
        place = self._referred()
        old = None if place is None else self._known[place]
        # "We moved to oat milk" changes a preference about milk; "my train was moved" changes none.
        elsewhere = old is not None and old.preference and change == "news" and not shared(self._text, old.text)
        if old is None or place is None or elsewhere:
            if change == "remove" and not self._perhaps:
                return _Outcome(reason="changes of what is not known")
            return _Outcome("add_fact" if change == "news" or self._perhaps else "add_preference")
        if change != "remove" and same(self._text, old, float(self._cosines[place])):
            return _Outcome(old=place, reason="known already")
        if not old.preference:
            ended = change == "remove" or "ended" in statement_of(self._text).signs
            return _Outcome("end_fact" if ended else "update_fact", place)
        return _Outcome("remove_preference" if change == "remove" else "replace_preference", place)

    def _told_of_a_fact(self) -> _Outcome | None:
        """Return what the statement does to a fact that is known, or None for nothing."""
        facts = [place for place, each in enumerate(self._known) if not each.preference]
        for places in (facts, [place for place in facts if not self._known[place].pending]):
            match = matched(self._text, [in_first_person(self._known[place].text) for place in places])
            if match is None:
                continue
            place = places[match.place]
            if match.kind == "duplicate" and match.sure:
                return _Outcome(old=place, reason="known already")
            # What was only proposed is no fact that could change.
            self._perhaps = self._known[place].pending
            if not self._perhaps:
                return _Outcome("end_fact" if match.kind == "end" else "update_fact", place)
        return None

    def _referred(self) -> int | None:
        """Return the position of what the statement refers to, or None; of what was only proposed, a preference."""
        places = [
            place
            for place, each in enumerate(self._known)
            if not each.pending or (each.preference and self._is_about(each))
        ]
        known = [self._known[place] for place in places]
        found = referred(self._statement.quote, known, self._cosines[places])
        return None if found is None else places[found]

    def _is_about(self, each: Known) -> bool:
        """Tell whether the statement is surely about the same subject as a preference."""
        words, before = topic(self._text), topic(each.text)
        return bool(words & before) and (words <= before or before <= words)

    def _stated(self) -> _Outcome:
        preference = self._statement.about == "preference"
        for place, each in enumerate(self._known):
            comparable = each.pending or each.preference == preference
            if comparable and same(self._text, each, float(self._cosines[place])):
                return _Outcome(old=place, reason="known already")
        if self._statement.until is not None:
            return _Outcome("add_preference" if preference else "add_fact")
        if not preference and (told := self._told_of_a_fact()) is not None:
            return told
        alike = [
            place
            for place, each in enumerate(self._known)
            if preference
            and each.preference
            and shared(self._text, each.text)
            and not (each.pending and not self._is_about(each))
        ]
        for place in sorted(alike, key=self._cosines.__getitem__, reverse=True):
            text = self._known[place].text
            if lifts(self._text, text):
                return _Outcome("remove_preference", place)
            if takes_back(self._text, text) or contrary(self._text, text):
                return _Outcome("replace_preference", place)
        return _Outcome("add_preference" if preference else "add_fact")


def with_origin(proposal: Proposal, turns: Sequence[Turn]) -> Proposal:
    """Return a proposal with its whole sentence, and by whom and when that was said."""
    turn = next(each for each in turns if each.number == proposal.turn and proposal.quote in each.text)
    sentence = sentence_of(turn.text, proposal.quote)
    told = None if turn.time is None else said_at(turn)
    placed = replace(proposal, conversation=turn.source, turn=turn.place)
    return replace(placed, sentence=sentence, speaker=turn.speaker, said_at=told)
