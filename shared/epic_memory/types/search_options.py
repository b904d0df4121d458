"""Options of a search: how preferences steer and rank, what is found, and what chooses the hits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from epic_memory.errors import InvalidInputError
from epic_memory.types.modes import MinScore, Mode, StancePolicy, checked_min_score, checked_mode, checked_stance_policy
from epic_memory.types.preferences import Preference
from epic_memory.types.results import Chooser
from epic_memory.types.validation import one_of

Keys: TypeAlias = Literal["both", "instruction"]
"""Keys that an item is found by: its text and its instructions, or its instructions alone, as in the paper."""
Opening: TypeAlias = Literal["matter", "all", "none"]
"""Preferences that a context opens with: those that matter to the query, all of the user's, or none, as in the paper.
"""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search; `dataclasses.replace` changes some of it for another search.

        careful = SearchOptions(stance_policy="only_supports", min_score=0.4)
        hits = memory.search("Where should I stay?", 3, options=careful)

    Attributes:
        steering: "signed", "paper" (Eq. 7-8) or "off"; None for the memory's own.
        preferences: The preferences to use, by text, id or object: only these steer, and only their entries are
            searched; None for all.
        stance_policy: "prefer" ranks what conflicts with a preference below all that answers and does not, however
            near it is, if the preference is firm, and by a penalty, if it is mild (`steering.ranking`);
            "only_supports" leaves out items that conflict with a preference, in part or whole; "any" ranks by
            similarity alone. A question that asks what stands in a note is answered by its topic.
        keys: "both" finds an item by its title, text and exact words, and by its instructions if it has no text
            embedded; "instruction" by its instructions alone, as in the paper.
        min_score: The least relevance of a hit: "auto" for the encoder's own floor, below which nothing is returned
            and the fallback is asked; "personal", which besides returns nothing, and lists no preference, where the
            question by its words asks neither for a choice of the user's nor for what they told ("How is cheese
            made?"), for memories of notes, not of documents; a cosine in [-1, 1]; or None, which always returns k
            hits, as in the paper.
        chooser: What orders and chooses hits: `epic_rerank.Adaptive()` for as many as the question needs, at most k;
            `epic_rerank.reranker_of(memory)` for what helped before. Scores stay those of retrieval; `Hits.ranking`
            has the chooser's probabilities.
        opening: Which preferences a context opens with: those that "matter", "all" or "none". All of them are worth
            their tokens while they are few and the model is strong; none is the paper's.

    Raises:
        InvalidInputError: for a value that cannot be.
    """

    steering: Mode | None = None
    preferences: Iterable[str | Preference] | None = None
    stance_policy: StancePolicy = "prefer"
    keys: Keys = "both"
    min_score: MinScore = "auto"
    chooser: Chooser | None = None
    opening: Opening = "matter"

    def __post_init__(self) -> None:
        if self.steering is not None:
            checked_mode(self.steering)
        checked_stance_policy(self.stance_policy)
        one_of("keys", self.keys, get_args(Keys))
        object.__setattr__(self, "min_score", checked_min_score(self.min_score))
        one_of("opening", self.opening, get_args(Opening))
        object.__setattr__(self, "preferences", _several(self.preferences))
        if self.chooser is None:
            return
        if isinstance(self.chooser, type) or not isinstance(self.chooser, Chooser):
            raise InvalidInputError(f"A chooser is an object such as epic_rerank.Adaptive(), not {self.chooser!r}.")
        if self.keys != "both":
            raise InvalidInputError('A chooser needs keys="both".')

    @classmethod
    def paper(cls) -> SearchOptions:
        """Return the paper's search: by instructions alone, steered by Eq. 7-8, k hits ranked by the cosine."""
        return cls(steering="paper", stance_policy="any", keys="instruction", min_score=None, opening="none")


def checked_options(options: object) -> SearchOptions:
    """Return the options of a search, the default ones for None; anything else is an `InvalidInputError`."""
    if options is None:
        return SearchOptions()
    if not isinstance(options, SearchOptions):
        given = type(options).__name__
        raise InvalidInputError(f"options are made by epic_memory.SearchOptions(min_score=0.3, ...); {given} is none.")
    return options


def _several(preferences: object) -> tuple[str | Preference, ...] | None:
    if preferences is None:
        return None
    if isinstance(preferences, (str, Preference)):
        return (preferences,)
    if not isinstance(preferences, Iterable):
        raise InvalidInputError(
            f"preferences must be a list of strings, or None for all; not {type(preferences).__name__}."
        )
    for each in (several := tuple(preferences)):
        if not isinstance(each, (str, Preference)):
            raise InvalidInputError(f"A preference is a text or a Preference, not {type(each).__name__}.")
    return several
