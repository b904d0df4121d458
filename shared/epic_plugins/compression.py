"""Compression of what any retriever found: whole sentences that the question or a preference needs stay, others go.

A sentence is needed if it answers the question, by its cosine with it or by a word that few of the sentences have; if
it is near a preference, as in the coarse filter (Eq. 1-2); or if a needed sentence behind it refers to it ("It ...").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Embed, default_tau
from epic_memory.memory import EpicMemory
from epic_memory.runtime.batching import storable
from epic_memory.runtime.effects import Effects
from epic_memory.steering.relevance import default_relevant
from epic_memory.text.chunking import sentences
from epic_memory.text.stems import content_stems
from epic_memory.types import FloatArray

DROPPED = "epic_dropped_sentences"
"""The key of metadata for how many sentences a text has lost."""

# A sentence that begins like this is not understood without the one before it.
_REFERS = re.compile(
    r"\W*(?:it|its|this|that|these|those|they|their|he|his|she|her|there|such|both|also|so|but|however|then"
    r"|otherwise)\b",
    re.I,
)
# A word is rare if at most this share of the sentences has it.
_RARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Compressed:
    """A text at a place among the given ones, without the sentences that nothing needs; and how many these are."""

    place: int
    text: str
    dropped: int


def compressed(
    memory: EpicMemory, query: str, texts: Sequence[str], relevant: float | None = None
) -> Effects[list[Compressed]]:
    """Return the texts of which something stays, in order.

    Without a query preferences alone decide. `relevant` is the cosine with the query from which a sentence is needed;
    None stands for the encoder's own.
    """
    encoder, query = memory.encoder, storable(query).strip()
    parts = [sentences(storable(text)) for text in texts]
    every = list(dict.fromkeys(sentence for each in parts for sentence in each))
    preferences = [preference.text for preference in memory.preferences]
    if not every or not (query or preferences):
        return [Compressed(place=place, text=text, dropped=0) for place, text in enumerate(texts)]
    vectors: FloatArray = yield Embed(encoder, [*every, *preferences], "embedding")
    said, wished = vectors[: len(every)], vectors[len(every) :]
    tau = memory.tau if preferences else default_tau(encoder)
    needed: NDArray[np.bool_] = np.zeros(len(every), dtype=bool)
    if preferences:
        needed |= (said @ wished.T >= tau).any(axis=1)
    if query:
        asked: FloatArray = yield Embed(encoder, [query], "embedding", query=True)
        least = default_relevant(encoder) if relevant is None else relevant
        needed |= (said @ asked[0] >= least) | _have_rare_words(query, every)
    is_needed = dict(zip(every, needed.tolist(), strict=True))
    made = []
    for place, each in enumerate(parts):
        stay = [is_needed[sentence] for sentence in each]
        for number in range(len(each) - 1, 0, -1):
            stay[number - 1] |= stay[number] and _REFERS.match(each[number]) is not None
        if all(stay) and each:
            made.append(Compressed(place=place, text=texts[place], dropped=0))
        elif any(stay):
            kept = [sentence for sentence, stays in zip(each, stay, strict=True) if stays]
            made.append(Compressed(place=place, text=" ".join(kept), dropped=len(each) - len(kept)))
    return made


def _have_rare_words(query: str, texts: Sequence[str]) -> list[bool]:
    """Tell which sentences have a content word of the query that few of them have."""
    words = [set(content_stems(text)) for text in texts]
    counts = Counter(word for each in words for word in each)
    rare = {word for word in content_stems(query) if 0 < counts[word] <= max(1, _RARE * len(texts))}
    return [not rare.isdisjoint(each) for each in words]
