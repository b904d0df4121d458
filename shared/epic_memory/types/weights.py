"""Weights of a stage: the numbers that rank, steer or weigh evidence, kept as data beside what chose them.

Each stage declares its numbers as a frozen dataclass. Their values are in `data/weights/*.json` of the stage's package:
under "weights" the values, under "chosen" for each of them the script and the data that chose it, or "hand" and a
reason, under "judged" the figures on data that had no part in the choice and the command that prints them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

W = TypeVar("W", bound="StageWeights")
_in_use: dict[type[StageWeights], Any] = {}


class StageWeights:
    """Base of the weights of a stage, which are frozen, keyword-only dataclasses."""

    @classmethod
    def path(cls) -> Path:
        """Return the JSON file, which is called as the class is: that of `FactWeights` is `fact.json`."""
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Weights")).lower()
        return Path(str(files(cls.__module__.partition(".")[0]))) / "data" / "weights" / f"{name}.json"

    @classmethod
    def record(cls) -> dict[str, Any]:
        """Return what the JSON file says: the weights, what chose them, and on what they were judged."""
        read: dict[str, Any] = json.loads(cls.path().read_text(encoding="utf-8"))
        return read

    @classmethod
    def shipped(cls: type[W]) -> W:
        """Return the weights in use, read once for each process."""
        found: W | None = _in_use.get(cls)
        if found is None:
            values = cls.record()["weights"]
            found = _in_use[cls] = cls(
                **{key: tuple(one) if isinstance(one, list) else one for key, one in values.items()}
            )
        return found


@contextmanager
def used(*weights: StageWeights) -> Iterator[None]:
    """Use other weights within a block, for scripts that choose or judge them; what is computed already stays."""
    before = [type(one).shipped() for one in weights]
    _in_use.update({type(one): one for one in weights})
    try:
        yield
    finally:
        _in_use.update({type(one): one for one in before})
