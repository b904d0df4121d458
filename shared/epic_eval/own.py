"""Evaluation of one's own memory: which questions find nothing, which preferences are never used, what is followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from epic_eval.agreement import agreement, labelled_set
from epic_eval.answering import Context, request_of
from epic_eval.asking import Request, answer_to, ask
from epic_eval.journal import Journal, read_lines
from epic_eval.judge import Judge, Judged, Judgement, accuracy
from epic_eval.metrics import overlaps
from epic_eval.report import Part, Table, Text
from epic_memory import EpicMemory, SearchOptions
from epic_memory.context import those_that_matter
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel
from epic_rerank import Adaptive

K = 5
_LIKELY = 0.1


@dataclass(frozen=True)
class OwnQuestion:
    """A question of the user's, and what is known of its answer.

    Attributes:
        preference: The one it has to follow, if they say which.
        answer: The right answer, if they give one.
        task: "qa", or the name of a task with one right value, such as "form" or "reminder".
    """

    text: str
    preference: str = ""
    answer: str = ""
    task: str = "qa"


@dataclass(frozen=True, kw_only=True)
class Found:
    """Results of a memory for a question.

    Attributes:
        passages: As in `retrieved.jsonl`, with `text` and `guidance`.
        needed: Those of them that adaptive selection takes (`epic_rerank.Adaptive`).
        tiers: Of each passage.
        opening: The preferences that the context opens with.
        used: The preferences that open the context or belong to a passage.
        likeliest: The preference that matters most, if any is likely to.
    """

    question: OwnQuestion
    passages: tuple[dict[str, object], ...]
    needed: tuple[dict[str, object], ...]
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
    """Read questions: JSON lines with `question`, and if known the `preference` to follow, `answer` and `task`.

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
        made.append(OwnQuestion(text, preference, str(record.get("answer") or ""), str(record.get("task") or "qa")))
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
        few = memory.search(question.text, k, options=SearchOptions(chooser=Adaptive()))
        opening = tuple(preference.text for preference in those_that_matter(hits.matters))
        kept_for = {preference for hit in hits for preference in hit.preferences}
        likely = hits.matters[0] if hits.matters else None
        report.found.append(
            Found(
                question=question,
                passages=tuple({"text": hit.text, "guidance": hit.instructions} for hit in hits),
                needed=tuple({"text": hit.text, "guidance": hit.instructions} for hit in few),
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
    ways = ("with the memory", "texts alone", "those it needs", "without it")
    rows, right = [], list[tuple[str, ...]]()
    with Journal(folder / "answers.jsonl") as answers, Journal(folder / "judged.jsonl") as verdicts:
        judge = Judge(lm.name, verdicts, votes=votes)
        wanted = {way: [_request(found, way) for found in report.found] for way in ways}
        done = ask(lm, [request for requests in wanted.values() for request in requests], answers)
        judgements: dict[str, list[Judgement | None]] = {}
        for way, requests in wanted.items():
            texts = [answer_to(request, lm.name, answers) for request in requests]
            right += _rightly(way, report.found, texts)
            judgements[way] = [
                Judgement(found.preference, found.question.text, text)
                if found.preference and text and text.strip()
                else None
                for found, text in zip(report.found, texts, strict=True)
            ]
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
    head = ("context", "questions", "texts", "R-1", "R-2", "R-L", "BLEU", "EM")
    note = ("ROUGE (F1), BLEU and exact match against the answers given; an answer that failed counts 0.",)
    known = [Table("Right answers", head, tuple(right), note)] if right else []
    return [Table("Following", ("context", "questions", "%", "outcomes"), tuple(rows), notes), *known]


def _rightly(way: str, found: Sequence[Found], texts: Sequence[str | None]) -> Iterator[tuple[str, ...]]:
    """Yield, for each task, the means of the measures of the answers whose right one is known."""
    pairs = [(each, text or "") for each, text in zip(found, texts, strict=True) if each.question.answer]
    for task in dict.fromkeys(each.question.task for each, _ in pairs):
        of = [(each, text) for each, text in pairs if each.question.task == task]
        passages = sum(len(_passages(each, way)) for each, _ in of) / len(of)
        measured = [overlaps(text, each.question.answer) for each, text in of]
        means = (f"{sum(values[name] for values in measured) / len(of):.3f}" for name in measured[0])
        yield (f"{way}, {task}", f"{len(of)}", f"{passages:.2f}", *means)


def _passages(found: Found, way: str) -> tuple[dict[str, object], ...]:
    return {"without it": (), "those it needs": found.needed}.get(way, found.passages)


def _request(found: Found, way: str) -> Request:
    mode: Context = "guided" if way in ("with the memory", "those it needs") else "content"
    opening = () if way == "without it" else found.opening
    record = {"question": found.question.text, "passages": _passages(found, way), "opening": opening, "preferences": ()}
    return request_of(record, mode)
