"""Options that several commands of the evaluation share, in groups."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Literal

from typer import Argument, Option

from epic_eval.datasets import SETS, Data, read_data
from epic_memory.errors import InvalidInputError, MissingExtraError
from epic_memory.lm import LanguageModel, lm_of
from epic_memory.lm.by_name import NAMES

Seed = Annotated[int, Option()]
K = Annotated[int, Option("-k", help="passages in a context")]
DataFolder = Annotated[str, Argument(metavar="DATA", help="the data folder (docs/data.md)")]
Out = Annotated[str, Option(metavar="FOLDER", help="journals and reports; run again to go on")]
Votes = Annotated[int, Option(help="readings of each check, odd")]
Scenes = Annotated[int, Option(help="of ours, with 5 labelled answers each")]
AnswersBy = Annotated[str, Option(metavar="MODEL", help="whose answers, as in answers.jsonl")]
Named = Annotated[str, Option(metavar="NAME", help="under which name its answers are kept")]
Stage = Literal["answers", "judge"]
"""Kinds of questions to a model elsewhere."""


@dataclass(kw_only=True)
class Model:
    """Options of commands that can ask a language model."""

    llm: Annotated[str | None, Option(metavar="MODEL", help=NAMES)] = None
    llm_url: Annotated[str | None, Option(metavar="URL", help="its server, such as http://localhost:8000/v1")] = None
    concurrency: Annotated[int | None, Option(metavar="N", help="calls at the same time (default 1)")] = None

    def lm(self) -> LanguageModel | None:
        """Return the model that was asked for, if one was."""
        if self.llm is None:
            return None
        key = os.environ.get("EPIC_LLM_KEY") or None
        lm = lm_of(self.llm, url=self.llm_url, api_key=key, concurrency=self.concurrency)
        lm.check()
        return lm

    def needed(self) -> LanguageModel:
        """Return the model; it is an error if none was named."""
        lm = self.lm()
        if lm is None:
            raise InvalidInputError("This asks a language model: say which with --llm. `export-prompts` needs none.")
        return lm


@dataclass(kw_only=True)
class Questions:
    """Options of what is read from the data folder, and who retrieves."""

    data: DataFolder
    out: Out
    sets: Annotated[str, Option(help="which sets, with commas between")] = ",".join(SETS)
    personas: Annotated[int, Option(help="the first ones of each set; 0 for all")] = 3
    questions: Annotated[int, Option(help="of each preference; 0 for all")] = 1
    passages: Annotated[int, Option(help="of the haystack; 0 for all")] = 3000
    encoder: Annotated[str, Option(help="for the arms")] = "static"
    seed: Seed = 0
    k: K = 5

    def read(self) -> Data:
        """Read them."""
        return read_data(
            self.data,
            sets=names_in(self.sets),
            personas=self.personas or None,
            questions=self.questions or None,
            passages=self.passages or None,
            seed=self.seed,
        )


def check_extra() -> None:
    """Check that what arms and plots need is installed, before anything is retrieved, which takes minutes."""
    for package in ("bm25s", "matplotlib"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "eval")


def names_in(listed: str) -> list[str]:
    """Return the names in a list with commas between."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def say(line: str) -> None:
    """Print progress."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def show(text: str) -> None:
    """Print a result."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
