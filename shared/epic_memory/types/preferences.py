"""Preferences: the statement, its aspects (liked and avoided phrases), and its expansion (its meaning in practice).

"I avoid hotels with casinos" avoids *hotels with casinos*; "I prefer trains over flights" likes *trains* and avoids
*flights*. The paper adds the whole preference to a query; with liked and avoided phrases apart, steering can go towards
the former and away from the latter. An expansion adds examples: the embedding of "I only read books I can finish in an
evening" is far from that of "a slim novella", but an example from the expansion is near it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

from epic_memory.errors import InvalidInputError
from epic_memory.types.validation import checked_moment, checked_text, one_of, stable_id

AspectSource: TypeAlias = Literal["parser", "model", "user", "unread"]
FIRMNESS = {"strict": 1.0, "strong": 0.75, "mild": 0.5}
"""Numbers that the words for firmness stand for."""


@dataclass(frozen=True, kw_only=True)
class _Stated:
    """Base of what a preference states: as a JSON object, and from one."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object for files and for people; `from_json` reads it."""
        return {name: list(part) if isinstance(part, tuple) else part for name, part in vars(self).items()}

    @classmethod
    def from_json(cls: type[S], value: object) -> S:
        """Return what `as_json` wrote; what has a default can be left out.

        Raises:
            InvalidInputError: for a value that does not describe it.
        """
        names = [field.name for field in fields(cls)]
        if not isinstance(value, Mapping) or not set(value) <= set(names):
            raise InvalidInputError(f"{cls.__name__} is given as an object with {', '.join(names)}; not {value!r}.")
        return cls(**value)


S = TypeVar("S", bound=_Stated)


@dataclass(frozen=True, kw_only=True)
class Aspects(_Stated):
    """Liked and avoided phrases of a preference; at least one of the two is not empty, unless the source is "unread".

    Attributes:
        liked: Short phrases for what the user wants.
        avoided: Short phrases for what the user does not want.
        firmness: How firmly, in (0, 1]: 1 for never, only, an allergy; 0.75 for hate, love; 0.5 for prefer, dislike.
        scope: When or where the preference holds, such as "when travelling"; empty for always.
        source: The reader of the statement: the parser, a language model, or the user. "unread" if nobody could read
            it, because the parser does not know its language; then there are no phrases.

    Raises:
        InvalidInputError: for phrases that are not texts, no phrases at all, or a firmness outside (0, 1].
    """

    liked: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()
    firmness: float = 0.75
    scope: str = ""
    source: AspectSource = "user"

    def __post_init__(self) -> None:
        object.__setattr__(self, "liked", _phrases(self.liked, "liked"))
        object.__setattr__(self, "avoided", _phrases(self.avoided, "avoided"))
        if not self.understood and (self.liked or self.avoided):
            raise InvalidInputError("Aspects with sides were read: source must say by whom.")
        if self.understood and not self.liked and not self.avoided:
            raise InvalidInputError("Aspects need something that is liked or something that is avoided.")
        if not isinstance(self.firmness, (int, float)) or not 0.0 < self.firmness <= 1.0:
            raise InvalidInputError(f"firmness must be a number in (0, 1], not {self.firmness!r}.")
        if not isinstance(self.scope, str):
            raise InvalidInputError(f"scope must be a text, not {type(self.scope).__name__}.")
        one_of("source", self.source, get_args(AspectSource))

    @property
    def understood(self) -> bool:
        """True if the statement has been read for liked and avoided phrases."""
        return self.source != "unread"

    def __str__(self) -> str:
        if not self.understood:
            return "not understood"
        sides = [
            f"{name} {'; '.join(side)}" for name, side in (("likes", self.liked), ("avoids", self.avoided)) if side
        ]
        return f"{' | '.join(sides)} | firmness {self.firmness:g}" + (f" | {self.scope}" if self.scope else "")


ExpansionSource: TypeAlias = Literal["bundled", "model", "user"]
MOST_PHRASES = 64
"""Most phrases in one part of an expansion."""
LONGEST_PHRASE = 200
"""Most characters in a phrase of an expansion."""


@dataclass(frozen=True, kw_only=True)
class Expansion(_Stated):
    """The meaning of a preference in practice, as short phrases; at least one part is not empty.

    Attributes:
        questions: Questions of the user for which the preference matters.
        follows: Things that suit the user: kinds, names, places, habits, in the words of a text that offers them.
        breaks: Things that the preference rules out, in the same form.
        source: The writer: "model", "user", or "bundled" if it was borrowed from the package's own library.

    Raises:
        InvalidInputError: for parts that are not texts, too many or too long phrases, no phrases at all, or a phrase
            that both follows and breaks the preference.
    """

    questions: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    source: ExpansionSource = "user"

    def __post_init__(self) -> None:
        for name in ("questions", "follows", "breaks"):
            phrases = _phrases(getattr(self, name), name)
            if len(phrases) > MOST_PHRASES or any(len(phrase) > LONGEST_PHRASE for phrase in phrases):
                raise InvalidInputError(
                    f"{name} takes at most {MOST_PHRASES} phrases of at most {LONGEST_PHRASE} characters each."
                )
            object.__setattr__(self, name, phrases)
        if not (self.questions or self.follows or self.breaks):
            raise InvalidInputError("An expansion needs at least one question or phrase.")
        both = {phrase.casefold() for phrase in self.follows} & {phrase.casefold() for phrase in self.breaks}
        if both:
            raise InvalidInputError(f"A phrase cannot both follow and break a preference: {sorted(both)[0]!r}.")
        one_of("source", self.source, get_args(ExpansionSource))


def _phrases(side: object, name: str) -> tuple[str, ...]:
    if isinstance(side, str) or not isinstance(side, (list, tuple)):
        raise InvalidInputError(f"{name} must be several texts, not {type(side).__name__}.")
    if not all(isinstance(phrase, str) and phrase.strip() for phrase in side):
        raise InvalidInputError(f"{name} must be texts that are not empty, not {side!r}.")
    return tuple(dict.fromkeys(phrase.strip() for phrase in side))


def checked_aspects(value: object) -> Aspects:
    """Return aspects, given as `Aspects` or their JSON; what cannot be stored is an `InvalidInputError`."""
    aspects = value if isinstance(value, Aspects) else Aspects.from_json(value)
    for phrase in (*aspects.liked, *aspects.avoided):
        checked_text(phrase, "A phrase of aspects")
    if aspects.scope:
        checked_text(aspects.scope, "The scope of aspects")
    return aspects


def checked_expansion(value: object) -> Expansion:
    """Return an expansion, given as such or its JSON; what cannot be stored is an `InvalidInputError`."""
    expansion = value if isinstance(value, Expansion) else Expansion.from_json(value)
    for phrase in (*expansion.questions, *expansion.follows, *expansion.breaks):
        checked_text(phrase, "A phrase of an expansion")
    return expansion


@dataclass(frozen=True, kw_only=True)
class Preference:
    """One stated preference, such as "I avoid hotels with on-site casinos."

    Attributes:
        text: The statement, not empty; surrounding white space is removed.
        id: A uuid5 of the text, which ignores case and the amount of white space.
        expires_at: When it expires, a datetime with its zone or ISO 8601 text; None for never. From then on it neither
            steers nor matches, its entries are not found, and the next change of the memory removes it.
        aspects: The liked and avoided phrases, `Aspects` or their JSON; None: read from the words. Not part of the id.
        expansion: The meaning in practice, an `Expansion` or its JSON; None: borrowed from the bundled library, or
            written by a model if there is one. Not part of the id.

    Raises:
        InvalidInputError: for an empty text, an `expires_at` without a zone, or invalid aspects or expansion.
    """

    text: str
    id: str = ""
    expires_at: datetime | None = None
    aspects: Aspects | None = None
    expansion: Expansion | None = None

    if TYPE_CHECKING:  # the constructor takes more than the attributes hold

        def __init__(
            self,
            *,
            text: str,
            id: str = "",
            expires_at: datetime | str | None = None,
            aspects: Aspects | Mapping[str, object] | None = None,
            expansion: Expansion | Mapping[str, object] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.aspects is not None:
            aspects = checked_aspects(self.aspects)
            # "unread" says only that nobody has read the statement, so it is left to be read.
            object.__setattr__(self, "aspects", aspects if aspects.understood else None)
        if self.expansion is not None:
            object.__setattr__(self, "expansion", checked_expansion(self.expansion))
        if self.expires_at is not None:
            object.__setattr__(self, "expires_at", checked_moment(self.expires_at))
        text = checked_text(self.text, "A preference").strip()
        if self.id != "":
            checked_text(self.id, "The id of a preference")
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "id", self.id or stable_id("preference", self._plain()))

    def __str__(self) -> str:
        return self.text

    def _plain(self) -> str:
        return " ".join(self.text.split()).casefold()

    @property
    def expired(self) -> bool:
        """True if its time of expiry has passed."""
        return self.expires_at is not None and self.expires_at.timestamp() <= time.time()

    def means(self, other: Preference) -> bool:
        """Tell whether another preference has the same text, except for case and white space."""
        return self._plain() == other._plain()

    def as_json(self) -> Any:
        """Return the text if the text determines the rest; else a JSON object as `as_object` makes it."""
        return self.text if self == Preference(text=self.text) else self.as_object()

    def as_object(self) -> dict[str, Any]:
        """Return a JSON object that the constructor takes: text, id, time of expiry, and aspects and expansion if there
        are any.
        """
        ends = None if self.expires_at is None else self.expires_at.isoformat()
        stated: dict[str, Any] = {"text": self.text, "id": self.id, "expires_at": ends}
        if self.aspects is not None:
            stated["aspects"] = self.aspects.as_json()
        if self.expansion is not None:
            stated["expansion"] = self.expansion.as_json()
        return stated

    @classmethod
    def of(cls, value: str | Preference) -> Preference:
        """Return the preference itself, or a preference made from a text."""
        return value if isinstance(value, Preference) else cls(text=value)
