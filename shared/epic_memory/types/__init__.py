"""Types of EPIC: items, preferences, verdicts, memory entries, hits and reports.

They depend on no framework; all but `Hits`, `BuildReport` and `Usage` are frozen. Scores and similarities are cosines
as Python floats, higher is better.
"""

from epic_memory.types.arrays import FloatArray
from epic_memory.types.items import Item
from epic_memory.types.preferences import (
    FIRMNESS,
    LONGEST_PHRASE,
    MOST_PHRASES,
    Aspects,
    AspectSource,
    Expansion,
    ExpansionSource,
    Preference,
    checked_aspects,
    checked_expansion,
)
from epic_memory.types.reports import BuildReport, Explanation, NotKept, Stats
from epic_memory.types.results import Hit, Hits, MemoryEntry, Outline
from epic_memory.types.validation import checked_k, checked_moment, checked_string, checked_text, moment, stable_id
from epic_memory.types.verdicts import Alignment, Candidate, Decision, Stance, Usage, Verdict, penalties

__all__ = [
    "FIRMNESS",
    "LONGEST_PHRASE",
    "MOST_PHRASES",
    "Alignment",
    "AspectSource",
    "Aspects",
    "BuildReport",
    "Candidate",
    "Decision",
    "Expansion",
    "ExpansionSource",
    "Explanation",
    "FloatArray",
    "Hit",
    "Hits",
    "Item",
    "MemoryEntry",
    "NotKept",
    "Outline",
    "Preference",
    "Stance",
    "Stats",
    "Usage",
    "Verdict",
    "checked_aspects",
    "checked_expansion",
    "checked_k",
    "checked_moment",
    "checked_string",
    "checked_text",
    "moment",
    "penalties",
    "stable_id",
]
