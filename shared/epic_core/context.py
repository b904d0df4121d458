"""The context handed to a generator: for each hit its number, its guidance, and its content."""

from __future__ import annotations

import re
from collections.abc import Iterable

from epic_core.types import Hit, MemoryEntry, Stance

# Wherever a model may see a new line begin.
_HEADING = re.compile(
    r"(?:^|(?<=[\r\v\f\x1c-\x1e\x85\u2028\u2029]))[^\S\n]*"
    r"(?:Document\s+\d+\s*:|Interpretation Guidance\s*:|Content\s*:)",
    re.I | re.M,
)
_WARNINGS = {
    Stance.CONFLICTS: 'Steer clear: this conflicts with the preference "{}". ',
    Stance.MIXED: 'Take only what suits the preference "{}". ',
}


def format_context(hits: Iterable[Hit]) -> str:
    """The paper's context: `Document i:`, `Interpretation Guidance:` and `Content:` for each hit.

    What a preference rules out is said before the instruction, so that a model does not recommend it.
    """
    return "\n\n".join(format_hit(number, hit) for number, hit in enumerate(hits, start=1))


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
