"""Evaluation of one's own memory: which questions find nothing, which preferences are never used, what is followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epic_eval.answering import Context, answer_request
from epic_eval.asking import Request, answer_to, ask
from epic_eval.journal import Journal, read_lines
from epic_eval.judge import Judge, Judged, Judgement, accuracy, agreement, labelled_set
from epic_eval.report import Part, Table, Text
from epic_memory import EpicMemory
from epic_memory.context import those_that_matter
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel

K = 5
_LIKELY = 0.1


@dataclass(frozen=True)
class OwnQuestion:
    """A question of the user's, and the preference its answer has to follow, if they say which."""

    text: str
    preference: str = ""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Results of a memory for a question.

    Attributes:
        passages: As in `retrieved.jsonl`, with `text` and `guidance`.
        tiers: Of each passage.
        opening: The preferences that the context opens with.
        used: The preferences that open the context or belong to a passage.
        likeliest: The preference that matters most, if any is likely to.
    """

    question: OwnQuestion
    passages: tuple[dict[str, object], ...]
    tiers: tuple[str, ...]
    opening: tuple[str, ...]
    used: frozenset[str]
    likeliest: str

    @property
    def preference(self) -> str:
        """The preference that the answer should follow: the user's word, or the likeliest; empty if there is none."""
        return self.question.preference or self.likeliest


@dataclass
class OwnReport:
    """Results for all questions.

    Attributes:
        found: Question by question.
        items: How many items are kept for each preference.
    """

    found: list[Found]
    items: dict[str, int] = field(default_factory=dict)

    @property
    def nothing(self) -> list[str]:
        """The questions that find nothing."""
        return [found.question.text for found in self.found if not found.passages]

    @property
    def unused(self) -> list[str]:
        """The preferences that no question used."""
        used = frozenset().union(*(found.used for found in self.found)) if self.found else frozenset()
        return [preference for preference in self.items if preference not in used]

    def parts(self) -> list[Part]:
        """Build the report."""
        tiers = Counter(tier for found in self.found for tier in found.tiers)
        said = ", ".join(f"{count} {tier}" for tier, count in tiers.most_common()) or "none"
        stated = [found for found in self.found if found.question.preference]
        told = sum(found.question.preference in found.used for found in stated)
        own = f" Of {len(stated)} questions with a preference, {told} used it." if stated else ""
        rows = []
        for preference, count in self.items.items():
            opened = sum(preference in found.opening for found in self.found)
            used = sum(preference in found.used for found in self.found)
            rows.append((preference, f"{count}", f"{used}", f"{opened}"))
        parts: list[Part] = [
            Text(f"{len(self.found)} questions; passages by tier: {said}.{own}"),
            Table("Preferences", ("preference", "items kept", "used by questions", "opened contexts"), tuple(rows)),
        ]
        for title, texts in (("Questions that find nothing", self.nothing), ("Preferences never used", self.unused)):
            parts.append(Table(title, (title,), tuple((text,) for text in texts) or (("none",),)))
        return parts


def read_questions(path: str | Path, preferences: Sequence[str]) -> list[OwnQuestion]:
    """Read questions: JSON lines with `question`, and `preference` if it is known which one an answer has to follow.

    Args:
        path: The file.
        preferences: Those of the memory.

    Raises:
        InvalidInputError: for a line without a question, or with a preference that the memory does not hold.
    """
    made = []
    for number, record in enumerate(read_lines(path), start=1):
        text, preference = record.get("question"), record.get("preference") or ""
        if not isinstance(text, str) or not text.strip():
            raise InvalidInputError(f'{path}, line {number}: {{"question": "..."}} is needed.')
        if preference and preference not in preferences:
            raise InvalidInputError(f"{path}, line {number}: the memory holds no preference {preference!r}.")
        made.append(OwnQuestion(text, preference))
    if not made:
        raise InvalidInputError(f"{path} holds no questions.")
    return made


def look(memory: EpicMemory, questions: Sequence[OwnQuestion], k: int = K) -> OwnReport:
    """Ask a memory all questions, without a language model."""
    report = OwnReport([], dict.fromkeys(memory.preferences.aspects(), 0))
    for item in memory.items():
        for preference in {entry.preference for entry in memory.explain(item.id).entries}:
            if preference in report.items:
                report.items[preference] += 1
    for question in questions:
        hits = memory.search(question.text, k)
        opening = tuple(preference.text for preference in those_that_matter(hits.matters))
        kept_for = {preference for hit in hits for preference in hit.preferences}
        likely = hits.matters[0] if hits.matters else None
        report.found.append(
            Found(
                question=question,
                passages=tuple({"text": hit.text, "guidance": hit.instructions} for hit in hits),
                tiers=tuple(hit.tier for hit in hits),
                opening=opening,
                used=frozenset({*opening, *kept_for}),
                likeliest=likely[0].text if likely is not None and likely[1] >= _LIKELY else "",
            )
        )
    return report


def follow(report: OwnReport, lm: LanguageModel, folder: Path, *, votes: int = 1, measured: bool = False) -> list[Part]:
    """Have a model answer with and without the memory, and judge what it said; it goes on where it was left.

    Args:
        report: What the memory gave.
        lm: Answers and judges.
        folder: Holds `answers.jsonl` and `judged.jsonl`.
        votes: How often each check is asked, odd.
        measured: Whether the judge also judges our 200 labelled answers, which takes some 700 calls.
    """
    ways = {"with the memory": "guided", "texts alone": "content", "without it": "nothing"}
    rows = []
    with Journal(folder / "answers.jsonl") as answers, Journal(folder / "judged.jsonl") as verdicts:
        judge = Judge(lm.name, verdicts, votes=votes)
        wanted = {way: [_request(found, way_of) for found in report.found] for way, way_of in ways.items()}
        done = ask(lm, [request for requests in wanted.values() for request in requests], answers)
        judgements: dict[str, list[Judgement | None]] = {}
        for way, requests in wanted.items():
            judgements[way] = []
            for found, request in zip(report.found, requests, strict=True):
                text = answer_to(request, lm.name, answers)
                judged = Judgement(found.preference, found.question.text, text) if text and text.strip() else None
                judgements[way].append(judged if found.preference else None)
        every = [judgement for of in judgements.values() for judgement in of if judgement is not None]
        labelled = [each.judgement for each in labelled_set()] if measured else []
        judging = judge.run(lm, [*every, *labelled])
        for way, of in judgements.items():
            about = [n for n, found in enumerate(report.found) if found.preference]
            pairs: list[tuple[object, Judged | None]] = [
                (n, None if (judgement := of[n]) is None else judge.judged(judgement)) for n in about
            ]
            result = accuracy(pairs)
            errors = ", ".join(f"{count} {kind}" for kind, count in result.outcomes.items() if count)
            rows.append((way, f"{len(about)}", str(result), errors or "-"))
        agreed = ", ".join(f"{name} {found}" for name, found in agreement(judge).items()) if measured else ""
    notes = (
        f"Answered and judged by {lm.name}: {done}; {judging}.",
        f"Agreement of the judge with our 200 labelled answers: {agreed or 'not measured (--agreement)'}.",
        "Of questions without a stated preference, the likeliest one is judged; those without either are left out."
        " The interval is over questions.",
    )
    return [Table("Following", ("context", "questions", "%", "outcomes"), tuple(rows), notes)]


def _request(found: Found, way: str) -> Request:
    if way == "nothing":
        return answer_request(found.question.text, (), "content")
    mode: Context = "guided" if way == "guided" else "content"
    return answer_request(found.question.text, found.passages, mode, opening=found.opening)
