"""Commands that learn from what is said: onboard, learn, proposals."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epic_core.cli.options import add_command, asked_model, show
from epic_core.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_core.learning.onboarding import Question
    from epic_core.memory import EpicMemory
    from epic_core.types.proposals import Proposal


def add_commands(commands: Any) -> None:
    """Add the commands."""
    onboard = add_command(commands, "onboard", _onboard, "answer questions, each of them optional; makes a new memory")
    onboard.add_argument(
        "--answers", metavar="FILE", help="answers by the ids of the questions, as JSON; accepted as given"
    )
    onboard.add_argument("--questions", metavar="FILE", help="your own questions, as JSON")

    learn = add_command(commands, "learn", _learn, "read a chat for what it says of the user, as proposals")
    learn.add_argument("chat", metavar="CHAT", help="a chat log: .json (an export, too), .jsonl or .txt")
    learn.add_argument("--user", action="append", default=[], metavar="NAME", help="a speaker who is the user")
    learn.add_argument(
        "--auto", type=float, metavar="CONFIDENCE", help="accept additions from this confidence on, as 0.9"
    )
    learn.add_argument("--llm", metavar="MODEL", help="a language model that reads the chat, too: ollama/MODEL")
    learn.add_argument("--llm-url", metavar="URL", help="its server")
    learn.add_argument("--timeout", type=float, metavar="S", help="seconds for an answer (default 120)")
    learn.add_argument("--concurrency", type=int, metavar="N", help="calls at the same time (default 1)")

    proposals = add_command(commands, "proposals", _proposals, "list what is proposed; accept or reject it")
    proposals.add_argument("action", nargs="?", choices=("list", "accept", "reject"), default="list")
    proposals.add_argument("id", nargs="*", metavar="ID", help="the beginning of an id, or all")
    proposals.add_argument("--text", help="accept one in these words")


def _opened(options: argparse.Namespace) -> EpicMemory:
    from epic_core.memory import EpicMemory

    return EpicMemory.open(options.memory, encoder=options.encoder, namespace=options.namespace)


def _read_json(name: str) -> Any:
    try:
        return json.loads(Path(name).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name} is no JSON: {error}.") from None


def _onboard(options: argparse.Namespace) -> None:
    from epic_core.learning.onboarding import QUESTIONS, Onboarding, Question, read_questions, send

    questions = QUESTIONS if options.questions is None else read_questions(_read_json(options.questions))
    reply = _Terminal() if options.answers is None else _Answers(_read_json(options.answers), questions)
    with _opened(options) as memory:
        asking = Onboarding(questions).start(memory)
        step, accepted = next(asking, None), 0
        try:
            while step is not None:
                answer = reply.answer(step) if isinstance(step, Question) else reply.decide(step)
                accepted += not isinstance(step, Question) and bool(answer)
                step = send(asking, answer)
        except EOFError:
            show("")
        show(
            f"{options.memory}: {accepted} answers are kept. epic preferences {options.memory} list shows preferences."
        )


class _Terminal:
    """Somebody who answers at a terminal."""

    def __init__(self) -> None:
        self._category = ""
        show("Every question can be skipped by Enter; b goes back; Ctrl-C ends, and keeps what was answered.")

    def answer(self, question: Question) -> str:
        from epic_core.learning.onboarding import BACK

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

    def __init__(self, answers: Any, questions: Sequence[Question]) -> None:
        known = {question.id for question in questions}
        if not isinstance(answers, dict) or not all(isinstance(each, str) for each in answers.values()):
            raise InvalidInputError('Answers are an object of texts: {"work": "I am a nurse."}')
        if unknown := sorted(answers.keys() - known):
            raise InvalidInputError(f"There is no question {unknown[0]!r}. There are: {', '.join(sorted(known))}.")
        self._answers: dict[str, str] = answers

    def answer(self, question: Question) -> str:
        return self._answers.get(question.id, "")

    def decide(self, proposal: Proposal) -> bool:
        show(_told(proposal))
        return True


def _told(proposal: Proposal) -> str:
    """Return a proposal on one line; a preference with what it likes and avoids."""
    from epic_core.preferences.parser import parse_aspects

    likes = f"   ({parse_aspects(proposal.text)})" if proposal.about_preference and proposal.text else ""
    return f"{proposal}{likes}"


def _learn(options: argparse.Namespace) -> None:
    from epic_core.cli.sources import read_messages

    messages = read_messages(options.chat)
    lm = None if options.llm is None else asked_model(options.llm, options)
    with _opened(options) as memory:
        made = memory.propose(messages, lm, options.auto, user=options.user)
        _list(made)
        for proposal in made.report.accepted:
            show(f"accepted  {proposal}\n          {proposal.quote!r}")
        show(made.report)
        if made:
            show(f"Nothing of this is in force yet: epic proposals {options.memory} accept ID ...")


def _list(proposals: Sequence[Proposal]) -> None:
    for proposal in proposals:
        show(f"{proposal.id[:8]}  {proposal}\n          {' '.join(proposal.quote.split())!r}, turn {proposal.turn}")


def _proposals(options: argparse.Namespace) -> None:
    with _opened(options) as memory:
        if options.action == "list":
            _list(memory.proposals())
            show(f"{len(memory.proposals())} proposals wait for a decision.")
            return
        chosen = _chosen(memory, options.id)
        if options.text is not None and (options.action != "accept" or len(chosen) != 1):
            raise InvalidInputError("--text is the wording of one proposal that is accepted.")
        decide: Callable[[Proposal], object] = memory.reject
        if options.action == "accept":
            decide = lambda proposal: memory.accept(proposal, options.text)  # noqa: E731
        for proposal in chosen:
            decide(proposal)
            show(f"{options.action}ed  {proposal}")


def _chosen(memory: EpicMemory, ids: Sequence[str]) -> list[Proposal]:
    """Return the open proposals whose ids begin like those given."""
    waiting = memory.proposals()
    chosen: dict[str, Proposal] = {}
    for begin in ids:
        found = [each for each in waiting if begin == "all" or each.id.startswith(begin)]
        if not found or (len(found) > 1 and begin != "all"):
            raise InvalidInputError(f"{len(found)} open proposals have an id that begins with {begin!r}.")
        chosen |= {each.id: each for each in found}
    if not ids:
        raise InvalidInputError("Say which: the beginnings of their ids, or all.")
    return list(chosen.values())
