"""Judging for a plugin: the memory in RAM that follows a component's settings, and the effect that asks a memory."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel
from typing_extensions import override

from epic_memory import Settings
from epic_memory.encoders.base import Encoder
from epic_memory.errors import InvalidInputError, NoPreferencesError
from epic_memory.memory import EpicMemory
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import Effect
from epic_memory.types import BuildReport, Item, Preference
from epic_memory.types.validation import checked_keep_rate, checked_tau
from epic_memory.types.verdicts import Judged
from epic_memory.verification.base import Verifier


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


def check_settings(preferences: Iterable[str | Preference], tau: float | None, keep_rate: float | None = None) -> None:
    """Check the settings of a component that judges.

    Raises:
        InvalidInputError: for invalid ones, or for both tau and keep_rate.
    """
    unique_preferences(preferences)
    if tau is not None and keep_rate is not None:
        raise InvalidInputError("Give tau or keep_rate, not both.")
    if tau is not None:
        checked_tau(tau)
    if keep_rate is not None:
        checked_keep_rate(keep_rate)


def check_beside_memory(component: BaseModel, names: Iterable[str]) -> None:
    """Check that a component that judges by a memory is given nothing that the memory has itself.

    Args:
        component: The component.
        names: The fields that have to have their defaults.

    Raises:
        InvalidInputError: if one of them has another value.
    """
    fields = type(component).model_fields
    given = [name for name in names if getattr(component, name) != fields[name].get_default(call_default_factory=True)]
    if given:
        raise InvalidInputError(f"With memory=, {', '.join(given)} would be ignored: it has its own.")


def warn_of_undecided(report: BuildReport, logger: logging.Logger, told: str) -> None:
    """Log a warning if a model's failure left texts undecided: a caller inside a framework does not see the report.

    Args:
        report: The report.
        logger: The logger.
        told: The warning, with %d for the number of texts; the reason follows.
    """
    if report.undecided:
        reason = next(iter(report.failures.values()), "no reason was given")
        logger.warning(f"{told}: %s", report.undecided, reason)


class Prepared:
    """A memory that holds preferences and verdicts, no items. Safe to use from several threads.

    A model's verdicts stay cached when settings change, as long as the model and the preference are the same.
    """

    def __init__(self) -> None:
        self._memory: EpicMemory | None = None
        self._settings: tuple[Any, ...] = ()
        self._lock = threading.Lock()

    def memory(
        self,
        preferences: Iterable[Preference],
        *,
        encoder: Encoder,
        verifier: Verifier,
        tau: float | None,
        keep_rate: float | None,
        coarse: bool,
        fine: bool,
    ) -> EpicMemory:
        """Return the memory under these settings, which have to be valid; call its `judge` at once.

        Raises:
            NoPreferencesError: if there are no preferences, or all have expired.
            EncoderError: if the encoder fails.
        """
        wanted = [preference for preference in preferences if not preference.expired]
        if not wanted:
            raise NoPreferencesError("There are no preferences to judge by. Give some: preferences=['...'].")
        settings = (tau, keep_rate, coarse, fine)
        # keep_rate sets tau by the similarities of items to these preferences, so other preferences need another tau.
        calibrated = (settings, None if keep_rate is None else tuple(preference.id for preference in wanted))
        with self._lock:
            memory = self._memory
            if memory is None or memory.encoder is not encoder or memory.verifier is not verifier:
                self._settings = ()
                # Aspects given with a preference count, but no model is asked for any: this memory ends with the
                # process.
                self._memory = memory = EpicMemory(
                    encoder=encoder, settings=Settings(verifier=verifier, aspects="parser")
                )
            if self._settings != calibrated:
                session = memory._session
                session.own_tau = tau
                session.settings = replace(session.settings, keep_rate=keep_rate, coarse=coarse, fine=fine)
                self._settings = calibrated
            _hold(memory, wanted)
            return memory


class PreparedForUsers:
    """Memories that hold preferences and verdicts, no items: one for each of the users served last.

    Safe to use from several threads: no memory is made twice, and a user whose memory is made does not wait.

    Args:
        size: For how many users memories are kept.
        encoder, settings: As for `EpicMemory`; no model is asked for aspects.
    """

    def __init__(self, size: int = 32, *, encoder: Encoder, settings: Settings) -> None:
        self._size = size
        self._encoder = encoder
        # As for `Prepared`: no model is asked for aspects.
        self._settings = replace(settings, aspects="parser")
        self._made: OrderedDict[tuple[Preference, ...], EpicMemory] = OrderedDict()
        self._lock = threading.Lock()
        self._making = threading.Lock()

    def memory(self, preferences: Iterable[str | Preference]) -> EpicMemory:
        """Return the memory of a user.

        Raises:
            NoPreferencesError: if there are no preferences.
            EncoderError: if the encoder fails.
        """
        unique = tuple(unique_preferences(preferences))
        if not unique:
            raise NoPreferencesError("There are no preferences to judge by. Give some: preferences=['...'].")
        memory = self._known(unique)
        if memory is None:
            with self._making:
                memory = self._known(unique)
                if memory is None:
                    memory = EpicMemory(unique, encoder=self._encoder, settings=self._settings)
                    with self._lock:
                        self._made[unique] = memory
                        while len(self._made) > self._size:
                            self._made.popitem(last=False)
        return memory

    def _known(self, preferences: tuple[Preference, ...]) -> EpicMemory | None:
        with self._lock:
            if preferences in self._made:
                self._made.move_to_end(preferences)
            return self._made.get(preferences)


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


def settings_of(memory: EpicMemory) -> dict[str, Any]:
    """Return the settings by which a memory judges, besides its models: plain values, and its preferences."""
    session = memory._session
    return {
        # The tau that results from keep_rate is known only after the first items.
        "tau": memory.tau if session.settings.keep_rate is None else None,
        "keep_rate": session.settings.keep_rate,
        "coarse": session.settings.coarse,
        "fine": session.settings.fine,
        "preferences": memory.preferences,
    }
