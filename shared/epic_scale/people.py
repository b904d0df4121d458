"""People for whom a corpus is judged: their preferences, each read and embedded once, however many have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import FunctionType
from typing import Any

from epic_memory import EpicMemory, Preference, Settings
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel, lm_of
from epic_memory.pipeline.coarse_filter import Expanded, expanded_phrases
from epic_memory.runtime.effects import run
from epic_memory.types import FloatArray, checked_text

_EXPANDED_AT_ONCE = 512
_ONE_USER = "default"


def model_of(llm: Any) -> LanguageModel | None:
    """Return a language model: of a name, the model itself, or what a function without arguments makes in a worker."""
    if llm is None:
        return None
    return lm_of(llm() if isinstance(llm, (FunctionType, partial)) else llm)


@dataclass(frozen=True)
class People:
    """Users and their preferences, as arrays that workers share.

    Attributes:
        users: Their ids.
        preferences: All preferences, each once, with aspects and expansions as they were read.
        held: For each user the places of their preferences in `preferences`, in the user's order.
        vectors: E(p), shape `(m, d)`, as a memory has them in RAM.
        taus: The coarse filter's threshold of each preference, shape `(m,)`.
        expanded: What each preference means in practice.
        verifier: The name of the verifier that judges.
    """

    users: list[str]
    preferences: list[Preference]
    held: list[list[int]]
    vectors: FloatArray
    taus: FloatArray
    expanded: list[Expanded]
    verifier: str

    @classmethod
    def of(
        cls,
        preferences: Mapping[str, Sequence[str]],
        encoder: Encoder,
        llm: Any = None,
        settings: Settings = Settings(),
    ) -> People:
        """Read the preferences of users, given by the users' ids; with a language model this asks it once for each.

        Raises:
            InvalidInputError: for a user's id that cannot be one, or a user without preferences.
        """
        for user, texts in preferences.items():
            checked_text(user, "The user's id")
            if isinstance(texts, str) or not texts:
                raise InvalidInputError(f"The user {user!r} has no preferences. Give a list of texts, or leave it out.")
        distinct = {one.id: one for texts in preferences.values() for one in map(Preference.of, texts)}
        # One memory of all of them reads, embeds and expands as the memory of a user does.
        settings = replace(settings, namespace="people", budget=None, model_budget=None)
        with EpicMemory(list(distinct.values()), encoder=encoder, llm=model_of(llm), settings=settings) as memory:
            session = memory._session
            with session.lock, session.store.reading():
                space = session.space()
            read, expanded = list(space.preferences), list[Expanded]()
            for start in range(0, len(read), _EXPANDED_AT_ONCE):
                expanded += run(expanded_phrases(session, encoder, read[start : start + _EXPANDED_AT_ONCE]))
            place = {one.id: number for number, one in enumerate(read)}
            held = [
                list(dict.fromkeys(place[Preference.of(text).id] for text in texts)) for texts in preferences.values()
            ]
            known: dict[bytes, FloatArray] = {}
            # Many preferences borrow the same phrases.
            shared = [Expanded(*(known.setdefault(part.tobytes(), part) for part in one)) for one in expanded]
            return cls(
                users=list(preferences),
                preferences=read,
                held=held,
                vectors=space.vectors,
                taus=session.taus(read),
                expanded=shared,
                verifier=memory.verifier.name,
            )

    @cached_property
    def holders(self) -> list[list[int]]:
        """For each preference the places of the users who have it."""
        found: list[list[int]] = [[] for _ in self.preferences]
        for user, places in enumerate(self.held):
            for place in places:
                found[place].append(user)
        return found


def preferences_of(given: Any) -> dict[str, list[str]]:
    """Return the texts of each user's preferences.

    Raises:
        InvalidInputError: for what holds none.
    """
    if isinstance(given, Mapping):
        return {user: [texts] if isinstance(texts, str) else list(texts) for user, texts in given.items()}
    if isinstance(given, (str, Path)):
        from epic_scale.processor import read

        given = read(str(given))
    rows = given.iter_rows() if hasattr(given, "iter_rows") else given
    found: dict[str, list[str]] = {}
    for row in ({"preference": one} if isinstance(one, str) else one for one in rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("preference"), str):
            raise InvalidInputError("preferences need the columns `user` and `preference`, both texts.")
        found.setdefault(row.get("user", _ONE_USER), []).append(row["preference"])
    if not found:
        raise InvalidInputError("There are no preferences to judge by.")
    return found
