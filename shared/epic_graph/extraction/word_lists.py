"""Word lists for English: words that no entity begins or ends with or consists of (`data/words/english.txt`)."""

from __future__ import annotations

from epic_memory.text.phrases import sections, word_set


def _forms(verb: str) -> list[str]:
    """Return a verb with its regular endings."""
    stem = verb[:-1] if verb.endswith("e") else verb
    doubled = verb + verb[-1]
    if verb.endswith("y") and verb[-2] not in "aeou":
        return [verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"]
    third = verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
    return [verb, third, stem + "ed", stem + "ing", doubled + "ed", doubled + "ing"]


_LISTS = {name: word_set(*lines) for name, lines in sections("english", "epic_graph").items()}
_NOUNS_TOO = _LISTS["NOUNS_TOO"]
FUNCTION = _LISTS["FUNCTION"]
BEFORE_VERB = _LISTS["BEFORE_VERB"]
BE = _LISTS["BE"]
DETERMINERS = _LISTS["DETERMINERS"]
PREPOSITIONS = _LISTS["PREPOSITIONS"]
VAGUE = _LISTS["VAGUE"]
GENERIC = _LISTS["GENERIC"]
TITLES = _LISTS["TITLES"]
KINDS = _LISTS["KINDS"] | TITLES
CONNECTORS = _LISTS["CONNECTORS"]
NOT_ADVERBS = _LISTS["NOT_ADVERBS"]
NOT_PARTICIPLES = _LISTS["NOT_PARTICIPLES"]
NOT_GERUNDS = _LISTS["NOT_GERUNDS"]
LIGHT = _LISTS["LIGHT"]
SENTENCE_NAMES = _LISTS["SENTENCE_NAMES"]
EPITHETS = _LISTS["EPITHETS"]
MONTHS = _LISTS["MONTHS"]
NO_ADJECTIVE = _LISTS["NO_ADJECTIVE"]
COMPASS = _LISTS["COMPASS"]
# Activities count as things, so no form in -ing is a verb here; the exceptions are in `LIGHT`.
VERBS = _LISTS["IRREGULAR"] | {
    form
    for verb in _LISTS["VERBS"]
    for forms in [_forms(verb)]
    for form in (forms[2:3] + forms[4:5] if verb in _NOUNS_TOO else forms[:3] + forms[4:5])
    if not form.endswith("ing")
}
# A noun or a verb, depending on the words around.
EITHER = frozenset(form for verb in _NOUNS_TOO for form in _forms(verb)[:2])
