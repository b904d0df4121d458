"""Origins of texts: who wrote an item, a fact or a proposal, and where it was said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from epic_learn.types import Proposal, plain
from epic_memory.text.stems import words_of

Origin: TypeAlias = Literal["user", "other", "page", "assistant", "tool"]
"""Who wrote a text: the user, another person, a page or book, an assistant, or a tool; the most trusted first."""

ORIGIN = "origin"
"""Key of the metadata of items and facts that says who wrote them."""
SAID = "said"
"""Key of the metadata of facts that says when and in which conversation the user said it."""

AGENT = "agent"
"""Source of a proposal that an assistant has worded."""
REWORDED = "user"
"""Source of a proposal that the user has worded anew."""
# Sources whose proposals are in the user's words. Any other one is the name of a language model.
_OWN = frozenset({REWORDED, "cues", "onboarding", "facts", "page", "preferences.md"})


def least_trusted(origins: Iterable[str]) -> Origin:
    """Return the origin of a text that was made of several: the least trusted, which any unknown one is."""
    ranks: tuple[Origin, ...] = get_args(Origin)
    return ranks[max((ranks.index(each) if each in ranks else len(ranks) - 1 for each in origins), default=0)]


def written_by(proposal: Proposal) -> Origin:
    """Return who worded a proposal: a text that a language model made of the user's words is not the user's."""
    if proposal.source in _OWN:
        return "user"
    words = plain(proposal.text).rstrip(".!")
    said = proposal.source != AGENT and words in plain(f"{proposal.sentence}\n{proposal.quote}")
    # "I never said I love casinos" has the words "I love casinos", and does not say them.
    denied = said and words_of(proposal.sentence).negated & words_of(proposal.text).plain
    return "user" if said and not denied else "assistant"


def place_of(proposal: Proposal) -> str:
    """Return when and in which conversation a proposal was said; empty if nothing is known."""
    day = "" if proposal.said_at is None else f"{proposal.said_at:%Y-%m-%d}"
    return ", ".join(filter(None, (day, proposal.conversation)))


def fact_metadata(proposal: Proposal) -> dict[str, Any]:
    """Return the metadata of the fact that an accepted proposal makes."""
    place = place_of(proposal)
    return {ORIGIN: written_by(proposal), **({SAID: place} if place else {})}


def origins_of_preferences(accepted: Iterable[Proposal]) -> dict[str, Origin]:
    """Return who worded the preferences that accepted proposals made, by their words in small letters."""
    return {plain(each.text): written_by(each) for each in accepted if each.about_preference and each.text}
