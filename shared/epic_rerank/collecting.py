"""Collection of a log to train a reranker on, lists of candidates with their rewards, and evaluation on it.

Asking the scorer is the whole cost. Each score is appended to the log at once, so that a collection that was stopped
goes on where it ended and scores nothing twice. The log holds ids, features and numbers, no texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from epic_memory.errors import InvalidInputError
from epic_memory.lm.base import Message
from epic_memory.runtime.streaming import completed
from epic_memory.types.digests import digest
from epic_rerank.features import NAMES
from epic_rerank.policy import Floats, log_probability, sample
from epic_rerank.reranker import LearnedReranker
from epic_rerank.scoring import Scorer
from epic_rerank.training import Example, prior

_ASKED = "Answer the question with the help of these notes.\n\n{notes}\n\nQuestion: {question}"
_RESAMPLES = 10_000
_BEGINNINGS = (b'{"kind": "candidates"', b'{"kind": "score"')


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Results of retrieval for a question, in its order: ids, texts for the prompt, and `features.features_of` them."""

    ids: Sequence[str]
    texts: Sequence[str]
    features: Any


def prompt(question: str, texts: Sequence[str]) -> list[Message]:
    """Return the messages that a model is scored with: the notes in order, and the question."""
    notes = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))
    return [Message("user", _ASKED.format(notes=notes, question=question))]


def collect(
    questions: Sequence[tuple[str, str]],
    find: Callable[[str], Candidates],
    scorer: Scorer,
    log: Path,
    *,
    lists: int = 16,
    k: int = 5,
    on_scored: Callable[[int], object] = lambda _: None,
) -> int:
    """Score lists of candidates for questions with a reference each; return how many were scored now.

    Args:
        questions: Pairs of a question and the answer that the user wrote or accepted.
        find: Returns the candidates of a question.
        scorer: Scores a reference after a prompt.
        log: Lines of JSON; what it holds is not scored again.
        lists: How many lists are tried for a question (M): the order of retrieval, and others drawn from it.
        k: How many candidates a list has (K).
        on_scored: Told how many lists are done, from earlier runs too.

    Raises:
        LMError: from the scorer; what was scored before is in the log.
    """
    known = {key: seen for key, seen, _ in _lines(log)} if log.exists() else {}
    scored_before = {key: {tuple(each["list"]) for each in entries} for key, entries in known.items()}
    done = made = 0
    workers = int(getattr(scorer, "concurrency", 1))
    _drop_half_line(log)
    with log.open("a", encoding="utf-8") as out:
        for question, reference in questions:
            found = find(question)
            n = min(k, len(found.ids))
            if n < 2:
                continue
            key = digest(scorer.name, question, reference, *found.ids, size=8).hex()
            generator = np.random.default_rng(int(key, 16))
            drawn = np.concatenate([np.arange(n)[None], sample(prior(len(found.ids)), n, lists - 1, generator)])
            if key not in known:
                head = {"key": key, "ids": list(found.ids), "features": np.round(found.features, 4).tolist()}
                _write(out, {"kind": "candidates", "names": list(NAMES), "scorer": scorer.name, **head})
            tried = scored_before.setdefault(key, set())
            left = [chosen for chosen in dict.fromkeys(map(tuple, drawn.tolist())) if chosen not in tried]
            done += len(drawn) - len(left)
            on_scored(done)
            for chosen, value in completed(partial(_scored, scorer, question, reference, found.texts), left, workers):
                chance = float(log_probability(prior(len(found.ids)), np.array([chosen]))[0])
                _write(out, {"kind": "score", "key": key, "list": chosen, "value": value, "drawn": chance})
                tried.add(chosen)
                made += 1
                done += 1
                on_scored(done)
    return made


def _scored(
    scorer: Scorer, question: str, reference: str, texts: Sequence[str], chosen: tuple[int, ...], _: object
) -> tuple[tuple[int, ...], float]:
    return chosen, scorer.score(prompt(question, [texts[place] for place in chosen]), reference)


def _write(out: Any, line: dict[str, Any]) -> None:
    out.write(json.dumps(line) + "\n")
    out.flush()


def _drop_half_line(log: Path) -> None:
    """Remove what a killed collection left of its last line, and nothing else."""
    if log.exists() and (content := log.read_bytes()) and not content.endswith(b"\n"):
        whole, half = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
        if not any(half.startswith(begin) or begin.startswith(half) for begin in _BEGINNINGS):
            raise InvalidInputError(f"{log} is no log of epic rerank collect. Give another name.")
        log.write_bytes(whole)


def _lines(log: Path) -> Iterator[tuple[str, list[Any], Any]]:
    """Yield each question of a log: its key, its scores, and its candidates."""
    heads: dict[str, Any] = {}
    scores: dict[str, list[Any]] = {}
    content = log.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            value = json.loads(line)
            if value["kind"] == "candidates":
                heads[value["key"]] = value
                scores.setdefault(value["key"], [])
            else:
                scores[value["key"]].append({name: value[name] for name in ("list", "value", "drawn")})
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InvalidInputError(f"{log}, line {number} is no line of a log of epic rerank collect.") from None
    for key, head in heads.items():
        yield key, scores[key], head


def read_log(log: Path) -> list[Example]:
    """Return the examples of a log.

    Raises:
        InvalidInputError: for another file, or a log of other features.
    """
    made = []
    for _, scores, head in _lines(log):
        if head.get("names") != list(NAMES):
            raise InvalidInputError(f"{log} was collected with other features. Collect it again.")
        if len(scores) > 1:
            made.append(
                Example(
                    features=np.array(head["features"], dtype=np.float64),
                    lists=np.array([each["list"] for each in scores]),
                    rewards=np.array([each["value"] for each in scores], dtype=np.float64),
                    drawn=np.array([each["drawn"] for each in scores], dtype=np.float64),
                )
            )
    return made


def expected_reward(example: Example, scores: Floats) -> float:
    """Return the reward that a policy expects, by self-normalised importance weights, in standard deviations."""
    spread = float(example.rewards.std())
    logs = log_probability(scores, example.lists) - example.drawn
    weights = np.exp(logs - logs.max())
    return float(weights @ (example.rewards - example.rewards.mean()) / weights.sum() / spread)


def compared(reranker: LearnedReranker, examples: Sequence[Example]) -> tuple[Floats, tuple[float, float]]:
    """Return the gain over retrieval on each question whose lists differ, `(n,)`, and a 95 % interval of its mean."""
    told = [example for example in examples if float(example.rewards.std()) > 1e-9]
    if not told:
        raise InvalidInputError("The log has no question whose lists differ in reward.")
    gains = np.array(
        [
            expected_reward(example, reranker.scores(example.features))
            - expected_reward(example, prior(len(example.features)))
            for example in told
        ]
    )
    rows = np.random.default_rng(0).integers(len(gains), size=(_RESAMPLES, len(gains)))
    low, high = np.percentile(gains[rows].mean(axis=1), [2.5, 97.5])
    return gains, (float(low), float(high))
