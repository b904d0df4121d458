"""What a preference likes and what it avoids.

"I avoid hotels with casinos" avoids *hotels with casinos*; "I prefer trains over flights" likes *trains* and avoids
*flights*. The paper adds the whole preference to a query; knowing the two sides lets steering go towards one and away
from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from epic_core.errors import InvalidInputError

AspectSource: TypeAlias = Literal["parser", "model", "user"]
FIRMNESS = {"strict": 1.0, "strong": 0.75, "mild": 0.5}
"""What the words for firmness stand for."""


@dataclass(frozen=True, kw_only=True)
class Aspects:
    """The sides of a preference, each a tuple of short phrases; not both are empty.

    Attributes:
        liked: What the user wants.
        avoided: What the user does not want.
        firmness: How firmly, in (0, 1]: 1 for never, only, an allergy; 0.75 for hate, love; 0.5 for prefer, dislike.
        scope: When or where it holds, such as "when travelling"; empty for always.
        source: Who read it from the words: the parser, a language model, or the user.

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
        if not self.liked and not self.avoided:
            raise InvalidInputError("Aspects need something that is liked or something that is avoided.")
        if not isinstance(self.firmness, (int, float)) or not 0.0 < self.firmness <= 1.0:
            raise InvalidInputError(f"firmness must be a number in (0, 1], not {self.firmness!r}.")
        if not isinstance(self.scope, str):
            raise InvalidInputError(f"scope must be a text, not {type(self.scope).__name__}.")
        if self.source not in get_args(AspectSource):
            raise InvalidInputError(f"source must be one of {', '.join(get_args(AspectSource))}; not {self.source!r}.")

    def __str__(self) -> str:
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


def _phrases(side: object, name: str) -> tuple[str, ...]:
    if isinstance(side, str) or not isinstance(side, (list, tuple)):
        raise InvalidInputError(f"{name} must be several texts, not {type(side).__name__}.")
    if not all(isinstance(phrase, str) and phrase.strip() for phrase in side):
        raise InvalidInputError(f"{name} must be texts that are not empty, not {side!r}.")
    return tuple(dict.fromkeys(phrase.strip() for phrase in side))
