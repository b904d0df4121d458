"""Preferences: the statement, the sides that it likes and avoids, and its expansion, what it means in practice.

"I avoid hotels with casinos" avoids *hotels with casinos*; "I prefer trains over flights" likes *trains* and avoids
*flights*. The paper adds the whole preference to a query; knowing the two sides lets steering go towards one and away
from the other. An expansion says more: "I only read books I can finish in an evening" is not near "a slim novella", one
of the things that follow it is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from epic_core.errors import InvalidInputError
from epic_core.types.validation import checked_moment, checked_text, stable_id

AspectSource: TypeAlias = Literal["parser", "model", "user", "unread"]
FIRMNESS = {"strict": 1.0, "strong": 0.75, "mild": 0.5}
"""What the words for firmness stand for."""


@dataclass(frozen=True, kw_only=True)
class Aspects:
    """The sides of a preference, each a tuple of short phrases; not both are empty, unless nobody could read it.

    Attributes:
        liked: What the user wants.
        avoided: What the user does not want.
        firmness: How firmly, in (0, 1]: 1 for never, only, an allergy; 0.75 for hate, love; 0.5 for prefer, dislike.
        scope: When or where it holds, such as "when travelling"; empty for always.
        source: Who read it from the words: the parser, a language model, or the user. "unread": nobody, as it is in a
            language that the parser does not know; then there are no sides.

    Raises:
        InvalidInputError: for sides that are no texts, two empty sides, or a firmness outside (0, 1].
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
        if self.source not in get_args(AspectSource):
            raise InvalidInputError(f"source must be one of {', '.join(get_args(AspectSource))}; not {self.source!r}.")

    @property
    def understood(self) -> bool:
        """Whether somebody has read what is liked and avoided."""
        return self.source != "unread"

    def __str__(self) -> str:
        if not self.understood:
            return "not understood"
        said = [f"{name} {'; '.join(side)}" for name, side in (("likes", self.liked), ("avoids", self.avoided)) if side]
        return f"{' | '.join(said)} | firmness {self.firmness:g}" + (f" | {self.scope}" if self.scope else "")

    def as_json(self) -> dict[str, Any]:
        """For files and for people; `from_json` reads it."""
        return {
            "liked": list(self.liked),
            "avoided": list(self.avoided),
            "firmness": self.firmness,
            "scope": self.scope,
            "source": self.source,
        }

    @classmethod
    def from_json(cls, value: object) -> Aspects:
        """Aspects from what `as_json` made; firmness, scope and source can be left out.

        Raises:
            InvalidInputError: for anything that is none.
        """
        if not isinstance(value, Mapping) or not set(value) <= {"liked", "avoided", "firmness", "scope", "source"}:
            raise InvalidInputError(
                f"Aspects are an object with liked, avoided, firmness, scope and source; not {value!r}."
            )
        return cls(**value)


ExpansionSource: TypeAlias = Literal["bundled", "model", "user"]
MOST_PHRASES = 64
"""How many phrases a part of an expansion holds at most."""
LONGEST_PHRASE = 200
"""How many characters a phrase of an expansion has at most."""


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """What a preference means in practice, as short phrases; not all parts are empty.

    Attributes:
        questions: What the user might ask for which the preference matters.
        follows: Things that suit the user: kinds, names, places, habits, as a text that offers them calls them.
        breaks: Things that the preference rules out, likewise.
        source: Who wrote it: "model", "user", or "bundled" for what was borrowed from the package's own library.

    Raises:
        InvalidInputError: for parts that are no texts, too many or too long ones, nothing at all, or a phrase that
            both follows and breaks the preference.
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
        if self.source not in get_args(ExpansionSource):
            raise InvalidInputError(
                f"source must be one of {', '.join(get_args(ExpansionSource))}; not {self.source!r}."
            )

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object that `from_json` reads."""
        return {
            "questions": list(self.questions),
            "follows": list(self.follows),
            "breaks": list(self.breaks),
            "source": self.source,
        }

    @classmethod
    def from_json(cls, value: object) -> Expansion:
        """Read what `as_json` made; every part can be left out.

        Raises:
            InvalidInputError: for anything that is none.
        """
        if not isinstance(value, Mapping) or not set(value) <= {"questions", "follows", "breaks", "source"}:
            raise InvalidInputError(f"An expansion is an object with questions, follows and breaks; not {value!r}.")
        return cls(**value)


def _phrases(side: object, name: str) -> tuple[str, ...]:
    if isinstance(side, str) or not isinstance(side, (list, tuple)):
        raise InvalidInputError(f"{name} must be several texts, not {type(side).__name__}.")
    if not all(isinstance(phrase, str) and phrase.strip() for phrase in side):
        raise InvalidInputError(f"{name} must be texts that are not empty, not {side!r}.")
    return tuple(dict.fromkeys(phrase.strip() for phrase in side))


def checked_aspects(value: object) -> Aspects:
    """Aspects, given as such or as `Aspects.as_json` has them.

    Raises:
        InvalidInputError: for anything else, or phrases that cannot be stored.
    """
    aspects = value if isinstance(value, Aspects) else Aspects.from_json(value)
    for phrase in (*aspects.liked, *aspects.avoided):
        checked_text(phrase, "A phrase of aspects")
    if aspects.scope:
        checked_text(aspects.scope, "The scope of aspects")
    return aspects


def checked_expansion(value: object) -> Expansion:
    """The expansion, given as such or as `Expansion.as_json` has it.

    Raises:
        InvalidInputError: for anything else, or phrases that cannot be stored.
    """
    expansion = value if isinstance(value, Expansion) else Expansion.from_json(value)
    for phrase in (*expansion.questions, *expansion.follows, *expansion.breaks):
        checked_text(phrase, "A phrase of an expansion")
    return expansion


@dataclass(frozen=True, kw_only=True)
class Preference:
    """One stated preference, such as "I avoid hotels with on-site casinos."

    Attributes:
        text: The statement, not empty; surrounding white space is removed.
        id: A uuid5 of the text, blind to case and to the amount of white space.
        expires_at: When it stops to count, a datetime with its zone or ISO 8601 text; None for never. From then on it
            neither steers nor matches, its entries are not found, and the next change of the memory removes it.
        aspects: What it likes and avoids, `Aspects` or their JSON; None: read from the words. They are no part of the
            id.
        expansion: What it means in practice, an `Expansion` or its JSON; None: borrowed from the bundled library, or
            written by a model where there is one. No part of the id either.

    Raises:
        InvalidInputError: for an empty text, an `expires_at` without a zone, or aspects or an expansion that are none.
    """

    text: str
    id: str = ""
    expires_at: datetime | None = None
    aspects: Aspects | None = None
    expansion: Expansion | None = None

    def __post_init__(self) -> None:
        if self.aspects is not None:
            aspects = checked_aspects(self.aspects)
            # That nobody has read it is no reading.
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
        """Whether it does not count any more."""
        return self.expires_at is not None and self.expires_at.timestamp() <= time.time()

    def means(self, other: Preference) -> bool:
        """Whether another states the same, but for case and white space."""
        return self._plain() == other._plain()

    def as_json(self) -> Any:
        """Its text, where that says it all; else text, id, the time when it expires, aspects and expansion if any."""
        return self.text if self == Preference(text=self.text) else self.as_object()

    def as_object(self) -> dict[str, Any]:
        """As `as_json`, with all that is stated: what the constructor takes."""
        ends = None if self.expires_at is None else self.expires_at.isoformat()
        stated: dict[str, Any] = {"text": self.text, "id": self.id, "expires_at": ends}
        if self.aspects is not None:
            stated["aspects"] = self.aspects.as_json()
        if self.expansion is not None:
            stated["expansion"] = self.expansion.as_json()
        return stated

    @classmethod
    def of(cls, value: str | Preference) -> Preference:
        """The preference itself, or one made of a text."""
        return value if isinstance(value, Preference) else cls(text=value)
