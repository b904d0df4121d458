"""Adapter that puts EPIC in front of HippoRAG 2: a memory decides what enters its graph, and queries are steered.

The memory is the record of what is kept: documents are offered to it (coarse filter, fine verification, retry queue,
ledger, forgetting, budget), and the graph follows it. So a text that comes again costs nothing, undecided documents can
be tried again, and an item that leaves the memory, for whatever reason, leaves the graph.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from epic_graph.extraction.base import Extractor, checked_extractor
from epic_graph.hipporag.instance import HippoEncoder, Instance
from epic_graph.hipporag.openie import HippoExtractor, SafeOpenIE
from epic_graph.hipporag.record import Record, digest_of
from epic_graph.hipporag.report import HippoReport
from epic_memory.context import format_context, format_hit
from epic_memory.errors import InvalidInputError, NoPreferencesError
from epic_memory.lm.failures import kind_of
from epic_memory.memory import EpicMemory
from epic_memory.runtime.batching import coerced
from epic_memory.runtime.effects import in_thread
from epic_memory.steering.query_steering import SteeredQuery, Steerings
from epic_memory.types import FloatArray, Hits, Item, Preference, checked_k, checked_text
from epic_memory.types.modes import Mode, checked_mode


class EpicHippoRAG:
    """A HippoRAG 2 instance that holds what matters to one user, and retrieves it by their preferences.

        rag = EpicHippoRAG(HippoRAG(...), memory=EpicMemory.open("me.epic", preferences=["I follow a vegan diet."]))
        print(rag.index(["A recipe for lentil soup ...", "The history of the steam engine ..."]))
        for solution in rag.retrieve(["What should I cook tonight?"]):
            for hit in rag.hits(solution):
                print(hit.score, hit.text, hit.instructions)

    The instance, of the release 2.0.0a4, is used without a fork, and its methods are restored after every call; known
    failures are avoided (docs/graph_rag.md). Its other attributes and methods are available under their own names; set
    attributes on the instance itself. Safe to use from several threads, which are served one at a time. Each method has
    a variant for asyncio, which runs it in a worker thread: `aindex`, `aretrieve`, and so on. A file
    `epic_passages.json` in the instance's folder lists the passages that came from the memory.

    Args:
        hipporag: The instance, of any class with the interface of `hipporag.HippoRAG`.
        memory: Preferences, coarse filter, verifier and steering, and the record of what is kept; in a file, if the
            graph is to be used again. Its own arguments `coarse`, `fine` and `steering` set the stages.
        extractor: Finds entities and facts: `PhraseExtractor()` asks no language model. Default: the instance's own
            language model and prompts, with answers that are read as JSON; HippoRAG evaluates them as Python.

    Raises:
        InvalidInputError: if `hipporag` is not a HippoRAG instance, `memory` not a memory, or another argument is
            invalid; from a call, if the memory holds none of the passages that came from a memory: `update` then
            empties the graph.
        StoreError: if `epic_passages.json` cannot be read.
    """

    def __init__(
        self,
        hipporag: Any,
        memory: EpicMemory,
        *,
        extractor: Extractor | None = None,
    ) -> None:
        if not isinstance(memory, EpicMemory):
            raise InvalidInputError(f"memory must be an EpicMemory, not {kind_of(memory)}.")
        if isinstance(hipporag, EpicHippoRAG):
            raise InvalidInputError("This EpicHippoRAG has a memory. Give its instance: hipporag.hipporag.")
        self._instance = Instance(hipporag)
        self._memory = memory
        self._extractor = None if extractor is None else checked_extractor(extractor)
        self._steerings = Steerings(HippoEncoder(hipporag))
        self._lock = threading.RLock()
        self._record = Record(self._instance, memory)
        # How often each failed passage was tried again.
        self._attempts = Counter[str]()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name.startswith("a") and callable(getattr(type(self), name[1:], None)):
            method = getattr(self, name[1:])
            return lambda *args, **options: in_thread(partial(method, *args, **options))
        return getattr(self.hipporag, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(f"Attributes of the HippoRAG instance are set on it: rag.hipporag.{name} = ...")
        super().__setattr__(name, value)

    @property
    def hipporag(self) -> Any:
        """The HippoRAG instance."""
        return self._instance.raw

    @property
    def memory(self) -> EpicMemory:
        """The memory.

        The graph follows its changes at the next call: items that the memory no longer holds are gone at once, new
        items are indexed by `update`, `index` or `retry`.
        """
        return self._memory

    def __repr__(self) -> str:
        return f"<EpicHippoRAG over {type(self.hipporag).__name__}, {self.memory!r}>"

    # building

    def index(self, docs: str | Item | Iterable[str | Item], *, progress: bool = False) -> HippoReport:
        """Offer documents to the memory, and index those that it keeps.

        Args:
            docs: Texts or `Item`s. Those without text are left out. A text that is held already costs nothing; a text
                that was in the graph before and is not kept is removed from it.
            progress: Show a progress bar while they are judged.

        Raises:
            InvalidInputError: for anything but documents.
            NoPreferencesError: if the memory has no preferences.
            Exception: any exception of HippoRAG's; the graph is unchanged then, and `update` tries again.
        """
        with self._lock:
            given = _documents(docs)
            items = coerced([doc for doc in given if not isinstance(doc, str) or doc.strip()])
            report = HippoReport(memory=self.memory.add(items, progress=progress))
            if report.memory.tau is not None and not self.memory.preferences:
                # The light tier took them; that must not empty the graph.
                raise NoPreferencesError("The memory has no preferences to index by: memory.preferences.add('...').")
            if len(items) < len(given):
                report.warnings.append(f"{len(given) - len(items)} documents without text were left out.")
            return self._follow(report, {item.text for item in items})

    def update(self) -> HippoReport:
        """Make the graph hold what the memory holds: index new items, remove items that are gone.

        It does so even if that empties the graph, as for a new memory.
        """
        with self._lock:
            return self._follow(HippoReport(), trusted=True)

    def retry(self, *, progress: bool = False) -> HippoReport:
        """Verify undecided documents again, and extract passages again whose extraction failed."""
        with self._lock:
            report = HippoReport(memory=self.memory.retry(progress=progress))
            self._record.follow()
            again = [text for text in self._instance.passages.values() if digest_of(text) in self._record.failed]
            self._attempts.update(again)
            self._record.remove(again)
            return self._follow(report)

    def adopt(self, *, progress: bool = False) -> HippoReport:
        """Offer the passages that were in the graph before to the memory; remove those that it does not keep."""
        return self.index(self.foreign, progress=progress)

    def delete(self, docs: str | Item | Iterable[str | Item]) -> HippoReport:
        """Remove documents from the memory and from the graph, for good; unknown documents are ignored.

        Args:
            docs: Texts as they were given or retrieved, or `Item`s.
        """
        with self._lock:
            items = coerced(_documents(docs))
            self._record.follow()
            held = [item for item in (self._record.item(one.text) for one in items) if item is not None]
            self.memory.forget(*{item.id: item for item in [*items, *held]}.values())
            return self._follow(HippoReport(), {one.text for one in items})

    def forget(self, *items: str | Item) -> int:
        """Forget items as `EpicMemory.forget` does; they are removed from the graph as well."""
        with self._lock:
            count = self.memory.forget(*items)
            self._record.follow()
            return count

    @property
    def foreign(self) -> list[str]:
        """The passages that the instance held before; they did not come from the memory."""
        with self._lock:
            self._record.follow()
            return [text for text in self._instance.passages.values() if not self._record.knows(text)]

    @property
    def failures(self) -> dict[str, str]:
        """Why extraction failed for passages in the graph, which have no facts therefore: item id to reason."""
        with self._lock:
            self._record.follow()
            return self._record.failures

    def _follow(self, report: HippoReport, given: Collection[str] = (), *, trusted: bool = False) -> HippoReport:
        """Make the graph hold what the memory holds; of the given texts, remove those that the memory does not hold."""
        started = time.perf_counter()
        report.removed = self._record.follow(given, anew=True, trusted=trusted)
        passages = set(self._instance.passages.values())
        entering = self._record.entering()
        new = [text for text in dict.fromkeys(entering.values()) if text not in passages]
        self._index(new, report)
        if entering:
            self._record.enter(entering)
        report.indexed, report.foreign, report.failures = len(new), len(self.foreign), self._record.failures
        report.passages = len(self._instance.passages)
        report.seconds = time.perf_counter() - started
        return report

    def _index(self, texts: Iterable[str], report: HippoReport) -> None:
        """Index texts, and the passages that the graph has lost."""
        texts = list(dict.fromkeys([*texts, *self._instance.unlinked]))
        if not texts:
            return
        extractor = self._extractor or HippoExtractor(self.hipporag.openie, self._attempts)
        openie = SafeOpenIE(extractor.stream)
        self._instance.index(texts, openie)
        for text in texts:
            self._record.failed.pop(digest_of(text), None)
        self._record.failed |= {digest_of(text): reason for text, reason in openie.failed.items()}
        if openie.left_out:
            report.warnings.append(
                f"{openie.left_out} facts were left out: HippoRAG keeps the letters of A-Z only, and their names have"
                " none."
            )

    # retrieval

    def retrieve(
        self,
        queries: Sequence[str],
        num_to_retrieve: int | None = None,
        gold_docs: Any = None,
        *,
        steering: Mode | None = None,
    ) -> Any:
        """Call the instance's `retrieve`; its facts and passages are searched with steered queries.

        Args:
            queries: Texts, not empty.
            num_to_retrieve, gold_docs: As the instance takes them.
            steering: Overrides the memory's mode: "signed", "paper" or "off".

        Returns:
            The instance's solutions (`hits` adds guidance); none for an empty store.

        Raises:
            InvalidInputError: for invalid queries, or an unknown mode.
            EncoderError: if the embedding model fails for the preferences.
        """
        return self._ask("retrieve", queries, gold_docs, steering, num_to_retrieve=num_to_retrieve)[0]

    def retrieve_dpr(
        self,
        queries: Sequence[str],
        num_to_retrieve: int | None = None,
        gold_docs: Any = None,
        *,
        steering: Mode | None = None,
    ) -> Any:
        """Do the same as `retrieve`, by the similarity of passages alone."""
        return self._ask("retrieve_dpr", queries, gold_docs, steering, num_to_retrieve=num_to_retrieve)[0]

    def rag_qa(
        self, queries: Sequence[Any], gold_docs: Any = None, gold_answers: Any = None, *, steering: Mode | None = None
    ) -> Any:
        """Call the instance's `rag_qa`: retrieve for texts, and have its language model answer by the instructions.

        Args:
            queries: Texts, or solutions that `retrieve` returned; at least one.
            gold_docs, gold_answers: As the instance takes them.
            steering: As in `retrieve`.
        """
        return self._ask("rag_qa", queries, gold_docs, steering, gold_answers=gold_answers)[0]

    def rag_qa_dpr(
        self, queries: Sequence[Any], gold_docs: Any = None, gold_answers: Any = None, *, steering: Mode | None = None
    ) -> Any:
        """Do the same as `rag_qa`, by the similarity of passages alone."""
        return self._ask("rag_qa_dpr", queries, gold_docs, steering, gold_answers=gold_answers)[0]

    def hits(self, solution: Any) -> Hits:
        """Return the passages of a solution as hits, in their order: items, instructions, stances, scores.

        A score is HippoRAG's own (of PageRank, or a normalised similarity): it compares the passages of one solution. A
        passage that did not come from the memory has only its text, and the tier "fallback".

        Raises:
            InvalidInputError: for anything but one solution, such as a list of them.
        """
        if not hasattr(solution, "docs"):
            raise InvalidInputError(f"hits takes one solution, retrieve([...])[0], not {kind_of(solution)}.")
        with self._lock:
            self._record.follow()
            scores = map(float, solution.doc_scores)
            return Hits(self._record.hit(text, score) for text, score in zip(solution.docs, scores, strict=True))

    def search(self, query: str, k: int = 5, *, steering: Mode | None = None) -> Hits:
        """Return the k passages for one query as hits, like `EpicMemory.search`; it combines `retrieve` and `hits`.

        Raises:
            InvalidInputError: for an empty query, or k below 1.
        """
        with self._lock:
            solutions, steered = self._ask("retrieve", [query], None, steering, num_to_retrieve=checked_k(k))
            hits = self.hits(solutions[0])
        if query in steered:
            hits.vector = steered[query].vector
            hits.steered_by = [(one.preference.text, one.similarity, one.weight) for one in steered[query].preferences]
        return hits

    def context(self, query: str, k: int = 5, *, steering: Mode | None = None) -> str:
        """Return the context for a model: the formatted hits of `search`, which takes the options."""
        return format_context(self.search(query, k, steering=steering))

    def _ask(
        self, method: str, queries: Any, gold: Any, steering: Mode | None, **options: Any
    ) -> tuple[Any, dict[str, SteeredQuery]]:
        """Call a method of the instance that asks questions; return its result, and the steered queries by text."""
        asked = _queries(queries)
        if not asked and method.startswith("rag_qa"):
            raise InvalidInputError("There are no queries. Give at least one.")
        if options.get("num_to_retrieve") is not None:
            options["num_to_retrieve"] = checked_k(options["num_to_retrieve"], "num_to_retrieve")
        if gold is not None:
            options["gold_docs"] = [*gold]
            if len(options["gold_docs"]) != len(asked) or any(isinstance(texts, str) for texts in options["gold_docs"]):
                raise InvalidInputError(f"gold_docs takes a list of texts for each query, {len(asked)} here.")
        with self._lock:
            self._record.follow()
            if not self.hipporag.ready_to_retrieve:
                self._index([], HippoReport())
            mode = self.memory.settings.steering if steering is None else checked_mode(steering)
            held: Sequence[Preference] = self.memory.preferences
            steered: dict[str, SteeredQuery] = {}
            steer = None if mode == "off" or not held else self._steer(held, mode, steered)
            with self._instance.asking(steer, self._with_guidance):
                return getattr(self.hipporag, method)(asked, **options), steered

    def _steer(
        self, preferences: Sequence[Preference], mode: Mode, steered: dict[str, SteeredQuery]
    ) -> Callable[[str, str, FloatArray], FloatArray]:
        """Return a function that steers embeddings of queries, and keeps those by which passages are searched."""
        steering = self._steerings.of(tuple(preferences), mode)

        def steer(text: str, kind: str, vector: FloatArray) -> FloatArray:
            found = steering.steer_vector(vector)
            if kind == "passage":
                steered[text] = found
            return found.vector

        return steer

    def _with_guidance(self, text: str) -> str:
        """Return a passage as the model that answers reads it: with its guidance for this user."""
        hit = self._record.hit(text)
        return format_hit(1, hit).partition("\n")[2] if hit.entries else text


def _documents(docs: Any) -> list[Any]:
    """Return documents as a list; a single document becomes a list of one."""
    if isinstance(docs, (bytes, Mapping)) or not isinstance(docs, (str, Item, Iterable)):
        raise InvalidInputError(f"EpicHippoRAG takes texts or Items, not {type(docs).__name__}.")
    return [docs] if isinstance(docs, (str, Item)) else list(docs)


def _queries(queries: Any) -> list[Any]:
    if isinstance(queries, (str, bytes, Mapping)) or not isinstance(queries, Iterable):
        raise InvalidInputError(f"Give queries as a list, not as {type(queries).__name__}.")
    # A solution of an earlier call stands for its question.
    return [one if hasattr(one, "question") else checked_text(one, "A query") for one in queries]
