"""Collection of a log to train a reranker on, also one that is stopped in the middle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.errors import InvalidInputError, LMError
from epic_memory.lm import Message
from epic_rerank import LearnedReranker, forget, reranker_of, set_reranker
from epic_rerank.collecting import collect, compared, read_log
from scripted import until

ASKED = [(f"My {what}?", "Rye.") for what in ("oven", "dough")]


class Scoring:
    """A scorer that likes a note about bread in front, and fails from a number of scores on."""

    def __init__(self, fails_at: int = 10**6, concurrency: int = 1) -> None:
        self.name, self.concurrency, self.calls, self.fails_at = "bread", concurrency, 0, fails_at
        self.together = self.most = 0
        self._lock = Lock()

    def score(self, messages: Sequence[Message], reference: str) -> float:
        with self._lock:
            self.calls, self.together = self.calls + 1, self.together + 1
            number, self.most = self.calls, max(self.most, self.together)
        until(lambda: self.most >= min(self.concurrency, 2))
        with self._lock:
            self.together -= 1
        if number >= self.fails_at:
            raise LMError("no more")
        return -1.0 if "bread" in messages[0].content.split("[2]")[0] else -5.0


@pytest.fixture
def memory() -> EpicMemory:
    made = EpicMemory(["I like baking."], settings=Settings(coarse=False, fine=False))
    made.add([f"A note on {what}, number {n}." for n in range(2) for what in ("bread", "cake", "trains", "tea")])
    return made


def scores(log: Path) -> list[tuple[str, tuple[int, ...]]]:
    lines = map(json.loads, log.read_text().splitlines())
    return [(line["key"], tuple(line["list"])) for line in lines if line["kind"] == "score"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_was_scored_before_a_failure_is_kept_and_nothing_is_scored_twice(
    memory: EpicMemory, tmp_path: Path, concurrency: int
) -> None:
    log = tmp_path / "log.jsonl"
    with pytest.raises(LMError):
        collect(memory, ASKED, Scoring(9, concurrency), log, lists=12, k=3)
    whole = log.read_text()
    log.write_text(whole + '{"kind": "sco')  # killed in the middle of a line
    again = Scoring(concurrency=concurrency)
    before = whole.count('"kind": "score"')
    assert collect(memory, ASKED, again, log, lists=12, k=3) == again.calls == len(scores(log)) - before
    assert log.read_text().startswith(whole) and before > 4 and "note" not in whole
    assert len(set(scores(log))) == len(scores(log)) and min(concurrency, 2) <= again.most <= concurrency
    assert collect(memory, ASKED, again, log, lists=12, k=3) == 0


def test_a_log_trains_a_reranker_and_measures_it(memory: EpicMemory, tmp_path: Path) -> None:
    collect(memory, ASKED, Scoring(), log := tmp_path / "log.jsonl", lists=12, k=3)
    examples = read_log(log)
    set_reranker(memory, LearnedReranker(encoder=memory.encoder.fingerprint).train(examples))
    gains, (low, high) = compared(reranker_of(memory), examples)
    assert len(gains) == 2 and low <= gains.mean() <= high and gains.mean() > 0
    assert forget(memory) and not reranker_of(memory).is_trained
    with pytest.raises(InvalidInputError, match="no question"):
        compared(reranker_of(memory), [])


@pytest.mark.parametrize("content", [b"My only notes, on one line", b"{", b'{"kind": "other"}', b"\xff\n", b"[]\n"])
def test_no_other_file_is_written_over_or_read(memory: EpicMemory, tmp_path: Path, content: bytes) -> None:
    (mine := tmp_path / "mine.txt").write_bytes(content)
    if content == b"{":  # what is left of a line of a log is dropped; this could be one
        assert collect(memory, ASKED, Scoring(), mine, lists=3)
        return
    with pytest.raises(InvalidInputError):
        collect(memory, ASKED, Scoring(), mine)
        read_log(mine)
    assert mine.read_bytes() == content
