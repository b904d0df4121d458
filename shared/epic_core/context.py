"""The context handed to a generator: for each hit its number, its guidance, and its content."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from epic_core.types import Hit, MemoryEntry, Stance

# Wherever a model may see a new line begin.
_HEADING = re.compile(
    r"(?:^|(?<=[\r\v\f\x1c-\x1e\x85\u2028\u2029]))[^\S\n]*"
    r"(?:Document\s+\d+\s*:|Interpretation Guidance\s*:|Content\s*:)",
    re.I | re.M,
)
# Before one that is not the first.
_NEXT = re.compile(r"\n\n(?=Document \d+:\n)")
# What a name in a tag may be hidden by, and what looks like the beginning of a tag.
_BETWEEN = r"(?:[^\w<>]|[\u115f\u1160\u3164\uffa0])*"
_OPENING = "[<\uff1c\ufe64]"
_WARNINGS = {
    Stance.CONFLICTS: 'Steer clear: this conflicts with the preference "{}". ',
    Stance.MIXED: 'Take only what suits the preference "{}". ',
}


def format_context(hits: Iterable[Hit]) -> str:
    """The paper's context: `Document i:`, `Interpretation Guidance:` and `Content:` for each hit.

    What a preference rules out is said before the instruction, so that a model does not recommend it.
    """
    return "\n\n".join(format_hit(number, hit) for number, hit in enumerate(hits, start=1))


def documents_of_context(context: str) -> list[str]:
    """The hits of a context, each as `format_hit` wrote it; what stands before the first is with it."""
    return _NEXT.split(context)


def without_tags(text: str, *names: str) -> str:
    """A text that can neither open nor close tags with some names, between which it stands.

    What looks like such a tag, whatever its letters are hidden by or in, begins with ‹ then. It says the same.
    """
    return _tags(names).sub("‹", text)


@lru_cache(maxsize=64)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    spelled = (_BETWEEN.join(map(_forms, re.findall(r"\w", name))) for name in names)
    return re.compile(f"{_OPENING}(?={_BETWEEN}(?:{'|'.join(spelled)}))")


def _forms(letter: str) -> str:
    """A letter, small or capital, and its full-width forms."""
    forms = dict.fromkeys((letter, letter.lower(), letter.upper()))
    wide = [chr(ord(form) + 0xFEE0) for form in forms if len(form) == 1 and "!" <= form <= "~"]
    return f"(?:{'|'.join(map(re.escape, [*forms, *wide]))})"


def format_hit(number: int, hit: Hit) -> str:
    """One hit of `format_context`, under its number."""
    guidance = [line for line in map(_guidance, hit.entries) if line]
    head = [f"Document {number}:"]
    if guidance:
        head += ["Interpretation Guidance:", *guidance]
    # A text cannot begin a section of its own: what looks like a heading is quoted.
    return "\n".join([*head, "Content:", _HEADING.sub(r"> \g<0>", hit.text)])


def _guidance(entry: MemoryEntry) -> str:
    """What is said about the content under one preference; of a rewritten item, only what to steer clear of."""
    instruction = " ".join(entry.instruction.split())
    warned = instruction.lower().startswith("steer clear")
    warning = "" if warned else _WARNINGS.get(entry.stance, "").format(" ".join(entry.preference.split()))
    return f"- {warning}{instruction}".rstrip() if warning or instruction else ""
