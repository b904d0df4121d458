"""Callbacks of LangChain that remember every run that they are told of."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler


class Run:
    """What was reported of one run."""

    def __init__(self, kind: str, run_id: UUID, parent: UUID | None, given: Any, more: dict[str, Any]) -> None:
        self.kind = kind
        self.id = run_id
        self.parent = parent
        self.given = given
        self.name = more.get("name")
        self.tags = set(more.get("tags") or ())
        self.metadata = more.get("metadata") or {}
        self.found: Any = None
        self.error: BaseException | None = None


class Runs(BaseCallbackHandler):
    """Remembers every run of a chain, a retriever or a model."""

    raise_error = True

    def __init__(self) -> None:
        self.all: dict[UUID, Run] = {}

    def _start(self, kind: str, given: Any, run_id: UUID, parent_run_id: UUID | None = None, **more: Any) -> None:
        assert run_id not in self.all
        self.all[run_id] = Run(kind, run_id, parent_run_id, given, more)

    def on_chain_start(self, serialized: Any, inputs: Any, **more: Any) -> None:
        self._start("chain", inputs, **more)

    def on_retriever_start(self, serialized: Any, query: Any, **more: Any) -> None:
        self._start("retriever", query, **more)

    def on_chat_model_start(self, serialized: Any, messages: Any, **more: Any) -> None:
        self._start("model", messages, **more)

    def _end(self, found: Any, *, run_id: UUID, **more: Any) -> None:
        self.all[run_id].found = found

    on_chain_end = on_retriever_end = on_llm_end = _end

    def _error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self.all[run_id].error = error

    on_chain_error = on_retriever_error = on_llm_error = _error

    def named(self, name: str) -> list[Run]:
        return [run for run in self.all.values() if run.name == name]

    def one(self, name: str) -> Run:
        (run,) = self.named(name)
        return run

    def of_kind(self, kind: str) -> list[Run]:
        return [run for run in self.all.values() if run.kind == kind]

    def above(self, run: Run) -> list[Run]:
        """The runs a run is in, the nearest first."""
        found: list[Run] = []
        while run.parent is not None:
            run = self.all[run.parent]
            found.append(run)
        return found

    @property
    def models(self) -> list[Run]:
        return self.of_kind("model")
