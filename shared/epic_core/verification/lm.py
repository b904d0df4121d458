"""Language-model verification: Decision Module, Instruction Generator and Rewriter (section 3.2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from epic_core.errors import InvalidInputError, LMError
from epic_core.lm.answers import UnreadableAnswer, without_drafts
from epic_core.lm.base import Completion, LanguageModel, probability
from epic_core.lm.client import StructuredClient, UnreadableTwice
from epic_core.lm.prompting import Prompt, numbered, one_line, section, size_of, version
from epic_core.lm.retries import RetryPolicy
from epic_core.preferences.lm_reader import AspectReader
from epic_core.runtime.effects import Effects
from epic_core.types import Alignment, Candidate, Decision, Preference, Stance, Usage, Verdict
from epic_core.types.validation import checked_whole
from epic_core.types.verdicts import combined
from epic_core.verification.answers import read_batch, read_decision, read_instruction, read_rewrite
from epic_core.verification.base import BaseVerifier, Rewriting, Rewritten
from epic_core.verification.prompts import (
    INSTRUCT_SCHEMA,
    REWRITE_SCHEMA,
    Prompts,
    batch_schema,
    decide_schema,
    single_schema,
)
from epic_core.verification.values import Answer

Way: TypeAlias = Literal["paper", "single", "batch"]
Refine: TypeAlias = Literal["rewrite"]

_MOST_PREFERENCES = 32
_MOST_TOKENS = 1024
_TOKENS_A_PREFERENCE = 160
_TOKENS_A_DECISION = 120

# Bytes of a prompt around the values filled in: around a chunk in a batch, and for each number named in its heading.
_HEADING = 64
_NUMBER = 4


class LMVerifier(BaseVerifier):
    """A verifier that lets a language model decide what is kept and write how to use it.

        memory = EpicMemory(preferences=prefs, verifier=LMVerifier(OllamaLM("qwen3:4b")))

    The model is asked once more if its answer cannot be understood, and a call that fails is tried again. An item that
    remains without an answer is Undecided, with the reason.

    Args:
        lm: Any `LanguageModel`. Its `concurrency` is how many items are verified at once.
        way: "single" asks once for each item: decision, then rationale, then for each relevant preference its stance
            and instruction. "paper" asks once to decide, and once more for each relevant preference, to write its
            instruction. "batch" asks for several items at once, and again for an item that was left out.
        refine: "rewrite" has kept items rewritten for the preferences they are kept under: the rewritten text is
            indexed, and there are no instructions (the earlier version of EPIC).
        prompts: Other prompts, or the folder of the authors' prompts (`Prompts.read`), which goes with way "paper".
        batch_size: Items asked about at once, for way "batch".
        retries: Attempts after the first, for calls that failed. A timeout is tried only once more.
        backoff: Seconds before the second attempt; doubled for each one after.
        max_tokens: Most tokens of an answer; default: depends on the request, at most 1,024 for one item.

    Attributes:
        name: Made of model, way, refinement and a hash of the prompts. Verdicts are cached under it.
        cached: True: verdicts are cached.
        aspect_reader: Reads what preferences like and avoid and writes what they mean in practice, with the same model.

    Raises:
        InvalidInputError: if an argument is invalid.
    """

    cached = True

    def __init__(
        self,
        lm: LanguageModel,
        *,
        way: Way = "single",
        refine: Refine | None = None,
        prompts: Prompts | str | Path | None = None,
        batch_size: int = 8,
        retries: int = 3,
        backoff: float = 0.5,
        max_tokens: int | None = None,
    ) -> None:
        self._asker = StructuredClient(lm, RetryPolicy(retries=retries, backoff=backoff))
        if way not in get_args(Way):
            raise InvalidInputError(f"way must be one of {', '.join(get_args(Way))}; not {way!r}.")
        if refine not in (None, "rewrite"):
            raise InvalidInputError(f"refine must be None or 'rewrite', not {refine!r}.")
        checked_whole(batch_size, "batch_size", 1)
        if max_tokens is not None:
            checked_whole(max_tokens, "max_tokens", 16)
        if not isinstance(prompts, (Prompts, str, Path, type(None))):
            raise InvalidInputError(f"prompts must be Prompts(...) or the name of a folder, not {prompts!r}.")
        if isinstance(prompts, (str, Path)) and way != "paper" and refine is None:
            raise InvalidInputError(f"The prompts in {prompts} are for way='paper', which asks to decide first.")
        self.lm = lm
        self.way: Way = way
        self.refine = refine
        self.prompts = (
            prompts if isinstance(prompts, Prompts) else Prompts() if prompts is None else Prompts.read(prompts)
        )
        self.batch_size = batch_size
        self._max_tokens = max_tokens
        self.aspect_reader = AspectReader(lm, patience=self._asker.patience)
        own = self.prompts
        used = {
            "paper": [own.decide, own.instruct],
            "single": [own.single, own.instruct],
            "batch": [own.batch, own.single, own.instruct],
        }[way]
        if refine:
            used = [own.batch_decide, own.decide] if way == "batch" else [own.decide]
        self.name = f"lm/{lm.name}/{refine or way}/{version(used)}"
        self.rewriter = LMRewriter(self._asker, self.prompts.rewrite) if refine else None

    # protocol

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield one verdict for each candidate, in order."""
        early: dict[int, Verdict] = {}
        due = 0
        for position, verdict in self.stream(candidates):
            early[position] = verdict
            while due in early:
                yield early.pop(due)
                due += 1

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Yield verdicts as `verify` does, without blocking the event loop."""
        early: dict[int, Verdict] = {}
        due = 0
        async with aclosing(self.astream(candidates)) as stream:
            async for position, verdict in stream:
                early[position] = verdict
                while due in early:
                    yield early.pop(due)
                    due += 1

    def stream(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Verdict]]:
        """Yield positions and verdicts of the candidates, in the order in which they are reached."""
        for verdicts in self._asker.stream(lambda group: self._judged(candidates, group), self._groups(candidates)):
            yield from verdicts

    async def astream(self, candidates: Sequence[Candidate]) -> AsyncGenerator[tuple[int, Verdict], None]:
        """Yield positions and verdicts as `stream` does, without blocking the event loop."""
        judged = self._asker.astream(lambda group: self._judged(candidates, group), self._groups(candidates))
        async with aclosing(judged):
            async for verdicts in judged:
                for one in verdicts:
                    yield one

    # requests

    def _groups(self, candidates: Sequence[Candidate]) -> list[list[int]]:
        """Return the positions of the candidates, grouped by request."""
        if self.way != "batch" or self.batch_size == 1:
            return [[position] for position in range(len(candidates))]
        prompt = self.prompts.batch if self.refine is None else self.prompts.batch_decide
        groups: list[list[int]] = []
        held: set[str] = set()
        size = 0
        for position, candidate in enumerate(candidates):
            lines = {preference.id: _line_size(preference) for preference in candidate.preferences}
            chunk = size_of(section(candidate.item.content)) + _HEADING + _NUMBER * len(lines)
            more = chunk + sum(line for key, line in lines.items() if key not in held)
            room = groups and len(groups[-1]) < self.batch_size and len(held | lines.keys()) <= _MOST_PREFERENCES
            if room and self._asker.fits(size + more, self._answer_tokens(len(groups[-1]) + 1)):
                groups[-1].append(position)
                held |= lines.keys()
                size += more
            else:
                groups.append([position])
                held, size = set(lines), prompt.size + chunk + sum(lines.values())
        return groups

    def _judged(self, candidates: Sequence[Candidate], group: Sequence[int]) -> Effects[list[tuple[int, Verdict]]]:
        if len(group) == 1:
            verdict = yield from self._one(candidates[group[0]], Usage())
            return [(group[0], verdict)]
        return (yield from self._several(candidates, group))

    def _one(self, candidate: Candidate, usage: Usage) -> Effects[Verdict]:
        """Return the verdict on one candidate, from several requests if its preferences do not fit into one prompt."""
        try:
            verdicts: list[Verdict] = []
            for part in self._parts(candidate):
                verdicts += [(yield from self._decided(candidate, part, usage))]
        except (LMError, UnreadableTwice) as error:
            answer = getattr(error, "answer", "")
            return Verdict(decision=Decision.UNDECIDED, rationale=str(error), answer=answer, usage=usage)
        return replace(combined(verdicts), usage=usage)

    def _decided(self, candidate: Candidate, preferences: Sequence[Preference], usage: Usage) -> Effects[Verdict]:
        instructing = self._instructing
        prompt = self.prompts.single if instructing else self.prompts.decide
        texts = [preference.text for preference in preferences]
        values = {"preferences": numbered(texts), "chunk": section(candidate.item.content)}
        schema = single_schema(len(texts)) if instructing else decide_schema(len(texts))
        answer, completion = yield from self._asker.readable(
            self._asker.request(prompt, values, schema, self._answer_tokens(1, len(texts))),
            prompt,
            lambda text: _decision_read(text, texts, instructing),
            usage,
        )
        verdict = _verdict(answer, completion, preferences)
        if self.refine is None and verdict.decision is Decision.KEEP:
            return (yield from self._instructed(candidate, verdict, preferences, usage))
        return verdict

    def _instructed(
        self, candidate: Candidate, verdict: Verdict, preferences: Sequence[Preference], usage: Usage
    ) -> Effects[Verdict]:
        """Add i_x(p) = IG(x, p, rationale), with one call for each relevant preference that has no instruction yet."""
        texts = {preference.id: preference.text for preference in preferences}
        alignments = []
        for alignment in verdict.alignments:
            if alignment.instruction and self._instructing:
                alignments.append(alignment)
                continue
            values = {
                "preferences": numbered([texts[alignment.preference_id]]),
                "chunk": section(candidate.item.content),
                "rationale": one_line(verdict.rationale),
            }
            prompt = self.prompts.instruct
            written, _ = yield from self._asker.readable(
                self._asker.request(prompt, values, INSTRUCT_SCHEMA, self._answer_tokens(1, 1)),
                prompt,
                read_instruction,
                usage,
            )
            stance = alignment.stance if written.stance is Stance.NEUTRAL else written.stance
            alignments.append(replace(alignment, instruction=written.instruction, stance=stance))
        return replace(verdict, alignments=tuple(alignments))

    def _several(self, candidates: Sequence[Candidate], group: Sequence[int]) -> Effects[list[tuple[int, Verdict]]]:
        """Return verdicts on several candidates from one answer; those missing in it are asked about one by one."""
        usage = Usage()
        chosen = [candidates[position] for position in group]
        preferences = list({p.id: p for candidate in chosen for p in candidate.preferences}.values())
        place = {preference.id: number for number, preference in enumerate(preferences)}
        under = [[place[p.id] for p in candidate.preferences] for candidate in chosen]
        instructing = self.refine is None
        prompt = self.prompts.batch if instructing else self.prompts.batch_decide
        texts = [preference.text for preference in preferences]
        chunks = "\n\n".join(
            f"Chunk {number}, to be judged under {_named(places)}:\n{section(candidate.item.content)}"
            for number, (candidate, places) in enumerate(zip(chosen, under, strict=True), start=1)
        )
        schema = batch_schema(len(chosen), len(texts), decide_only=not instructing)
        values = {"preferences": numbered(texts), "chunk": chunks}
        answers: dict[int, Answer] = {}
        completion = Completion(text="")
        try:
            request = self._asker.request(prompt, values, schema, self._answer_tokens(len(chosen)))
            completion = yield from self._asker.answer(request, usage)
            said = without_drafts(completion.text) if completion.cut else completion.text
            answers = read_batch(said, texts, under, instructions=instructing)
        except LMError as error:
            if self._asker.patience.down is not None:
                failed = Verdict(decision=Decision.UNDECIDED, rationale=str(error))
                return _sharing([(position, failed) for position in group], usage)
        verdicts: list[tuple[int, Verdict]] = []
        sent = usage.calls > 0
        for number, position in enumerate(group):
            if number in answers:
                verdicts.append((position, _verdict(answers[number], completion, preferences)))
            else:
                calls = usage.calls
                verdict = yield from self._one(candidates[position], usage)
                usage.retries += sent and usage.calls > calls
                verdicts.append((position, replace(verdict, usage=None)))
        return _sharing(verdicts, usage)

    def _parts(self, candidate: Candidate) -> list[list[Preference]]:
        """Return the preferences in lists that fit into a prompt together with the chunk."""
        prompt = self.prompts.single if self._instructing else self.prompts.decide
        fixed = prompt.size + size_of(section(candidate.item.content))
        parts: list[list[Preference]] = []
        size = 0
        for preference in candidate.preferences:
            more = _line_size(preference)
            room = parts and len(parts[-1]) < _MOST_PREFERENCES
            if room and self._asker.fits(fixed + size + more, self._answer_tokens(1, len(parts[-1]) + 1)):
                parts[-1].append(preference)
                size += more
            else:
                parts.append([preference])
                size = more
        return parts

    @property
    def _instructing(self) -> bool:
        """True if one answer holds both decision and instructions."""
        return self.way != "paper" and self.refine is None

    def _answer_tokens(self, chunks: int, preferences: int = 3) -> int:
        if self._max_tokens is not None:
            return self._max_tokens
        return min(_TOKENS_A_DECISION + _TOKENS_A_PREFERENCE * preferences, _MOST_TOKENS) * chunks


def _decision_read(text: str, preferences: Sequence[str], instructing: bool) -> Answer:
    """Return the decision in an answer; instructions that small models leave out can be asked for separately."""
    try:
        return read_decision(text, preferences, instructions=instructing)
    except UnreadableAnswer:
        if not instructing:
            raise
        return read_decision(text, preferences, instructions=False, closed=True)


def _verdict(answer: Answer, completion: Completion, preferences: Sequence[Preference]) -> Verdict:
    return Verdict(
        decision=answer.decision,
        rationale=answer.rationale,
        confidence=probability(completion.tokens, completion.text, answer.span),
        alignments=tuple(
            Alignment(preference_id=preferences[one.index].id, instruction=one.instruction, stance=one.stance)
            for one in answer.relevant
        ),
    )


def _sharing(verdicts: Sequence[tuple[int, Verdict]], usage: Usage) -> list[tuple[int, Verdict]]:
    """Return the verdicts of one call; the first carries the usage of all."""
    (position, verdict), *others = verdicts
    return [(position, replace(verdict, usage=usage)), *others]


def _line_size(preference: Preference) -> int:
    """Return the bytes of a preference as a prompt shows it, with its number."""
    return size_of(one_line(preference.text)) + 8


def _named(places: Sequence[int]) -> str:
    numbers = ", ".join(str(place + 1) for place in sorted(places))
    return f"preference{'s' if len(places) > 1 else ''} {numbers}"


class LMRewriter:
    """A rewriter that has a language model rewrite chunks: x^ = Rewriter(x, P'_rel(x), rationale), the earlier version.

    Its name is made of model and prompt; rewritten texts are cached under it.
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
            "chunk": section(rewriting.item.content),
            "rationale": one_line(rewriting.rationale),
        }
        # The text is to be no longer than the chunk; an answer with more tokens than the chunk has bytes has failed.
        limit = 64 + size_of(rewriting.item.content)
        try:
            request = self._asker.request(self._prompt, values, REWRITE_SCHEMA, min(limit, 2048))
            text, _ = yield from self._asker.readable(request, self._prompt, read_rewrite, usage)
        except (LMError, UnreadableTwice) as error:
            return place, Rewritten(failure=str(error), answer=getattr(error, "answer", ""), usage=usage)
        return place, Rewritten(text=text, usage=usage)
