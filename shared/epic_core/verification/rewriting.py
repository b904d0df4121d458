"""Rewriter of the earlier version of EPIC: x^ = Rewriter(x, P'_rel(x), rationale)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from epic_core.errors import LMError
from epic_core.lm.client import StructuredClient, UnreadableTwice
from epic_core.lm.prompting import Prompt, numbered, one_line, section, size_of, version
from epic_core.runtime.effects import Effects
from epic_core.types import Usage
from epic_core.verification.answers import read_rewrite
from epic_core.verification.base import Rewriting, Rewritten
from epic_core.verification.prompts import rewrite_schema


class LMRewriter:
    """A rewriter that has a language model rewrite chunks for the preferences they are kept under.

    Args:
        asker: The client of the model.
        prompt: The Rewriter's prompt.

    Attributes:
        name: Made of model and prompt; rewritten texts are cached under it.
    """

    def __init__(self, asker: StructuredClient, prompt: Prompt) -> None:
        self._asker = asker
        self._prompt = prompt
        self.name = f"rewrite/{asker.lm.name}/{version([prompt])}"

    def stream(self, rewritings: Sequence[Rewriting]) -> Iterator[tuple[int, Rewritten]]:
        """Yield positions and rewritten texts, in the order in which they are ready."""
        return self._asker.stream(lambda one: self._rewritten(*one), list(enumerate(rewritings)))

    def astream(self, rewritings: Sequence[Rewriting]) -> AsyncIterator[tuple[int, Rewritten]]:
        """Yield rewritten texts as `stream` does, without blocking the event loop."""
        return self._asker.astream(lambda one: self._rewritten(*one), list(enumerate(rewritings)))

    def _rewritten(self, place: int, rewriting: Rewriting) -> Effects[tuple[int, Rewritten]]:
        usage = Usage()
        values = {
            "preferences": numbered([preference.text for preference in rewriting.preferences]),
            "chunk": section(rewriting.item.text),
            "rationale": one_line(rewriting.rationale),
        }
        # The text is to be no longer than the chunk; an answer with more tokens than the chunk has bytes has failed.
        limit = 64 + size_of(rewriting.item.text)
        try:
            request = self._asker.request(self._prompt, values, rewrite_schema(), min(limit, 2048))
            text, _ = yield from self._asker.readable(request, self._prompt, read_rewrite, usage)
        except (LMError, UnreadableTwice) as error:
            return place, Rewritten(failure=str(error), answer=getattr(error, "answer", ""), usage=usage)
        return place, Rewritten(text=text, usage=usage)
