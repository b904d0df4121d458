"""Encoders for workers, one of which kills processes, and a build in a process of its own that is killed by it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from epic_memory.types import FloatArray
from helpers import HashEncoder


class SentEncoder(HashEncoder):
    """One that can be sent to workers."""

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return SentEncoder, ()


class DyingEncoder(HashEncoder):
    """Kills a process, with kill -9, when it encodes a text with a certain word for the first time.

    Args:
        word: The word.
        mark: A file that says that it was done.
        pid: The process; None for the encoder's own.
    """

    def __init__(self, word: str, mark: Path, pid: int | None = None) -> None:
        super().__init__()
        self._word, self._mark, self._pid = word, mark, pid

    def __reduce__(self) -> tuple[type, tuple[str, Path, int | None]]:
        return DyingEncoder, (self._word, self._mark, self._pid)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        if any(self._word in text for text in texts) and not self._mark.exists():
            self._mark.touch()
            os.kill(self._pid or os.getpid(), signal.SIGKILL)
        return super().encode(texts)


if __name__ == "__main__":
    import ray

    from epic_scale import build

    corpus, people, sink, mark = sys.argv[1:]
    ray.init(num_cpus=2, include_dashboard=False)
    encoder = DyingEncoder("t30", Path(mark), os.getpid())
    build(corpus, people, sink, encoder=encoder, batch_size=8)
