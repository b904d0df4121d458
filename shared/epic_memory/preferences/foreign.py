"""Other languages: that of preferences, and warnings of those that the parser or the encoder cannot read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from epic_memory.encoders.base import Encoder
from epic_memory.preferences.parser import aspects_of, language_not_read
from epic_memory.text.language import ADVICE, ENGLISH, by_signs, is_foreign, named
from epic_memory.text.translations import LANGUAGES
from epic_memory.types import BuildReport, Preference


def languages_known(encoder: Encoder) -> AbstractSet[str] | None:
    """Return the ISO codes of the languages that an encoder knows, or None if it does not state them."""
    known: AbstractSet[str] | None = getattr(encoder, "languages", None)
    return known


def language_for(preferences: Iterable[str | Preference]) -> str:
    """Return the language of most preferences, in which their user is to be told; English if it has no translations."""
    languages = list(map(_language, preferences))
    if 2 * languages.count(ENGLISH) >= len(languages):
        return ENGLISH
    counts = Counter(filter(None, languages))
    language = max(counts, key=lambda each: (counts[each], each == ENGLISH), default=ENGLISH)
    return language if language in LANGUAGES else ENGLISH


def _language(preference: str | Preference) -> str | None:
    """Return the language of a preference: what the English parser has read is English."""
    if not str(preference).strip():  # of an entry that was kept for no preference
        return None
    language = by_signs(str(preference)) or language_not_read(preference)
    return ENGLISH if language is None and aspects_of(preference).source == "parser" else language


def is_foreign_to(encoder: Encoder, query: str, preferences: Iterable[Preference]) -> bool | None:
    """Tell, as `is_foreign` does, whether an encoder does not know the language of a query beside preferences."""
    return is_foreign(query, languages_known(encoder), (preference.text for preference in preferences))


def warn_of_unread(report: BuildReport, preferences: Iterable[Preference], encoder: Encoder) -> None:
    """Add a warning to the report for each preference in a language that nobody could read, with what helps."""
    known = languages_known(encoder)
    for preference in preferences:
        language = language_not_read(preference)
        if language is None:
            continue
        why = "could not be read"
        if language != ENGLISH:
            why = f"is in {named(language)}, which the parser does not read"
        warning = (
            f"The preference {preference.text!r} {why}: what is kept for it is chosen by similarity, and nothing is"
            " said to suit or to break it. Use a language model"
            ' (verifier="ollama:qwen3:4b", or --llm on the command line), or say what it likes and avoids:'
            " memory.preferences.set_aspects(...)."
        )
        if known is not None and language not in known:
            warning += f" The encoder {encoder.name} does not know the language either: use {ADVICE}."
        if warning not in report.warnings:
            report.warnings.append(warning)
