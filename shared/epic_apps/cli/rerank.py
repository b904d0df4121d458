"""Commands that train a reranker: rerank collect, train, eval, forget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from epic_apps.cli.options import InFile, Server, command, new_app
from epic_memory.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_rerank.scoring import Scorer

app = new_app(help="Train what orders the results of a search.")


@command(app)
def _collect(
    file: InFile,
    server: Server,
    asked: Annotated[str, Argument(metavar="QUESTIONS", help='lines of JSON: {"question": ..., "reference": ...}')],
    scorer: Annotated[str, Option(metavar="MODEL", help="openai:MODEL on vLLM, or any with --metric")],
    out: Annotated[str, Option(metavar="LOG", help="the log; an interrupted one is continued")],
    metric: Annotated[bool, Option("--metric", help="let the model answer, and compare words")] = False,
    lists: Annotated[int, Option(min=2, help="lists tried for a question")] = 16,
    k: Annotated[int, Option("-k", min=1, help="results in a list")] = 5,
) -> None:
    """Score lists of results by a model, into a log."""
    from tqdm import tqdm

    from epic_apps.cli.readers.base import opened
    from epic_apps.cli.sources import read_records
    from epic_memory import SearchOptions
    from epic_rerank import reranker_of
    from epic_rerank.collecting import Candidates, collect
    from epic_rerank.reranker import CANDIDATES

    questions = []
    with opened(Path(asked)) as lines:
        for number, value in read_records(lines, asked):
            if isinstance(value, InvalidInputError):
                raise value
            if not value.keys() >= {"question", "reference"}:
                raise InvalidInputError(f'{asked}, line {number} is not {{"question": "...", "reference": "..."}}.')
            questions.append((str(value["question"]), str(value["reference"])))
    scoring = _scorer(server, scorer, metric=metric)
    with file.open() as memory:

        def find(question: str) -> Candidates:
            options = SearchOptions(chooser=reranker_of(memory), min_score=None)
            hits = memory.search(question, CANDIDATES, options=options)
            if hits.ranking is None:
                return Candidates(ids=[], texts=[], features=[])
            # What was learnt before must not change what is tried.
            places = sorted(range(len(hits)), key=lambda place: hits.ranking.order[place])  # type: ignore[union-attr]
            shown = [hits[place] for place in places]
            return Candidates(
                ids=[hit.item.id for hit in shown], texts=[hit.text for hit in shown], features=hits.ranking.features
            )

        with tqdm(total=len(questions) * lists, unit=" lists") as bar:
            made = collect(
                questions,
                find,
                scoring,
                Path(out),
                lists=lists,
                k=k,
                on_scored=lambda done: bar.update(done - bar.n),
            )
    file.show({"lists": made}, f"{out}: {made} lists were scored.")


def _scorer(server: Server, name: str, *, metric: bool) -> Scorer:
    from epic_memory.lm import OpenAICompatibleLM
    from epic_rerank.scoring import MetricScorer, VllmScorer

    lm = server.model(name)
    if metric:
        return MetricScorer(lm)
    if not isinstance(lm, OpenAICompatibleLM):
        raise InvalidInputError(f"{name} gives no log-probabilities of a prompt. Add --metric.")
    return VllmScorer(lm)


@command(app)
def _train(
    file: InFile,
    log: Annotated[str, Argument(metavar="LOG", help="what collect wrote")],
) -> None:
    """Train on a log, and keep the reranker in the memory."""
    from epic_rerank import LearnedReranker, set_reranker
    from epic_rerank.collecting import read_log

    examples = read_log(Path(log))
    with file.open() as memory:
        told = {"questions": len(examples), "lists": sum(len(example.lists) for example in examples)}
        fresh = LearnedReranker(encoder=memory.encoder.fingerprint, trained_on=told)
        set_reranker(memory, fresh.train(examples))
    file.show(told, f"{file.memory}: trained on {told['questions']} questions with {told['lists']} lists.")


@command(app)
def _eval(
    file: InFile,
    log: Annotated[str, Argument(metavar="LOG", help="a log of questions that it was not trained on")],
) -> None:
    """Compare the memory's reranker with retrieval on a log."""
    from epic_rerank import reranker_of
    from epic_rerank.collecting import compared, read_log

    examples = read_log(Path(log))
    with file.open() as memory:
        gains, (low, high) = compared(reranker_of(memory), examples)
    file.show(
        {"questions": len(gains), "gain": gains.mean(), "low": low, "high": high},
        f"{len(gains)} questions: expected reward {gains.mean():+.4f} [{low:+.4f}, {high:+.4f}] against retrieval"
        " (in standard deviations of a question's rewards, 95 % interval).",
    )


@command(app)
def _forget(file: InFile) -> None:
    """Forget what was learnt by training and of feedback."""
    from epic_rerank import forget

    with file.open() as memory:
        forgot = forget(memory)
    file.show({"forgot": forgot}, "What was learnt is forgotten." if forgot else "Nothing had been learnt.")
