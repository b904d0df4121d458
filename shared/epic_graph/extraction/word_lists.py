"""Word lists for English: words that no entity begins or ends with or consists of (`epic_graph/data/words.txt`)."""

from __future__ import annotations

from importlib.resources import files

from epic_memory.text.stems import word_set


def read_lists(name: str) -> dict[str, frozenset[str]]:
    """Return the lists of a file of the package's data by their names, in its order; a line "[NAME]" begins one."""
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    for line in (files("epic_graph") / "data" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = lists.setdefault(line.strip("[]"), [])
        elif not line.startswith("#"):
            words.append(line)
    return {name: word_set(" ".join(words)) for name, words in lists.items()}


def _forms(verb: str) -> list[str]:
    """Return a verb with its regular endings."""
    stem = verb[:-1] if verb.endswith("e") else verb
    doubled = verb + verb[-1]
    if verb.endswith("y") and verb[-2] not in "aeou":
        return [verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"]
    third = verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
    return [verb, third, stem + "ed", stem + "ing", doubled + "ed", doubled + "ing"]


_LISTS = read_lists("words.txt")
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
