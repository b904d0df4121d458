"""Language-model verification: Decision Module and Instruction Generator (section 3.2), in one call for several items.

A chunk is untrusted. It enters the prompt quoted: without invisible characters, without the characters that tags, JSON
and chat templates are made of, each line marked, between tags that carry a hash of the text, which the text cannot
contain. So it can neither end its section nor pass for a line of the prompt or of an answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from epic_memory.errors import InvalidInputError, LMError
from epic_memory.lm.answers import UnreadableAnswer
from epic_memory.lm.base import Completion, LanguageModel
from epic_memory.lm.client import Complete, RetryPolicy, StructuredClient, not_understood
from epic_memory.lm.prompting import Prompt, numbered, one_line, prompt_of, section, size_of
from epic_memory.preferences.foreign import language_for
from epic_memory.preferences.lm_reader import AspectReader
from epic_memory.runtime.effects import Effects
from epic_memory.text.language import ENGLISH, named
from epic_memory.types import Alignment, Candidate, Decision, Preference, Usage, Verdict
from epic_memory.types.validation import checked_whole
from epic_memory.types.verdicts import combined
from epic_memory.verification.answers import Decided, answers_schema, read_answers
from epic_memory.verification.base import BaseVerifier

_MOST_PREFERENCES = 32
_TOKENS_A_CHUNK = 80
_TOKENS_A_PREFERENCE = 120
_MOST_TOKENS = 800

# Bytes of a prompt around the values filled in: around a chunk, and for each number named in its heading.
_HEADING = 64
_NUMBER = 4


@dataclass(frozen=True)
class _Question:
    """A chunk, as the prompt shows it, and the preferences under which it is to be judged."""

    position: int
    chunk: str
    preferences: tuple[Preference, ...]


class LMVerifier(BaseVerifier):
    """A verifier that lets a language model decide what is kept and write how to use it.

        memory = EpicMemory(prefs, settings=Settings(verifier=LMVerifier(OllamaLM("qwen3:4b"))))

    One call judges up to `batch_size` items. A call that fails is tried again. What an answer leaves out, or what
    cannot be relied on, is asked for once more; an item that remains without an answer is Undecided, with the reason.

    Args:
        lm: Any `LanguageModel`. Its `concurrency` is how many calls are made at once.
        batch_size: Most items in a call.
        prompt: Another prompt, whose user text holds `{preferences}` and `{chunks}`.
        retries: Attempts after the first, for calls that failed. A timeout is tried only once more.
        backoff: Seconds before the second attempt; doubled for each one after.
        max_tokens: Most tokens of an answer; default: by the items and preferences asked about.
        language: Of the instructions, one of `epic_memory.text.translations.LANGUAGES`; default: each preference's.

    Attributes:
        name: Made of the model and a hash of the prompt. Verdicts are cached under it.
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
        batch_size: int = 8,
        prompt: Prompt | None = None,
        retries: int = 3,
        backoff: float = 0.5,
        max_tokens: int | None = None,
        language: str | None = None,
    ) -> None:
        self._client = StructuredClient(lm, RetryPolicy(retries=retries, backoff=backoff))
        if max_tokens is not None:
            checked_whole(max_tokens, "max_tokens", 16)
        self.lm = lm
        self.batch_size = checked_whole(batch_size, "batch_size", 1)
        self.prompt = prompt_of("verify") if prompt is None else _checked(prompt)
        self._max_tokens, self._language = max_tokens, language
        self.aspect_reader = AspectReader(lm, patience=self._client.patience)
        self.name = f"lm/{lm.name}/{self.prompt.version}"

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
        for verdicts in self._client.stream(self._judged, self._jobs(candidates)):
            yield from verdicts

    async def astream(self, candidates: Sequence[Candidate]) -> AsyncGenerator[tuple[int, Verdict], None]:
        """Yield positions and verdicts as `stream` does, without blocking the event loop."""
        async with aclosing(self._client.astream(self._judged, self._jobs(candidates))) as judged:
            async for verdicts in judged:
                for one in verdicts:
                    yield one

    # requests

    def _jobs(self, candidates: Sequence[Candidate]) -> list[list[list[_Question]]]:
        """Return the calls to make: one for several candidates, or several for one with many preferences."""
        jobs: list[list[list[_Question]]] = []
        group: list[_Question] = []
        for position, candidate in enumerate(candidates):
            first, *more = self._parts(position, candidate)
            if more:
                jobs.append([[first], *([part] for part in more)])
            elif group and len(group) < self.batch_size and self._fits([*group, first]):
                group.append(first)
            else:
                group = [first]
                jobs.append([group])
        return jobs

    def _parts(self, position: int, candidate: Candidate) -> list[_Question]:
        """Return the question about a candidate, split if its preferences do not fit into one prompt."""
        chunk = section(candidate.item.content)
        parts: list[_Question] = []
        for preference in candidate.preferences:
            longer = _Question(position, chunk, (*parts[-1].preferences, preference)) if parts else None
            if longer is not None and self._fits([longer]):
                parts[-1] = longer
            else:
                parts.append(_Question(position, chunk, (preference,)))
        return parts

    def _fits(self, questions: Sequence[_Question]) -> bool:
        shown = _shown(questions)
        size = self.prompt.size + size_of(_wish(shown, self._language))
        size += sum(size_of(one_line(preference.text)) + 8 for preference in shown)
        size += sum(size_of(one.chunk) + _HEADING + _NUMBER * len(one.preferences) for one in questions)
        return len(shown) <= _MOST_PREFERENCES and self._client.fits(size, self._tokens(questions))

    def _tokens(self, questions: Sequence[_Question]) -> int:
        if self._max_tokens is not None:
            return self._max_tokens
        return sum(
            min(_TOKENS_A_CHUNK + _TOKENS_A_PREFERENCE * len(one.preferences), _MOST_TOKENS) for one in questions
        )

    def _request(self, questions: Sequence[_Question]) -> Complete:
        shown = _shown(questions)
        numbers = _numbers(questions)
        chunks = "\n\n".join(
            f"Chunk {number}, to be judged under {_named(under)}:\n{one.chunk}"
            for number, (one, under) in enumerate(zip(questions, numbers, strict=True), start=1)
        )
        wished = numbered([each.text for each in shown]) + _wish(shown, self._language)
        values = {"preferences": wished, "chunks": chunks}
        schema = answers_schema(len(questions), len(shown))
        return self._client.request(self.prompt, values, schema, self._tokens(questions))

    def _judged(self, job: Sequence[Sequence[_Question]]) -> Effects[list[tuple[int, Verdict]]]:
        """Return the verdicts on the candidates of a job; the first carries the usage of all calls."""
        usage = Usage()
        verdicts: dict[int, list[Verdict]] = {}
        for call in job:
            found = yield from self._answered(call, usage)
            for position, verdict in found.items():
                verdicts.setdefault(position, []).append(verdict)
            if len(job) > 1 and any(verdict.decision is Decision.UNDECIDED for verdict in found.values()):
                verdicts = {position: [verdict] for position, verdict in found.items()}
                break
        (position, several), *others = verdicts.items()
        first = replace(combined(several), usage=usage)
        return [(position, first), *((position, combined(several)) for position, several in others)]

    def _answered(self, questions: Sequence[_Question], usage: Usage) -> Effects[dict[int, Verdict]]:
        """Return a verdict for each question, by its position."""
        try:
            request = self._request(questions)
            completion = yield from self._client.answer(request, usage)
        except LMError as error:
            if len(questions) == 1 or self._client.patience.down is not None:
                return _undecided(questions, str(error))
            # The model may fail on one of them only.
            found: dict[int, Verdict] = {}
            usage.retries += 1
            for one in questions:
                found |= yield from self._answered([one], usage)
            return found
        found, reasons = _read(completion, questions)
        open_ = [one for one in questions if one.position not in found]
        if not open_:
            return found
        try:
            if not found:
                request = self._client.again(request, completion, reasons[open_[0].position])
            elif completion.cut:
                request = self._client.roomier(self._request(open_))
            else:
                request = self._request(open_)
            usage.retries += 1
            second = yield from self._client.answer(request, usage)
        except LMError as error:
            return found | _undecided(open_, str(error))
        more, reasons = _read(second, open_)
        for one in open_:
            if one.position not in more:
                reason = not_understood(reasons[one.position])
                more |= _undecided([one], reason, second.text or completion.text)
        return found | more


def _checked(prompt: object) -> Prompt:
    if not isinstance(prompt, Prompt):
        raise InvalidInputError(f"prompt must be a Prompt(system=..., user=...), not {prompt!r}.")
    if "{preferences}" not in prompt.user or "{chunks}" not in prompt.user:
        raise InvalidInputError("The user text of the prompt must hold {preferences} and {chunks}.")
    return prompt


def _read(completion: Completion, questions: Sequence[_Question]) -> tuple[dict[int, Verdict], dict[int, str]]:
    """Return the verdicts in an answer by position, and the reasons why others have none."""
    numbers = _numbers(questions)
    try:
        decided = read_answers(completion, [frozenset(under) for under in numbers])
    except UnreadableAnswer as error:
        return {}, {one.position: str(error) for one in questions}
    shown = _shown(questions)
    verdicts: dict[int, Verdict] = {}
    reasons: dict[int, str] = {}
    for place, one in enumerate(questions):
        answer = decided.get(place, "it is cut off" if completion.cut else f"it leaves out chunk {place + 1}")
        if isinstance(answer, str):
            reasons[one.position] = answer
        else:
            verdicts[one.position] = _verdict(answer, shown)
    return verdicts, reasons


def _verdict(decided: Decided, shown: Sequence[Preference]) -> Verdict:
    return Verdict(
        decision=Decision(decided.judged.decision),
        rationale=decided.judged.evidence,
        confidence=decided.confidence,
        alignments=tuple(
            Alignment(preference_id=shown[one.preference - 1].id, instruction=one.instruction, stance=one.stance)
            for one in decided.judged.preferences
        ),
    )


def _undecided(questions: Sequence[_Question], reason: str, answer: str = "") -> dict[int, Verdict]:
    verdict = Verdict(decision=Decision.UNDECIDED, rationale=reason, answer=answer)
    return {one.position: verdict for one in questions}


def _shown(questions: Sequence[_Question]) -> list[Preference]:
    """Return the preferences of questions, each once, as the prompt numbers them."""
    return list({preference.id: preference for one in questions for preference in one.preferences}.values())


def _wish(shown: Sequence[Preference], language: str | None) -> str:
    """Return the wish for instructions in a language, or in those of the preferences; none for English."""
    numbers: dict[str, list[int]] = {}
    for number, preference in enumerate(shown, start=1):
        numbers.setdefault(language or language_for([preference]), []).append(number)
    others = {code: f" for {_named(some)}" if len(numbers) > 1 else "" for code, some in numbers.items()}
    others.pop(ENGLISH, None)
    return "".join(f"\n\nWrite the instructions{which} in {named(code)}." for code, which in others.items())


def _numbers(questions: Sequence[_Question]) -> list[list[int]]:
    """Return for each question the numbers of its preferences in the prompt."""
    number = {preference.id: number for number, preference in enumerate(_shown(questions), start=1)}
    return [sorted(number[preference.id] for preference in one.preferences) for one in questions]


def _named(numbers: Sequence[int]) -> str:
    return f"preference{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
