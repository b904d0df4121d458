"""Confidence of a model: the probability of the decision that it wrote."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from epic_core.lm.base import Token


def probability(tokens: Sequence[Token] | None, text: str, span: tuple[int, int] | None) -> float | None:
    """Return the probability of a span of an answer, in [0, 1]: the product over all tokens of the span.

    Return None if there are no log-probabilities, or if the tokens of the span cannot be identified.
    """
    if not tokens or span is None or span[0] >= span[1]:
        return None
    joined = "".join(token.text for token in tokens)
    begin = joined.rfind(text)
    if begin < 0:
        # Tokens that are parts of a character do not add up to the text, so the words are counted instead.
        word = re.compile(re.escape(text[slice(*span)]))
        spans = [match.span() for match in word.finditer(joined)]
        if len(spans) != len(word.findall(text)):
            return None
        first, last = spans[len(word.findall(text[: span[0]]))]
    else:
        first, last = begin + span[0], begin + span[1]
    total, place = 0.0, 0
    for token in tokens:
        end = place + len(token.text)
        if end > first and place < last:
            total += token.logprob
        place = end
    return None if math.isnan(total) else math.exp(min(total, 0.0))
