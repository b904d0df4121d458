"""Proposals of a memory: what conversations call for, and the user's decisions about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from epic_learn.conversations import Conversation, read_conversation
from epic_learn.credentials import without_credentials
from epic_learn.proposal_report import Proposals
from epic_learn.proposals import accept, add_proposals, found_proposal, propose, reject
from epic_learn.tables import ProposalTable, was_decided
from epic_learn.types import Proposal, ProposalKind
from epic_memory.errors import InvalidInputError
from epic_memory.groups.live import Live
from epic_memory.pipeline.reporting import areported, reported
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects, arun, in_thread, run
from epic_memory.settings import asked_model
from epic_memory.types import BuildReport

if TYPE_CHECKING:
    from epic_memory.lm.base import LanguageModel


class MemoryProposals(Live[Proposal]):
    """The proposals that wait for a decision, oldest first: a sequence, and what makes and decides them.

    for proposal in memory.proposals.propose(messages):
        memory.proposals.accept(proposal)
    print(list(memory.proposals), memory.proposals.accepted())
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def propose(
        self,
        messages: Any,
        lm: LanguageModel | str | None = None,
        auto: float | None = None,
        *,
        user: str | Collection[str] = (),
    ) -> Proposals:
        """Read a conversation for what it says of the user; nothing takes effect before it is accepted.

            for proposal in memory.proposals.propose(messages):
                print(proposal, proposal.quote)
                memory.proposals.accept(proposal)

        Only the user's own turns count, in the first person and literally quoted; not questions, conditions,
        quotations, pasted texts or the tastes of others. "Today" and "this time" expire. A change of mind ("I quit
        coffee") refers to the preference or fact that it changes.

        Args:
            messages: As for `epic_learn.add_conversation`. Only the
                quotes are stored. Sentences with a password are not read.
            lm: A language model that reads it too, one call for a few turns; or its name (`lm_of`). Default: the
                memory's `llm`.
            auto: Accept by itself additions of at least this confidence, in (0, 1]; 0.9 for what is said plainly.
            user: Names of speakers who are the user, besides "user".

        Returns:
            What is newly proposed, in the order of the turns; its `report` says what else was found.

        Raises:
            InvalidInputError: for what holds no messages, or arguments that cannot be.
            ReadOnlyError: if the memory cannot be written.
        """
        clock = Clock()
        return run(self._proposing(read_conversation(messages, user=user), lm, auto, clock), clock)

    async def apropose(
        self,
        messages: Any,
        lm: LanguageModel | str | None = None,
        auto: float | None = None,
        *,
        user: str | Collection[str] = (),
    ) -> Proposals:
        """As `propose`, without blocking the event loop."""
        conversation, clock = await in_thread(partial(read_conversation, messages, user=user)), Clock()
        return await arun(self._proposing(conversation, lm, auto, clock), clock)

    def _proposing(
        self, conversation: Conversation, lm: LanguageModel | str | None, auto: float | None, clock: Clock
    ) -> Effects[Proposals]:
        if auto is not None and not (isinstance(auto, Real) and not isinstance(auto, bool) and 0.0 < auto <= 1.0):
            raise InvalidInputError(f"auto must be a confidence in (0, 1], not {auto!r}.")
        lm = self._session.lm if lm is None else asked_model(lm)[0]
        return propose(self._session, without_credentials(conversation), lm, auto, clock)

    def add(self, proposals: Iterable[Proposal], *, again: bool = False) -> Proposals:
        """Keep proposals that your own code has made as open, to be accepted or rejected like those of `propose`.

        Args:
            proposals: Those that are over, and those that were decided before, are left out.
            again: Whether to keep also those that were decided before, such as what the user says anew when asked.

        Returns:
            Those that are open now; its `report` says why others are not.

        Raises:
            InvalidInputError: for what is no proposal, or a fact that is too long.
            ReadOnlyError: if the memory cannot be written.
        """
        return add_proposals(self._session, proposals, again=again)

    async def aadd(self, proposals: Iterable[Proposal], *, again: bool = False) -> Proposals:
        """As `add`, without blocking the event loop."""
        return await in_thread(partial(self.add, proposals, again=again))

    def accepted(self) -> list[Proposal]:
        """Return the accepted proposals, with their quotes.

        The acceptance of a fact is forgotten with it: when it is replaced, undone, forgotten, or over.
        """
        return self._of("accepted")

    def was_decided(self, text: str) -> bool:
        """Tell whether a preference or fact in these words was proposed, and accepted or rejected."""
        words = text.strip()
        said = {part for part in (words, words.rstrip(".!"), f"{words.rstrip('.!')}.") if part}
        with self._session.lock, self._session.store.reading():
            decided = ProposalTable(self._session.store).decided(self._session.namespace)
        kinds: tuple[ProposalKind, ...] = ("add_preference", "add_fact")
        return any(was_decided(Proposal(kind=kind, text=each, quote=each), decided) for kind in kinds for each in said)

    def _read(self) -> list[Proposal]:
        return self._of("open")

    def _of(self, state: Literal["open", "accepted"]) -> list[Proposal]:
        with self._session.lock, self._session.store.reading():
            return ProposalTable(self._session.store).of(self._session.namespace, state)

    def accept(self, proposal: str | Proposal, text: str | None = None, *, progress: bool = False) -> BuildReport:
        """Put a proposal in force: add, replace or remove a preference or fact, all in one transaction.

        Args:
            proposal: As such or by its id; it has to be open (`propose`, `add`).
            text: The user's own wording, in place of the proposal's.
            progress: Show a bar.

        Raises:
            UnknownProposalError: if it is not open in this namespace: unknown, decided, or its time is over.
            InvalidInputError: for a fact that is too long.
        """
        return reported(
            self._session,
            partial(accept, self._session, found_proposal(self._session, proposal), text),
            progress=progress,
        )

    async def aaccept(
        self, proposal: str | Proposal, text: str | None = None, *, progress: bool = False
    ) -> BuildReport:
        """As `accept`, without blocking the event loop."""
        found = await in_thread(found_proposal, self._session, proposal)
        return await areported(self._session, partial(accept, self._session, found, text), progress=progress)

    def reject(self, *proposals: str | Proposal) -> None:
        """Turn proposals down, given as such or by their ids: they never come back. Only digests of them are kept.

        Raises:
            UnknownProposalError: for one that is not open; none is turned down then.
        """
        self._session.store.check_writable()
        for proposal in [found_proposal(self._session, each) for each in proposals]:
            reject(self._session, proposal)

    async def areject(self, *proposals: str | Proposal) -> None:
        """As `reject`, without blocking the event loop."""
        await in_thread(self.reject, *proposals)
