"""Aspects and expansions of the preferences that a memory holds: read once, stored, shown and edited.

A model answers for both in one call, when a preference comes. What the user gave stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from epic_memory.errors import BudgetError, InvalidInputError, UnknownPreferenceError
from epic_memory.pipeline.session import Session
from epic_memory.preferences.foreign import warn_of_unread
from epic_memory.preferences.parser import aspects_of
from epic_memory.runtime.batching import checked_part
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.streaming import Batch, NextBatch, streamed
from epic_memory.runtime.telemetry import Progress
from epic_memory.storage.namespace import Namespace
from epic_memory.types import BuildReport, Preference, checked_aspects, checked_expansion
from epic_memory.types.preferences import Aspects, Expansion
from epic_memory.verification.base import base_verifier

if TYPE_CHECKING:
    from epic_memory.lm.base import LanguageModel
    from epic_memory.preferences.lm_reader import AspectReading, Reader
    from epic_memory.settings import Settings
    from epic_memory.verification import Verifier

Reading: TypeAlias = Literal["auto", "parser", "model"]
Expanding: TypeAlias = Literal["auto", "model", "bundled", "off"]

_NO_MODEL_YET = "It came when no model was there, and is read with the next change or question."
_NO_EXPANSION = "The model's answer holds no expansion."


def check_reader(settings: Settings, verifier: Verifier, expander: Reader | None) -> None:
    """Raise `InvalidInputError` if a model is to read or expand preferences, and there is none."""
    for name in ("aspects", "expansions"):
        if getattr(settings, name) == "model" and expander is None and base_verifier(verifier).aspect_reader is None:
            raise InvalidInputError(
                f"{name}='model' needs a language model: llm='ollama:qwen3:4b', or Settings(expander='ollama:qwen3:4b')"
                " beside another verifier."
            )


def checked_expander(lm: LanguageModel | str | None) -> Reader | None:
    """Return the language model that reads preferences, or None; anything else is an `InvalidInputError`."""
    if lm is None:
        return None
    from epic_memory.lm.by_name import lm_of
    from epic_memory.preferences.lm_reader import AspectReader

    lm = lm_of(lm) if isinstance(lm, str) else lm
    checked_part("expander", lm, "complete")
    return AspectReader(lm)


class _Wanted(NamedTuple):
    """The parts of a preference's meaning that a model is asked for."""

    aspects: bool
    expansion: bool


def _wanted_of(session: Session, preference: Preference) -> _Wanted:
    """Return which parts of a preference still have to be asked of the model, as far as there is one.

    A parser that was asked for, and no model beside the verifier, means that preferences are shown to no model. An
    expansion comes with the aspects, or because somebody asked for one.
    """
    model = session.reader is not None
    expands = session.settings.expansions == "model" or (
        session.settings.expansions == "auto" and (session.settings.aspects != "parser" or session.expander is not None)
    )
    return _Wanted(
        aspects=model and session.settings.aspects != "parser" and preference.aspects is None,
        expansion=model and expands and preference.expansion is None,
    )


def asks_model(session: Session, preference: Preference) -> bool:
    """Tell whether a model is to say something of a preference."""
    return any(_wanted_of(session, preference))


def read_preferences(
    session: Session, preferences: Sequence[Preference], report: BuildReport
) -> Effects[list[tuple[Preference, bool]]]:
    """Return preferences with what a model says of those that lack it, and whether it is still to say that.

    One call for each that lacks aspects or an expansion. Where none is asked, or it fails, both stay None: the aspects
    are the parser's then, the expansion is the bundled library's. An answer with aspects and no expansion counts as
    one, where both were wanted.
    """
    model = session.reader
    wanted = {place: _wanted_of(session, preference) for place, preference in enumerate(preferences)}
    waiting = [place for place, of in wanted.items() if any(of)]
    made = [(preference, False) for preference in preferences]
    if model is None or not waiting:
        return made
    from epic_memory.preferences.lm_reader import AspectReading

    asked = list(waiting)
    stream = streamed(
        model, [preferences[place] for place in asked], AspectReading, f"reader of aspects {model.name!r}"
    )
    while waiting:
        batch: Batch[AspectReading] = yield NextBatch(stream)
        for position, reading in batch.answers:
            place = asked[position]
            made[place] = _with(preferences[place], reading, wanted[place], report)
            waiting.remove(place)
        if batch.last:
            for place in waiting:
                report.unread[preferences[place].text] = batch.failure or "no answer"
                made[place] = (preferences[place], True)
            waiting = []
    return made


def _with(
    preference: Preference, reading: AspectReading, wanted: _Wanted, report: BuildReport
) -> tuple[Preference, bool]:
    """Return a preference with what was read of it, and whether what was wanted is still to be read."""
    report.usage.add(reading.usage)
    aspects = reading.aspects if wanted.aspects else None
    expansion = reading.expansion if wanted.expansion else None
    failed = aspects is None if wanted.aspects else expansion is None
    if failed:
        report.unread[preference.text] = reading.failure or _NO_EXPANSION
    if aspects is not None:
        preference = replace(preference, aspects=replace(aspects, source="model"))
        report.read += 1
    if expansion is not None:
        preference = replace(preference, expansion=replace(expansion, source="model"))
        report.expanded += 1
    return preference, failed


def reread_preferences(session: Session, report: BuildReport) -> Effects[None]:
    """Ask about the preferences that a model failed to read or to expand; about each once for a report."""
    if session.reader is None:
        return
    with session.lock:
        marked = session.store.preferences.unread(session.namespace)
        held = session.space().preferences if marked else []
        waiting = [
            each for each in held if each.id in marked and each.text not in report.unread and asks_model(session, each)
        ]
    made = yield from read_preferences(session, waiting, report)
    for before, (preference, unread) in zip(waiting, made, strict=True):
        if preference == before:
            continue
        try:
            with session.changing(session.encoder) as space:
                current = _held(space, preference)
                # Somebody may have said it in the meantime, or replaced the preference.
                if current is not None and preference.id in session.store.preferences.unread(session.namespace):
                    aspects, expansion = (
                        current.aspects or preference.aspects,
                        current.expansion or preference.expansion,
                    )
                    _write(session, replace(current, aspects=aspects, expansion=expansion), unread=unread)
        except BudgetError as error:
            # No reason to take in nothing at all.
            report.unread[preference.text] = str(error)


def mark_unread(session: Session, preferences: Sequence[Preference]) -> None:
    """Mark held preferences that came when no model was there as still to be read by the one that is there now."""
    if session.reader is None or not session.store.writable:
        return
    marked = session.store.preferences.unread(session.namespace)
    new = [
        each
        for each in preferences
        if each.id not in marked
        and asks_model(session, each)
        and not any(part is not None and part.source == "model" for part in (each.aspects, each.expansion))
    ]
    if new:
        with session.store.transaction():
            for each in new:
                session.store.preferences.set_stated(session.namespace, each, unread=True)
    session.opened.unread.update((each.text, _NO_MODEL_YET) for each in new)


def set_aspects(
    session: Session,
    preference: str | Preference,
    aspects: Aspects | Mapping[str, Any] | None,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
) -> Effects[None]:
    """Write what a preference likes and avoids; None has it read anew, and what a model wrote of its expansion.

    Raises:
        UnknownPreferenceError: if the preference is not held, or not any more.
        InvalidInputError: for aspects that are none.
    """
    aspects = None if aspects is None else checked_aspects(aspects)
    if aspects is not None and not aspects.understood:
        aspects = None
    with session.lock:
        space = session.space()
        held = space.preferences[space.find(preference)]
    stated, failed = replace(held, aspects=aspects), False
    if aspects is None:
        if _wanted_of(session, stated).aspects and held.expansion is not None and held.expansion.source == "model":
            stated = replace(stated, expansion=None)
        ((stated, failed),) = yield from read_preferences(session, [stated], report)
    with session.changing(session.encoder) as space:
        current = _current(space, held)
        unread = failed or (aspects is not None and _still_unread(session, replace(current, aspects=aspects)))
        # An expansion that was not written anew stays.
        expansion = stated.expansion if aspects is None and stated.expansion else current.expansion
        written = replace(current, aspects=stated.aspects, expansion=expansion)
        _write(session, written, unread=unread)
    warn_of_unread(report, [written], session.encoder)


def set_expansion(
    session: Session,
    preference: str | Preference,
    expansion: Expansion | Mapping[str, Any] | None,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
) -> Effects[None]:
    """Write what a preference means in practice; None has it written anew by the model, or removed if there is none.

    Raises:
        UnknownPreferenceError: if the preference is not held, or not any more.
        InvalidInputError: for an expansion that is none.
    """
    expansion = None if expansion is None else checked_expansion(expansion)
    with session.lock:
        space = session.space()
        held = space.preferences[space.find(preference)]
        marked = held.id in session.store.preferences.unread(session.namespace)
    stated, failed = replace(held, expansion=expansion), False
    if expansion is None:
        # The aspects are asked for with it only where nobody could read them; those of the parser stay its own.
        known = aspects_of(held)
        parsed = held.aspects is None and not marked and known.understood
        ((stated, failed),) = yield from read_preferences(
            session, [replace(stated, aspects=known) if parsed else stated], report
        )
        stated = replace(stated, aspects=None) if parsed else stated
    with session.changing(session.encoder) as space:
        current = _current(space, held)
        written = replace(current, aspects=current.aspects or stated.aspects, expansion=stated.expansion)
        _write(session, written, unread=failed or _still_unread(session, written))


def restate(session: Session, space: Namespace, preference: Preference) -> None:
    """Write the aspects and the expansion that a held preference brings anew. Call it in a change."""
    current = _current(space, preference)
    stated = replace(
        current,
        aspects=preference.aspects or current.aspects,
        expansion=preference.expansion or current.expansion,
    )
    if stated != current:
        _write(session, stated, unread=_still_unread(session, stated))


def _held(space: Namespace, preference: Preference) -> Preference | None:
    return next((each for each in space.preferences if each.id == preference.id and each.means(preference)), None)


def _current(space: Namespace, preference: Preference) -> Preference:
    """Return a preference as it is held by now."""
    current = _held(space, preference)
    if current is None:
        raise UnknownPreferenceError(f"The preference {preference.text!r} was replaced in the meantime.")
    return current


def _still_unread(session: Session, preference: Preference) -> bool:
    """Tell whether a preference that waited to be read waits for something that nobody has said now."""
    marked = preference.id in session.store.preferences.unread(session.namespace)
    lacks_aspects = preference.aspects is None and session.settings.aspects != "parser"
    return marked and (lacks_aspects or _wanted_of(session, preference).expansion)


def _write(session: Session, preference: Preference, *, unread: bool) -> None:
    session.store.preferences.set_stated(session.namespace, preference, unread=unread)
    # What was discarded is verified again where aspects had a part in that; a model's verdict is by the words.
    if not session.base.cached:
        session.store.seen.clear(session.namespace)
