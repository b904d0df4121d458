"""Commands about what is known of the user: onboard, proposals, note, facts, fill, due."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from epic_apps.cli.options import InFile, Model
from epic_apps.cli.printing import show, table, warn
from epic_memory.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_learn.onboarding import Question
    from epic_learn.types import Edit, Proposal
    from epic_memory.memory import EpicMemory
    from epic_memory.types import Item


def onboard(
    file: InFile,
    model: Model,
    answers: Annotated[
        str | None,
        Option(metavar="FILE", help="answers by the ids of the questions, as JSON; accepted as given"),
    ] = None,
) -> None:
    """Answer questions, each of them optional; makes a new memory."""
    from epic_learn.onboarding import Onboarding, Question, send

    reply = _Terminal() if answers is None else _Answers(answers, shown=not file.json)
    with file.open(model, must_exist=False) as memory:
        asking = Onboarding().start(memory)
        step, accepted = next(asking, None), 0
        try:
            while step is not None:
                answer = reply.answer(step) if isinstance(step, Question) else reply.decide(step)
                accepted += not isinstance(step, Question) and bool(answer)
                step = send(asking, answer)
        except EOFError:
            show("")
        lists = f"epic preferences {file.memory} list shows preferences."
        file.show({"accepted": accepted}, f"{file.memory}: {accepted} answers are kept. {lists}")


class _Terminal:
    """Somebody who answers at a terminal."""

    def __init__(self) -> None:
        self._category = ""
        show("Every question can be skipped by Enter; b goes back; Ctrl-C ends, and keeps what was answered.")

    def answer(self, question: Question) -> str:
        from epic_learn.onboarding import BACK

        if question.category != self._category:
            self._category = question.category
            show(f"\n{question.category}")
        answer = input(f"  {question.text}\n  > ")
        return BACK if answer.strip() == "b" else answer

    def decide(self, proposal: Proposal) -> bool | str:
        show(f"    {_told(proposal)}")
        answer = input("    keep it? [Y]es, [n]o, or in other words: ").strip()
        return True if answer.casefold() in ("", "y", "yes") else False if answer.casefold() in ("n", "no") else answer


class _Answers:
    """Answers that a file holds, all of which are meant."""

    def __init__(self, file: str, *, shown: bool) -> None:
        from epic_learn.onboarding import QUESTIONS

        try:
            answers = json.loads(Path(file).read_text(encoding="utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"{file} is no JSON: {error}.") from None
        known = {question.id for question in QUESTIONS}
        if not isinstance(answers, dict) or not all(isinstance(each, str) for each in answers.values()):
            raise InvalidInputError('Answers are an object of texts: {"work": "I am a nurse."}')
        if unknown := sorted(answers.keys() - known):
            raise InvalidInputError(f"There is no question {unknown[0]!r}. There are: {', '.join(sorted(known))}.")
        self._answers: dict[str, str] = answers
        self._shown = shown

    def answer(self, question: Question) -> str:
        return self._answers.get(question.id, "")

    def decide(self, proposal: Proposal) -> bool:
        if self._shown:
            show(_told(proposal))
        return True


def _told(proposal: Proposal) -> str:
    """Return a proposal on one line; a preference with what it likes and avoids."""
    from epic_memory.preferences.parser import parse_aspects

    likes = f"   ({parse_aspects(proposal.text)})" if proposal.about_preference and proposal.text else ""
    return f"{proposal}{likes}"


def _lines(proposal: Proposal) -> str:
    from epic_learn.origins import written_by

    worded = ", worded by an assistant" if written_by(proposal) == "assistant" else ""
    return f"{proposal.id[:8]}  {proposal}\n          {proposal.origin}{worded}"


def proposals(
    file: InFile,
    model: Model,
    action: Annotated[Literal["list", "accept", "reject"], Argument(help="what to do")] = "list",
    ids: Annotated[list[str], Argument(metavar="ID...", help="the beginning of an id, or all")] = [],  # noqa: B006
    text: Annotated[str | None, Option(help="accept one in these words")] = None,
) -> None:
    """List what is proposed; accept or reject it."""
    with file.open(model) as memory:
        if action == "list":
            waiting = list(memory.proposals)
            file.show(waiting, *map(_lines, waiting), f"{len(waiting)} proposals wait for a decision.")
            return
        chosen = _chosen(memory, ids)
        if text is not None and (action != "accept" or len(chosen) != 1):
            raise InvalidInputError("--text is the wording of one proposal that is accepted.")
        for proposal in chosen:
            if action == "reject":
                memory.proposals.reject(proposal)
                continue
            for warning in memory.proposals.accept(proposal, text).warnings:
                warn(warning)
        file.show(chosen, *(f"{action}ed  {proposal}" for proposal in chosen))


def _chosen(memory: EpicMemory, ids: Sequence[str]) -> list[Proposal]:
    """Return the open proposals whose ids begin like those given."""
    waiting = list(memory.proposals)
    chosen: dict[str, Proposal] = {}
    for begin in ids:
        found = [each for each in waiting if begin == "all" or each.id.startswith(begin)]
        if not found or (len(found) > 1 and begin != "all"):
            raise InvalidInputError(f"{len(found)} open proposals have an id that begins with {begin!r}.")
        chosen |= {each.id: each for each in found}
    if not ids:
        raise InvalidInputError("Say which: the beginnings of their ids, or all.")
    return list(chosen.values())


def note(
    file: InFile,
    model: Model,
    texts: Annotated[
        list[str],
        Argument(metavar="TEXT...", help='a short statement, such as "I work night shifts"; - reads lines of them'),
    ],
    until: Annotated[
        str | None, Option(metavar="TIME", help="when it stops to hold, like 2027-03-31T12:00:00+01:00")
    ] = None,
) -> None:
    """Add facts of the user, and show what each one changed."""
    from epic_apps.cli.readers.base import standard_input

    given = [line for text in texts for line in (standard_input().splitlines() if text == "-" else [text])]
    with file.open(model) as memory:
        reports = [memory.facts.add(line, expires_at=until) for line in given if line or "-" not in texts]
    for warning in dict.fromkeys(warning for report in reports for warning in report.warnings):
        warn(warning)
    edits = [edit for report in reports for edit in report.edits]
    file.show(
        edits, *(str(edit) + (f"  (epic facts {file.memory} --undo {edit.id})" if edit.id else "") for edit in edits)
    )


def facts(
    file: InFile,
    history: Annotated[
        bool, Option("--history", help="show the last edits with their numbers, and the ids of the facts")
    ] = False,
    undo: Annotated[int | None, Option(metavar="NUMBER", help="take an edit back")] = None,
) -> None:
    """List the facts of the user, or undo an edit; `epic forget` takes their ids."""
    with file.open() as memory:
        undone = None if undo is None else memory.facts.undo(undo)
        held, edits = list(memory.facts), memory.facts.edits() if history else []
    rows = [(fact.id, fact.text, _beside(fact)) for fact in held]
    file.show(
        {"facts": held, **({"history": edits} if history else {})},
        *([] if undone is None else [f"undone: {undone}"]),
        table(("id", "fact", ""), rows) if rows else "No facts of the user are held.",
        *(f"{edit.id:>6}  {edit}  [{', '.join(_ids(edit))}]" for edit in edits),
    )


def _beside(fact: Item) -> str:
    """Return until when a fact holds, when it was said, and whether an assistant has worded it."""
    until = "" if fact.expires_at is None else f"until {fact.expires_at.isoformat()}"
    worded = "worded by an assistant" if fact.metadata.get("origin") == "assistant" else ""
    return ", ".join(filter(None, (until, str(fact.metadata.get("said", "")), worded)))


def _ids(edit: Edit) -> list[str]:
    """Return the ids of a new fact and of the one it replaced or ended, each of which can be forgotten."""
    return list(dict.fromkeys(item.id for item in (edit.item, edit.old) if item is not None))


def fill(
    file: InFile,
    form: Annotated[
        str, Argument(metavar="FORM", help='JSON: {"fields": [{"name": ..., "question": ..., "type": ...}]}')
    ],
) -> None:
    """Fill in a form from what is held, each value with its memory; --json prints what a program reads."""
    from epic_learn.forms import Form
    from epic_learn.forms import fill as fill_form

    asked = Form.of(form)
    with file.open() as memory:
        filled = fill_form(memory, asked)
    count = sum(each.state == "filled" for each in filled)
    file.show(filled.fields, *map(str, filled), f"{count} of {len(filled.fields)} fields filled in.")


def due(
    file: InFile,
    before: Annotated[
        str | None, Option(metavar="DAY", help="up to which day, like 2027-03-31 (default: 30 days from now)")
    ] = None,
) -> None:
    """List the facts that name a day that is coming up, and what expires by then."""
    from epic_learn.forms import due as due_in

    with file.open() as memory:
        found = due_in(memory, before)
    nothing = "No fact names a day that is coming up, and nothing expires by then."
    file.show(found, *(map(str, found) if found else [nothing]))


COMMANDS = (onboard, proposals, note, facts, fill, due)
