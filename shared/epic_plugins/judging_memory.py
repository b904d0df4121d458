"""Judging for a plugin: the memory in RAM that follows a component's settings, and the effect that asks a memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import Self, override

from epic_memory.encoders.base import Encoder
from epic_memory.errors import InvalidInputError, NoPreferencesError
from epic_memory.memory import EpicMemory
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import Effect
from epic_memory.settings import Settings, checked_settings
from epic_memory.types import BuildReport, Item, Preference
from epic_memory.types.verdicts import Judged
from epic_memory.verification import Verifier


def several_preferences(given: object) -> tuple[str | Preference, ...]:
    """Return a user's preferences, or the only one, as a tuple; unchanged, so that looking them up costs less.

    Raises:
        InvalidInputError: for anything but preferences, or for one given twice.
    """
    several = (given,) if isinstance(given, (str, Preference)) else given
    if not isinstance(several, Iterable) or isinstance(several, (bytes, Mapping)):
        raise InvalidInputError(f"preferences must be several texts, not {type(given).__name__}.")
    chosen = tuple(several)
    unique_preferences(chosen)
    return chosen


def warn_of_undecided(report: BuildReport, logger: logging.Logger, warning: str) -> None:
    """Log that a model's failure left texts undecided, as callers see no report; %d is their number."""
    if report.undecided:
        reason = next(iter(report.failures.values()), "no reason was given")
        logger.warning(f"{warning}: %s", report.undecided, reason)


class Prepared:
    """A memory in RAM that holds preferences and verdicts, no items. Safe to use from several threads.

    A model's verdicts stay cached when preferences change, as long as model and preference are the same.
    """

    def __init__(self) -> None:
        self._memory: EpicMemory | None = None
        self._lock = threading.Lock()

    def memory(self, preferences: Iterable[str | Preference], *, encoder: Encoder, settings: Settings) -> EpicMemory:
        """Return the memory with these preferences; call its `judge` at once.

        The encoder and the settings are the same at each call. No model is asked for aspects by default.

        Raises:
            NoPreferencesError: if there are no preferences, or all have expired.
            EncoderError: if the encoder fails.
        """
        wanted = [preference for preference in unique_preferences(preferences) if not preference.expired]
        if not wanted:
            raise NoPreferencesError("There are no preferences to judge by. Give some: preferences=['...'].")
        with self._lock:
            if self._memory is None:
                # Aspects given with a preference count, but this memory ends with the process.
                how = replace(settings, aspects="parser") if settings.aspects == "auto" else settings
                self._memory = EpicMemory(encoder=encoder, settings=how)
            memory = self._memory
            _hold(memory, wanted)
            return memory


class JudgingModel(BaseModel):
    """Base of components that judge texts: by preferences, a model and settings, or by a memory."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    # A list once validated; a Sequence, so that type checkers accept a list of texts.
    preferences: Sequence[str | Preference] = Field(default_factory=list)
    # Frozen: verdicts reached under one setting would be used under another.
    llm: Any = Field(default=None, exclude=True, frozen=True, repr=False)
    settings: Settings | None = Field(default=None, frozen=True)
    memory: EpicMemory | None = Field(default=None, exclude=True, frozen=True, repr=False)

    _encoder: Encoder = PrivateAttr()
    _verifier: Verifier = PrivateAttr()
    _report: BuildReport = PrivateAttr(default_factory=BuildReport)

    @field_validator("preferences", mode="before")
    @classmethod
    def _listed(cls, preferences: object) -> object:
        if isinstance(preferences, (str, Preference)):
            return [preferences]
        return list(preferences) if isinstance(preferences, (tuple, Set)) else preferences

    def _is_judged_by_memory(self, *models: str) -> bool:
        """Check what is given, and tell whether it is a memory; `models` are the fields of other models than `llm`."""
        unique_preferences(self.preferences)
        if self.memory is None:
            return False
        given = [name for name in ("preferences", "llm", "settings", *models) if getattr(self, name) not in (None, [])]
        if given:
            raise InvalidInputError(f"With memory=, {', '.join(given)} would be ignored: it has its own.")
        return True

    @property
    def _judging_settings(self) -> Settings:
        """The settings of a memory that judges with the component's verifier, which counts what a model is asked."""
        return replace(checked_settings(self.settings), verifier=self._verifier, model_budget=None)

    @property
    def report(self) -> BuildReport:
        """The report of the run that finished last: texts seen, kept, discarded and undecided, times and cost."""
        return self._report

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a component with some settings changed, which are checked; it shares nothing that was judged."""
        return type(self)(**{**self._fields(), **(update or {})})

    def _fields(self) -> dict[str, Any]:
        """Return the fields that were given."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    @override
    def __reduce__(self) -> Any:
        fields = self._fields()
        fields.pop("callback_manager", None)
        return partial(type(self), **fields), ()

    @override
    def __copy__(self) -> Self:
        return self.model_copy()

    @override
    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.model_copy()


@dataclass
class Judge(Effect):
    """An effect whose result is the verdicts of a memory on items, one for each, in order."""

    memory: EpicMemory
    items: Sequence[Item | str]
    report: BuildReport | None = None
    progress: bool = False

    @override
    def run(self, stopped: threading.Event | None) -> list[Judged]:
        return list(self.memory.judge(self.items, report=self.report, progress=self.progress))

    @override
    async def arun(self) -> list[Judged]:
        judging = self.memory.ajudge(self.items, report=self.report, progress=self.progress)
        return [judged async for judged in judging]


def _hold(memory: EpicMemory, wanted: list[Preference]) -> None:
    """Make these the memory's preferences, in this order; it never has none meanwhile, as it may be judging."""
    held = {preference.id: preference for preference in memory.preferences}
    for preference in wanted:
        known = held.pop(preference.id, None)
        if known is None:
            memory.preferences.add(preference)
        elif known != preference:
            memory.preferences.replace(known, preference)
            if preference.aspects is None and known.aspects is not None:
                memory.preferences.set_aspects(preference, None)
            if preference.expansion is None and known.expansion is not None:
                memory.preferences.set_expansion(preference, None)
    for preference in held.values():
        memory.preferences.remove(preference)
    order = [preference.id for preference in wanted]
    if [preference.id for preference in memory.preferences] != order:
        # The order matters: of equally strong alignments the first preference's is reported.
        session = memory._session
        with session.lock, session.store.transaction():
            session.mark_stale()
            for position, preference_id in enumerate(order):
                session.store.preferences.move(session.namespace, preference_id, position)
