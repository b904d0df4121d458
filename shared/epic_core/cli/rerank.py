"""Commands that train a reranker: rerank collect, train, eval, forget."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epic_core.cli.options import add_command, asked_model, open_memory, show
from epic_core.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_core.lm import Scorer


def add_commands(commands: Any) -> None:
    """Add the commands."""
    rerank = commands.add_parser("rerank", help="train what orders the results of a search")
    actions = rerank.add_subparsers(required=True, metavar="ACTION")
    collect = add_command(actions, "collect", _collect, "score lists of results by a model, into a log")
    collect.add_argument("questions", metavar="QUESTIONS", help='lines of JSON: {"question": ..., "reference": ...}')
    collect.add_argument(
        "--scorer",
        required=True,
        metavar="MODEL",
        help="openai/MODEL (vLLM), llamacpp/FILE.gguf, or any with --metric",
    )
    collect.add_argument("--metric", action="store_true", help="let the model answer, and compare words")
    collect.add_argument("--llm-url", metavar="URL", help="its server")
    collect.add_argument("--timeout", type=float, metavar="S", help="seconds for an answer (default 120)")
    collect.add_argument("--concurrency", type=int, metavar="N", help="calls at the same time (default 1)")
    collect.add_argument("--lists", type=int, default=16, help="lists tried for a question (default 16)")
    collect.add_argument("-k", type=int, default=5, help="results in a list (default 5)")
    collect.add_argument("--out", required=True, metavar="LOG", help="the log; an interrupted one is continued")

    train = add_command(actions, "train", _train, "train on a log, and keep the reranker in the memory")
    train.add_argument("log", metavar="LOG", help="what collect wrote")
    train.add_argument("--out", metavar="FILE", help="write it into this file instead of the memory")

    evaluate = add_command(actions, "eval", _eval, "compare the memory's reranker with retrieval on a log")
    evaluate.add_argument("log", metavar="LOG", help="a log of questions that it was not trained on")
    evaluate.add_argument("--reranker", metavar="FILE", help="a reranker in a file instead of the memory's")

    add_command(actions, "forget", _forget, "forget what was learnt by training and of feedback")


def _collect(options: argparse.Namespace) -> None:
    import json

    from epic_core.reranking.collecting import Candidates, collect
    from epic_core.reranking.reranker import CANDIDATES

    questions = []
    for number, line in enumerate(Path(options.questions).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            value = json.loads(line)
            questions.append((str(value["question"]), str(value["reference"])))
        except (ValueError, KeyError, TypeError):
            raise InvalidInputError(
                f'{options.questions}, line {number} is not {{"question": "...", "reference": "..."}}.'
            ) from None
    if options.lists < 2 or options.k < 1:
        raise InvalidInputError("--lists must be at least 2, and -k at least 1.")
    scorer = _scorer(options)
    with open_memory(options) as memory:

        def find(question: str) -> Candidates:
            hits = memory.search(question, CANDIDATES, reranker=True, min_score=None)
            if hits.ranking is None:
                return Candidates(ids=[], texts=[], features=[])
            # What was learnt before must not change what is tried.
            places = sorted(range(len(hits)), key=lambda place: hits.ranking.order[place])  # type: ignore[union-attr]
            return Candidates(
                ids=[hits[place].item.id for place in places],
                texts=[hits[place].text for place in places],
                features=hits.ranking.features,
            )

        total = len(questions) * options.lists
        from tqdm import tqdm

        with tqdm(total=total, unit=" lists") as bar:
            made = collect(
                questions,
                find,
                scorer,
                Path(options.out),
                lists=options.lists,
                k=options.k,
                on_scored=lambda done: bar.update(done - bar.n),
            )
    show(f"{options.out}: {made} lists were scored.")


def _scorer(options: argparse.Namespace) -> Scorer:
    from epic_core.lm import LlamaCppScorer, MetricScorer, OpenAICompatibleLM, VllmScorer

    kind, _, path = options.scorer.partition("/")
    if kind == "llamacpp" and not options.metric:
        return LlamaCppScorer(path)
    lm = asked_model(options.scorer, options)
    if options.metric:
        return MetricScorer(lm)
    if not isinstance(lm, OpenAICompatibleLM):
        raise InvalidInputError(f"{options.scorer} gives no log-probabilities of a prompt. Add --metric.")
    return VllmScorer(lm)


def _train(options: argparse.Namespace) -> None:
    from epic_core.reranking.collecting import read_log
    from epic_core.reranking.reranker import LearnedReranker

    examples = read_log(Path(options.log))
    with open_memory(options) as memory:
        told = {"questions": len(examples), "lists": sum(len(example.lists) for example in examples)}
        fresh = LearnedReranker(encoder=memory.encoder.fingerprint, trained_on=told)
        reranker = fresh.train(examples)
        if options.out:
            reranker.save(options.out)
        else:
            memory.reranker = reranker
    show(f"{options.out or options.memory}: trained on {told['questions']} questions with {told['lists']} lists.")


def _eval(options: argparse.Namespace) -> None:
    from epic_core.reranking.collecting import read_log
    from epic_core.reranking.evaluation import compared
    from epic_core.reranking.reranker import LearnedReranker

    examples = read_log(Path(options.log))
    with open_memory(options) as memory:
        reranker = memory.reranker
        if options.reranker:
            reranker = LearnedReranker.load(options.reranker, encoder=memory.encoder.fingerprint)
    gains, (low, high) = compared(reranker, examples)
    show(
        f"{len(gains)} questions: expected reward {gains.mean():+.4f} [{low:+.4f}, {high:+.4f}] against retrieval"
        " (in standard deviations of a question's rewards, 95 % interval)."
    )


def _forget(options: argparse.Namespace) -> None:
    with open_memory(options) as memory:
        show("What was learnt is forgotten." if memory.forget_learnt() else "Nothing had been learnt.")
