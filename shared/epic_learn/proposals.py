"""Proposals from conversations, and their acceptance: nothing takes effect before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epic_learn.conversations import Conversation, Turn
from epic_learn.facts.editing import LONGEST_FACT, change_fact, check_length, facts_of
from epic_learn.facts.matching import matched
from epic_learn.facts.statements import statement_of
from epic_learn.never import ruled_out
from epic_learn.origins import REWORDED, fact_metadata
from epic_learn.proposal_report import ProposalReport, Proposals
from epic_learn.references import (
    Known,
    asks_the_same,
    contrary,
    goes_against,
    in_first_person,
    lifts,
    referred,
    repeats,
    same,
    shared,
    takes_back,
    topic,
)
from epic_learn.tables import ProposalTable, was_decided
from epic_learn.types import Proposal, ProposalKind, plain
from epic_memory.encoders.base import Embed
from epic_memory.errors import BudgetError, InvalidInputError, UnknownProposalError
from epic_memory.pipeline.preferences import add_preference, remove_preference, replace_preference
from epic_memory.pipeline.removal import drop_expired
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects, run
from epic_memory.runtime.telemetry import Progress
from epic_memory.types import BuildReport, FloatArray, Item, Preference

if TYPE_CHECKING:
    from epic_learn.cues import Statement
    from epic_memory.lm.base import LanguageModel


def propose(
    session: Session, conversation: Conversation, lm: LanguageModel | None, auto: float | None, clock: Clock
) -> Effects[Proposals]:
    """Find what a conversation calls for, and keep it as open proposals; see `MemoryProposals.propose`."""
    session.store.check_writable()
    drop_expired(session)
    report = ProposalReport(turns=len(conversation.turns), unusable=dict(+conversation.unusable))
    report.own = sum(turn.role == "user" for turn in conversation.turns)
    known = _known(session)
    found, back = yield from _by_cues(session, conversation.turns, known, report)
    with session.lock:
        waiting = ProposalTable(session.store).of(session.namespace, "open")
    if lm is not None:
        from epic_learn.lm_proposals import proposed_by

        pending = [
            Known(text=each.text, preference=each.about_preference, pending=True) for each in waiting if each.text
        ]
        failures = len(report.failures)
        by_model = yield from proposed_by(lm, conversation.turns, [*known, *pending], report)
        by_model = [_ending(each, conversation.turns) for each in by_model]
        found = _both(found, by_model, report, read=len(report.failures) == failures)
    _take_back(session, {each.id for each in back} - {each.id for each in found}, conversation.turns)
    # What waits already stays as it is, so that the same words read again change nothing.
    with session.lock:
        waiting = ProposalTable(session.store).of(session.namespace, "open")
    new: list[Proposal] = []
    for each in found:
        if _waits(each, waiting):
            report.leave_out(each.turn, each.quote, "known already")
        else:
            new.append(_with_origin(each, conversation.turns))
    allowed = yield from _allowed(session, new, report)
    made = Proposals(keep_open(session, _later_ones(session, allowed, report), report), report)
    report.left_out.sort(key=lambda each: each.turn)
    for proposal in list(made):
        if auto is not None and proposal.confidence >= auto and proposal.kind.startswith("add"):
            yield from accept(session, proposal, None, BuildReport(), clock, Progress())
            made.remove(proposal)
            report.accepted.append(proposal)
    return made


def _with_origin(proposal: Proposal, turns: Sequence[Turn]) -> Proposal:
    """Return a proposal with its whole sentence, and by whom and when that was said."""
    from epic_learn.cues import said_at, sentence_of

    turn = next(each for each in turns if each.number == proposal.turn and proposal.quote in each.text)
    sentence = sentence_of(turn.text, proposal.quote)
    told = None if turn.time is None else said_at(turn)
    placed = replace(proposal, conversation=turn.source, turn=turn.place)
    return replace(placed, sentence=sentence, speaker=turn.speaker, said_at=told)


def _ending(proposal: Proposal, turns: Sequence[Turn]) -> Proposal:
    """Return a model's proposal with the end that its quote states: "No sugar until Friday"."""
    from epic_learn.cues import said_at
    from epic_learn.durations import end_of

    if proposal.expires_at is not None or not proposal.text:
        return proposal
    now = said_at(next(each for each in turns if each.number == proposal.turn))
    end = end_of(proposal.quote, now)
    return proposal if end is None or end <= now else replace(proposal, expires_at=end)


def _both(
    by_cues: Sequence[Proposal], by_model: Sequence[Proposal], report: ProposalReport, *, read: bool
) -> list[Proposal]:
    """Join what the cues find with a model's reading, in the order of the turns.

    What the model has read and does not propose is left out. Where both propose the same, the surer one's confidence
    and an end that either found count.
    """
    joined = list(by_model)
    for each in by_cues:
        place = next((n for n, other in enumerate(joined) if _same_words(each, other)), None)
        if place is None:
            if read:
                report.leave_out(each.turn, each.quote, "the model does not propose it")
            else:
                joined.append(each)
        elif joined[place].kind == each.kind:
            other = joined[place]
            surer = max(each.confidence, other.confidence)
            joined[place] = replace(other, confidence=surer, expires_at=other.expires_at or each.expires_at)
    return sorted(joined, key=lambda each: each.turn)


def _same_words(one: Proposal, other: Proposal) -> bool:
    first, second = plain(one.quote), plain(other.quote)
    return one.turn == other.turn and (first in second or second in first)


def _known(session: Session) -> list[Known]:
    """Return what is held. What another conversation called for changes nothing before it is accepted."""
    with session.lock:
        preferences = [Known(text=each.text, preference=True) for each in session.space().preferences]
    return [*preferences, *(Known(text=item.text, preference=False) for item in facts_of(session))]


def _waits(proposal: Proposal, waiting: Iterable[Proposal]) -> bool:
    """Tell whether a proposal says what another one that waits does."""
    return any(asks_the_same(proposal, each) or repeats(proposal, each) for each in waiting)


def _take_back(session: Session, back: Iterable[str], turns: Sequence[Turn]) -> None:
    """Remove open proposals, by their ids, that the user has taken back since this conversation was read in part."""
    store, namespace = session.store, session.namespace
    with session.lock, store.transaction():
        for proposal_id in back:
            made = ProposalTable(store).find(namespace, proposal_id)
            if made is not None and any(each.place == made.turn and made.quote in each.text for each in turns):
                ProposalTable(store).remove(namespace, proposal_id)


def _later_ones(session: Session, new: Sequence[Proposal], report: ProposalReport) -> list[Proposal]:
    """Withdraw what waits and was said before something new that goes against it; leave out what was said before it.

    Where nothing says which came later, both wait.
    """
    with session.lock:
        dated = [each for each in ProposalTable(session.store).of(session.namespace, "open") if _is_dated(each)]
    kept, withdrawn = [], set()
    for each in new:
        against = [other for other in dated if _is_dated(each) and goes_against(each.text, other.text)]
        earlier = [other for other in against if _is_before(other, each)]
        withdrawn |= {other.id for other in earlier}
        is_end = any(lifts(each.text, other.text) for other in earlier)
        if is_end or any(_is_before(each, other) for other in against):
            report.leave_out(each.turn, each.quote, "taken back later")
        else:
            kept.append(each)
    with session.lock, session.store.transaction():
        for proposal_id in withdrawn:
            ProposalTable(session.store).remove(session.namespace, proposal_id)
    return kept


def _is_dated(proposal: Proposal) -> bool:
    return proposal.kind == "add_preference" and proposal.said_at is not None and proposal.expires_at is None


def _is_before(one: Proposal, other: Proposal) -> bool:
    return one.said_at is not None and other.said_at is not None and one.said_at < other.said_at


def add_proposals(session: Session, proposals: Iterable[Proposal], *, again: bool) -> Proposals:
    """Keep proposals of a caller's own as open; see `MemoryProposals.add`."""
    session.store.check_writable()
    if not isinstance(proposals, (Proposal, Iterable)):
        raise InvalidInputError(f"Give the proposals in a list, not as {type(proposals).__name__}.")
    given = [proposals] if isinstance(proposals, Proposal) else list(proposals)
    for proposal in given:
        if not isinstance(proposal, Proposal):
            raise InvalidInputError(f"A Proposal is needed, not {type(proposal).__name__}.")
        if not proposal.about_preference:
            check_length(proposal.text)
    drop_expired(session)
    report = ProposalReport()
    with session.lock:
        waiting = ProposalTable(session.store).of(session.namespace, "open")
    asked = [next((each for each in waiting if asks_the_same(each, one)), None) for one in given]
    new = [one for one, before in zip(given, asked, strict=True) if before is None]
    new = run(_allowed(session, new, report))
    made = keep_open(session, new, report, again=again)
    return Proposals(dict.fromkeys([*(each for each in asked if each), *made]), report)


def _allowed(session: Session, new: Sequence[Proposal], report: ProposalReport) -> Effects[list[Proposal]]:
    """Return the proposals that add nothing about a topic that is ruled out."""
    out = yield from ruled_out(session, [f"{each.text}\n{each.sentence}" if each.text else "" for each in new])
    for proposal, is_out in zip(new, out, strict=True):
        if is_out:
            report.leave_out(proposal.turn, proposal.quote, "about a topic that is never kept")
    return [proposal for proposal, is_out in zip(new, out, strict=True) if not is_out]


def keep_open(
    session: Session, found: Sequence[Proposal], report: ProposalReport, *, again: bool = False
) -> list[Proposal]:
    """Keep new proposals as open, with `again` also decided ones, and return those that are."""
    store, namespace = session.store, session.namespace
    made: dict[str, Proposal] = {}
    try:
        with session.lock, store.transaction():
            decided: frozenset[str | bytes] = frozenset() if again else ProposalTable(store).decided(namespace)
            for proposal in found:
                if proposal.over:
                    reason = "over already"
                elif not proposal.about_preference and len(proposal.text) > LONGEST_FACT:
                    reason = "too long for a fact"
                elif was_decided(proposal, decided):
                    reason = "decided before"
                elif proposal.id in made:
                    reason = "said twice"
                else:
                    made[proposal.id] = proposal
                    ProposalTable(store).put(namespace, proposal, "open")
                    continue
                report.leave_out(proposal.turn, proposal.quote, reason)
    except BudgetError as error:
        made.clear()
        report.failures.append(f"{len(found)} proposals were not kept: {error}")
    return list(made.values())


# --- by cues


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


def _by_cues(
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
    # Its patterns take a while to compile: no program pays for them that does not learn.
    from epic_learn.cues import said_at, statements

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


@dataclass(frozen=True)
class _Outcome:
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


# --- decisions


def found_proposal(session: Session, proposal: str | Proposal) -> Proposal:
    """Return an open proposal, given by its id or as such.

    Raises:
        UnknownProposalError: if it is not open in this namespace.
    """
    key = proposal.id if isinstance(proposal, Proposal) else proposal
    with session.lock:
        found = ProposalTable(session.store).find(session.namespace, key)
    if found is None:
        raise UnknownProposalError(
            f"No open proposal has the id {key!r}: memory.proposals lists them. One of your own has to be open before"
            " it is decided about: memory.proposals.add([proposal])."
        )
    return found


def accept(
    session: Session,
    proposal: Proposal,
    text: str | None,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
) -> Effects[None]:
    """Put a proposal in force, with another text if one is given, and mark it as accepted in the same transaction."""
    store, namespace = session.store, session.namespace
    accepted = proposal if text is None else replace(proposal, text=text, source=REWORDED)

    def mark() -> None:
        if proposal.id in ProposalTable(store).decided(namespace):
            raise UnknownProposalError(f"{str(proposal)!r} was decided in the meantime.")
        ProposalTable(store).remove(namespace, proposal.id)
        ProposalTable(store).put(namespace, accepted, "accepted")

    if not accepted.about_preference:
        ends, new_fact = accepted.expires_at, None
        if accepted.text:
            new_fact = Item(text=accepted.text, metadata=fact_metadata(accepted), fact=True, expires_at=ends)
        yield from change_fact(session, new_fact, accepted.old, mark)
        return
    with session.lock:
        held = {plain(each.text): each for each in session.space().preferences}
    old = held.get(plain(accepted.old))
    new = Preference(text=accepted.text, expires_at=accepted.expires_at) if accepted.text else None
    if new is not None and plain(new.text) in held and old is not held[plain(new.text)]:
        new = None  # it is in force already
    if new is not None and old is not None:
        yield from replace_preference(session, old, new, report, clock, progress, also=mark)
    elif new is not None:
        yield from add_preference(session, new, report, clock, progress, also=mark)
    elif old is not None:
        yield from remove_preference(session, old, report, clock, progress, also=mark)
    else:
        _marked(session, mark)


def _marked(session: Session, mark: Callable[[], None]) -> None:
    with session.lock, session.store.transaction():
        mark()


def reject(session: Session, proposal: Proposal) -> None:
    """Remember of a proposal, by digests alone, that it is not to be made again."""
    with session.lock, session.store.transaction():
        ProposalTable(session.store).put(session.namespace, proposal, "rejected")
