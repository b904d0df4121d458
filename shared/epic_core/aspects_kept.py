"""What a memory keeps of its preferences' aspects: read once when a preference comes, stored with it, shown, edited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

from epic_core.aspect_parser import aspects_of
from epic_core.aspects import Aspects
from epic_core.errors import BudgetError, InvalidInputError, UnknownPreferenceError
from epic_core.portions import Portion, readings_by
from epic_core.progress import Progress
from epic_core.state import State
from epic_core.steps import Clock, Steps, Take
from epic_core.types import BuildReport, Preference, checked_aspects

if TYPE_CHECKING:
    from epic_core.aspect_reader import AspectReading, Reader
    from epic_core.verification import Verifier

Reading: TypeAlias = Literal["auto", "parser", "model"]


def checked_reading(reading: str, verifier: Verifier) -> Reading:
    """Who reads preferences.

    Raises:
        InvalidInputError: if that is nobody known, or the verifier has no model and one is asked for.
    """
    if reading not in get_args(Reading):
        raise InvalidInputError(f"aspects must be one of {', '.join(get_args(Reading))}; not {reading!r}.")
    if reading == "model" and getattr(verifier, "aspect_reader", None) is None:
        raise InvalidInputError(
            "aspects='model' needs a verifier with a language model: verifier=LMVerifier(OllamaLM('qwen3:4b'))."
        )
    known: Reading = reading  # type: ignore[assignment]
    return known


def reader_of(state: State) -> Reader | None:
    """The model that reads preferences for a memory, if one does."""
    return None if state.aspects == "parser" else getattr(state.verifier, "aspect_reader", None)


def read(state: State, preferences: Sequence[Preference], report: BuildReport) -> Steps[list[tuple[Preference, bool]]]:
    """Preferences with what a model reads of those that bring no aspects, and whether it is still to read them.

    One call for each. Where none is asked, or it fails, the aspects stay None, which is the parser's.
    """
    reader = reader_of(state)
    places = [place for place, preference in enumerate(preferences) if preference.aspects is None]
    if reader is None or not places:
        return [(preference, False) for preference in preferences]
    made = dict(enumerate(preferences))
    portions = readings_by(reader, [preferences[place] for place in places])
    waiting = set(places)
    while waiting:
        portion: Portion[AspectReading] = yield Take(portions)
        for position, reading in portion.answers:
            place = places[position]
            report.usage.add(reading.usage)
            if reading.aspects is None:
                report.unread[preferences[place].text] = reading.failure
            else:
                made[place] = replace(preferences[place], aspects=replace(reading.aspects, source="model"))
                report.read += 1
            waiting.discard(place)
        if portion.last:
            for place in waiting:
                report.unread[preferences[place].text] = portion.failure or "no answer"
            waiting.clear()
    return [(preference, preference.aspects is None) for preference in made.values()]


def read_again(state: State, report: BuildReport) -> Steps[None]:
    """Ask about the preferences that a model failed to read; about each once for a report."""
    if reader_of(state) is None:
        return
    with state.lock:
        marked = state.store.unread(state.namespace)
        held = state.space().preferences if marked else []
        waiting = [each for each in held if each.id in marked and each.text not in report.unread]
    made = yield from read(state, waiting, report)
    for preference, unread in made:
        if unread:
            continue
        try:
            with state.changing(state.encoder) as space:
                # Somebody may have said it in the meantime, or replaced the preference.
                if preference.id in state.store.unread(state.namespace) and _held(space.preferences, preference):
                    _write(state, preference, preference.aspects, unread=False)
        except BudgetError as error:
            # No reason to take in nothing at all.
            report.unread[preference.text] = str(error)


def set_aspects(
    state: State,
    preference: str | Preference,
    aspects: Aspects | None,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
) -> Steps[None]:
    """Write what a preference likes and avoids; None has it read anew.

    Raises:
        UnknownPreferenceError: if the preference is not held, or not any more.
    """
    with state.lock:
        space = state.space()
        held = replace(space.preferences[space.find(preference)], aspects=aspects)
    ((held, unread),) = yield from read(state, [held], report)
    with state.changing(state.encoder) as space:
        if not _held(space.preferences, held):
            raise UnknownPreferenceError(f"The preference {held.text!r} was replaced in the meantime.")
        _write(state, held, held.aspects, unread=unread)


def _held(preferences: Sequence[Preference], preference: Preference) -> bool:
    return any(each.id == preference.id and each.means(preference) for each in preferences)


def _write(state: State, preference: Preference, aspects: Aspects | None, *, unread: bool) -> None:
    state.store.set_aspects(state.namespace, preference.id, aspects, unread=unread)
    forget_discarded(state)


def forget_discarded(state: State) -> None:
    """Have what was discarded verified again when it comes, if aspects had a part in that. Call it in a transaction."""
    # A model's verdict is by the words.
    if not getattr(state.verifier, "cached", False):
        state.store.clear_ledger(state.namespace)


class AspectsKept:
    """The part of `EpicMemory` that shows and changes what preferences like and avoid."""

    _state: State
    _reported: Callable[..., BuildReport]
    _areported: Callable[..., Awaitable[BuildReport]]

    @overload
    def aspects(self) -> dict[str, Aspects]: ...
    @overload
    def aspects(self, preference: str | Preference) -> Aspects: ...

    def aspects(self, preference: str | Preference | None = None) -> Aspects | dict[str, Aspects]:
        """What a preference likes, what it avoids, how firmly and where; `source` says who read it.

        Args:
            preference: By text, id or object; without one, all: text to aspects.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        with self._state.lock:
            space = self._state.space()
            if preference is not None:
                return aspects_of(space.preferences[space.find(preference)])
            return {each.text: aspects_of(each) for each in space.preferences}

    @property
    def unread(self) -> list[str]:
        """The preferences that a language model failed to read, which the next change asks about again; their texts."""
        with self._state.lock:
            space, marked = self._state.space(), self._state.store.unread(self._state.namespace)
            return [each.text for each in space.preferences if each.id in marked]

    def set_aspects(self, preference: str | Preference, aspects: Aspects | Mapping[str, Any] | None) -> BuildReport:
        """Say what a preference likes and avoids, from the next search on; what is held stays as it was judged.

        Args:
            preference: By text, id or object.
            aspects: `Aspects`, or a mapping such as `{"avoided": ["hotels with casinos"], "firmness": 1.0}`; None has
                them read anew, by the model that reads for this memory or the parser.

        Raises:
            UnknownPreferenceError: if the preference is not held.
            InvalidInputError: for aspects that are none.
        """
        return self._reported(self._setting(preference, aspects))

    async def aset_aspects(
        self, preference: str | Preference, aspects: Aspects | Mapping[str, Any] | None
    ) -> BuildReport:
        """As `set_aspects`, without blocking the event loop."""
        return await self._areported(self._setting(preference, aspects))

    def _setting(
        self, preference: str | Preference, aspects: Aspects | Mapping[str, Any] | None
    ) -> Callable[[BuildReport, Clock, Progress], Steps[None]]:
        checked = None if aspects is None else checked_aspects(aspects)
        return partial(set_aspects, self._state, preference, checked)
