"""Retrieval of every arm for every question, one build for each persona and arm; it goes on where it was left."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epic_eval.arms import Arm, CorpusEncoder, arm_of, asks_model
from epic_eval.arms.base import Retrieved
from epic_eval.asking import JournalledLM, ModelCost
from epic_eval.datasets import Data, Persona, Question
from epic_eval.journal import Journal, Record, key_of
from epic_memory.encoders import Encoder
from epic_memory.lm import LanguageModel

K = 5
DEPTH = 100
Say = Callable[[str], object]


@dataclass(frozen=True)
class Asked:
    """A question with where it is from."""

    set: str
    persona: int
    question: Question
    preferences: tuple[str, ...]

    def key(self, run: str, arm: str) -> str:
        """Return the key of what an arm retrieves for it; a run's key is `Retrieval.run_of`."""
        asked = (self.question.preference, self.question.text)
        return key_of("retrieved", run, self.set, self.persona, asked, self.preferences, arm)


def asked_in(data: Data) -> Iterator[Asked]:
    """Yield all questions of a run, set by set."""
    for dataset in data.datasets:
        for persona in dataset.personas:
            for question in persona.questions:
                yield Asked(dataset.name, persona.index, question, persona.preferences)


def record_of(question: Question, preferences: Sequence[str], found: Retrieved) -> Record:
    """Return what a model answers a question from."""
    return {
        "question": question.text,
        "preference": question.preference,
        "preferences": list(preferences),
        "passages": [passage._asdict() for passage in found.passages],
        "opening": list(found.opening),
    }


def run_key(data: Data, encoder: Encoder, seed: int, k: int = K) -> str:
    """Return the digest of everything that retrieval depends on, besides question, arm and model."""
    return key_of([(item.id, item.text) for item in data.corpus], encoder.name, encoder.fingerprint, seed, k)


class Retrieval:
    """A run of arms over data, with its files in a folder.

    Args:
        data: What is asked of whom.
        encoder: Encodes everything.
        folder: Holds `retrieved.jsonl`, `built.jsonl`, a model's answers to arms (`asked.jsonl`), and what each run is
            (`runs.jsonl`). Runs with other settings lie side by side.
        k: How many passages a context has.
        seed: Of whatever arms draw.
        lm: For arms that ask a language model.
        say: Is told how far it is.
    """

    def __init__(
        self,
        data: Data,
        encoder: Encoder,
        folder: str | Path,
        *,
        k: int = K,
        seed: int = 0,
        lm: LanguageModel | None = None,
        say: Say = lambda line: None,
    ) -> None:
        self.data = data
        self.folder = Path(folder)
        self.k = k
        self.seed = seed
        self.lm = None if lm is None else JournalledLM(lm, Journal(self.folder / "asked.jsonl"))
        self.say = say
        self.run = run_key(data, encoder, seed, k)
        with Journal(self.folder / "runs.jsonl") as runs:
            about = f"{len(data.corpus)} passages, encoder {encoder.name}, k {k}, seed {seed}"
            runs.add(self.run, {"run": self.run, "about": about})
        self.retrieved = Journal(self.folder / "retrieved.jsonl")
        self.built = Journal(self.folder / "built.jsonl")
        self._raw = encoder
        self._encoder: Encoder | None = None

    @property
    def encoder(self) -> Encoder:
        """The encoder with the corpus's embeddings, made when first needed."""
        if self._encoder is None:
            made = CorpusEncoder(self._raw, [item.text for item in self.data.corpus])
            self._encoder = made
            if (key := key_of("corpus", self.run)) not in self.built:
                self.built.add(key, {"run": self.run, "arm": "", "seconds": {"embedding": made.seconds}})
        return self._encoder

    def run_of(self, arm: str) -> str:
        """Return the key of the run of an arm: one that asks a model has one for each model."""
        return key_of(self.run, self.lm.name) if self.lm is not None and asks_model(arm) else self.run

    def ask(self, names: Sequence[str]) -> None:
        """Have arms answer all questions that they have not answered yet."""
        for name in names:
            started, run = time.perf_counter(), self.run_of(name)
            missing = [each for each in asked_in(self.data) if each.key(run, name) not in self.retrieved]
            if missing:
                self._ask(name, missing)
                self.say(f"{name}: {len(missing)} questions, {time.perf_counter() - started:.0f} s")

    def _ask(self, name: str, missing: Sequence[Asked]) -> None:
        by_persona: dict[tuple[str, ...], list[Asked]] = {}
        for asked in missing:
            by_persona.setdefault(asked.preferences, []).append(asked)
        arm = arm_of(name, self.encoder, seed=self.seed, lm=self.lm)
        with ExitStack() as built:
            for number, (preferences, asking) in enumerate(by_persona.items()):
                if number == 0 or arm.personal:
                    built.close()
                    folder = Path(tempfile.mkdtemp(prefix="epic-eval-"))
                    built.callback(shutil.rmtree, folder, ignore_errors=True)
                    self._model_cost()
                    cost = dataclasses.asdict(arm.build(self.data.corpus, preferences, folder))
                    built.callback(arm.close)
                    model = self._model_cost()
                    if model.asked + model.replayed:
                        cost["seconds"]["model"], cost["model"] = model.seconds, dataclasses.asdict(model)
                arm.prefer(preferences)
                if (key := self.built_key(name, preferences)) not in self.built:
                    self.built.add(key, {"run": self.run, "arm": name, "bytes": arm.bytes(), **cost})
                for asked in asking:
                    self._retrieve(arm, name, asked)

    def _model_cost(self) -> ModelCost:
        """Return what the model's calls since the last time took."""
        return ModelCost() if self.lm is None else self.lm.take_cost()

    def built_key(self, arm: str, preferences: Sequence[str]) -> str:
        """Return the key of what an arm built for a persona."""
        return key_of("built", self.run_of(arm), arm, list(preferences))

    def _retrieve(self, arm: Arm, name: str, asked: Asked) -> None:
        question = asked.question
        self._model_cost()
        found = arm.retrieve(question.text, self.k)
        model = self._model_cost()
        known = question.preference in self.data.cases or any(self.data.labels.get(question.preference, {}).values())
        deep = arm.retrieve(question.text, DEPTH).passages if known else found.passages
        self.retrieved.add(
            asked.key(self.run_of(name), name),
            {
                "run": self.run,
                "lm": self.lm.name if self.lm is not None and asks_model(name) else None,
                "set": asked.set,
                "persona": asked.persona,
                "arm": name,
                **record_of(question, asked.preferences, found),
                "order": [passage.id for passage in deep],
                "encoding": found.encoding,
                "search": found.search + model.seconds,
                "steering": found.steering,
                "model": dataclasses.asdict(model),
            },
        )

    def results(self, name: str) -> list[tuple[Asked, Record]]:
        """Return the questions that an arm has answered, with what it found."""
        keys = [(asked, asked.key(self.run_of(name), name)) for asked in asked_in(self.data)]
        return [(asked, self.retrieved[key]) for asked, key in keys if key in self.retrieved]

    def builds(self, name: str, personas: Sequence[Persona]) -> list[Record]:
        """Return what an arm built for personas."""
        found: list[Any] = [self.built.get(self.built_key(name, persona.preferences)) for persona in personas]
        return [record for record in found if record is not None]

    def encoding_seconds(self) -> float:
        """Return what encoding the corpus took; nan if it was not needed."""
        record = self.built.get(key_of("corpus", self.run))
        return float("nan") if record is None else float(record["seconds"]["embedding"])

    def close(self) -> None:
        """Close the files."""
        self.retrieved.close()
        self.built.close()
        if self.lm is not None:
            self.lm.journal.close()
