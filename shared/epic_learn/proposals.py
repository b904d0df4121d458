"""Proposals from conversations, and their acceptance: nothing takes effect before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from epic_learn.conversations import Conversation, Turn
from epic_learn.facts.editing import LONGEST_FACT, change_fact, check_length, facts_of
from epic_learn.never import ruled_out
from epic_learn.origins import REWORDED, fact_metadata
from epic_learn.proposal_report import ProposalReport, Proposals
from epic_learn.references import Known, asks_the_same, goes_against, lifts, repeats
from epic_learn.tables import ProposalTable, was_decided
from epic_learn.types import Proposal, plain
from epic_memory.errors import BudgetError, InvalidInputError, UnknownProposalError
from epic_memory.pipeline.preferences import add_preference, remove_preference, replace_preference
from epic_memory.pipeline.removal import drop_expired
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects, run
from epic_memory.runtime.telemetry import Progress
from epic_memory.types import BuildReport, Item, Preference

if TYPE_CHECKING:
    from epic_memory.lm.base import LanguageModel


def propose(
    session: Session, conversation: Conversation, lm: LanguageModel | None, auto: float | None, clock: Clock
) -> Effects[Proposals]:
    """Find what a conversation calls for, and keep it as open proposals; see `MemoryProposals.propose`."""
    session.store.check_writable()
    drop_expired(session)
    report = ProposalReport(turns=len(conversation.turns), unusable=dict(+conversation.unusable))
    report.own = sum(turn.role == "user" for turn in conversation.turns)
    # Its patterns take a while to compile: no program pays for them that does not learn.
    from epic_learn.cue_proposals import by_cues, with_origin

    known = _known(session)
    found, back = yield from by_cues(session, conversation.turns, known, report)
    with session.lock:
        waiting = ProposalTable(session.store).of(session.namespace, "open")
    if lm is not None:
        from epic_learn.lm_proposals import proposed_by

        pending = [
            Known(text=each.text, preference=each.about_preference, pending=True) for each in waiting if each.text
        ]
        failures = len(report.failures)
        by_model = yield from proposed_by(lm, conversation.turns, [*known, *pending], report)
        found = _both(found, by_model, report, read=len(report.failures) == failures)
    _take_back(session, {each.id for each in back} - {each.id for each in found}, conversation.turns)
    # What waits already stays as it is, so that the same words read again change nothing.
    with session.lock:
        waiting = ProposalTable(session.store).of(session.namespace, "open")
    new: list[Proposal] = []
    for each in found:
        if any(asks_the_same(each, other) or repeats(each, other) for other in waiting):
            report.leave_out(each.turn, each.quote, "known already")
        else:
            new.append(with_origin(each, conversation.turns))
    allowed = yield from _allowed(session, new, report)
    made = Proposals(keep_open(session, _later_ones(session, allowed, report), report), report)
    report.left_out.sort(key=lambda each: each.turn)
    for proposal in list(made):
        if auto is not None and proposal.confidence >= auto and proposal.kind.startswith("add"):
            yield from accept(session, proposal, None, BuildReport(), clock, Progress())
            made.remove(proposal)
            report.accepted.append(proposal)
    return made


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
        with session.lock, store.transaction():
            mark()


def reject(session: Session, proposal: Proposal) -> None:
    """Remember of a proposal, by digests alone, that it is not to be made again."""
    with session.lock, session.store.transaction():
        ProposalTable(session.store).put(session.namespace, proposal, "rejected")
