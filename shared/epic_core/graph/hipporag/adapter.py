"""Adapter that puts EPIC in front of HippoRAG 2: a memory decides what enters its graph, and queries are steered.

The memory is the record of what is kept: documents are offered to it (coarse filter, fine verification, retry queue,
ledger, forgetting, budget), and the graph follows it. So a text that comes again costs nothing, undecided documents can
be tried again, and an item that leaves the memory, for whatever reason, leaves the graph.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

from epic_core.context import format_context, format_hit
from epic_core.errors import InvalidInputError
from epic_core.graph.extraction.base import Extractor
from epic_core.graph.hipporag.building import Building, HippoReport, cut, several
from epic_core.graph.hipporag.instance import Instance
from epic_core.graph.hipporag.openie import UnsafeExtractionWarning, evaluates
from epic_core.graph.hipporag.record import Record
from epic_core.graph.hipporag.steering import HippoEncoder, QueryMover
from epic_core.lm.failures import kind_of
from epic_core.memory import EpicMemory
from epic_core.runtime.threads import in_thread
from epic_core.steering.cache import Steerings
from epic_core.types import Hits, Item, Preference, checked_k, checked_text
from epic_core.types.modes import Mode, checked_mode
from epic_core.types.validation import checked_tau

Instructions: TypeAlias = Literal["answer", "index", "off"]
"""Where instructions go: to the model that answers, into the indexed text, or nowhere."""

# Methods of newer versions that also ask questions.
_ASKING = ("retrieve_ircot", "answer_with_ircot")


class EpicHippoRAG:
    """A HippoRAG 2 instance that holds what matters to one user, and retrieves it by their preferences.

        rag = EpicHippoRAG(HippoRAG(...), memory=EpicMemory.open("me.epic", preferences=["I follow a vegan diet."]))
        print(rag.index(["A recipe for lentil soup ...", "The history of the steam engine ..."]))
        for solution in rag.retrieve(["What should I cook tonight?"]):
            for hit in rag.hits(solution):
                print(hit.score, hit.text, hit.instructions)

    The instance is used without a fork, and its methods are restored after every call. Known failures of the releases
    2.0.0a3 and a4 and of the development version are avoided: documents that are invisible after `index`, stale query
    vectors, assertions where no fact counts, empty stores, edges that double with each `index`, a first extraction that
    fails, leftovers of deleted passages. Its other attributes and methods are available under their own names; set
    attributes on the instance itself. Safe to use from several threads, which are served one at a time.

    The text of kept items is stored twice: by the memory, compressed, and by HippoRAG. A file `epic_passages.json`
    in the instance's folder lists the passages that came from the memory.

    Args:
        hipporag: The instance, of any class with the interface of `hipporag.HippoRAG`.
        memory: Preferences, coarse filter, verifier and steering, and the record of what is kept; in a file, if the
            graph is to be used again. Its own arguments `coarse`, `fine` and `steering` set the stages.
        instructions: "answer": the model that answers reads with each passage how to use it for this user; the text
            alone is indexed and returned. "index": the instructions are also indexed in front of the text, so that it
            is found by what it is good for; but the words of a preference become entities that link all passages kept
            for it, which PageRank does not tell apart. "off": nowhere.
        extraction: HippoRAG's own extraction evaluates its language model's answers as Python. "safe" asks the same
            model with the same prompts, and reads JSON only; "own" leaves HippoRAG's extraction as it is, with a
            warning. An `Extractor` of epic_core replaces it: `PhraseExtractor()` asks no language model.
        floor: Cosine in [-1, 1], of the instance's embedding model, from which a preference steers a query. Default:
            rel(p) decides (`epic_core.steering.relevance`); in paper mode every preference steers.

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
        instructions: Instructions = "answer",
        extraction: Literal["safe", "own"] | Extractor = "safe",
        floor: float | None = None,
    ) -> None:
        if not isinstance(memory, EpicMemory):
            raise InvalidInputError(f"memory must be an EpicMemory, not {kind_of(memory)}.")
        if instructions not in get_args(Instructions):
            raise InvalidInputError(f"instructions knows {', '.join(get_args(Instructions))}; not {instructions!r}.")
        # Extractors have a name; a framework's chat model also has `stream`, but no name.
        if extraction not in ("safe", "own") and not (
            isinstance(extraction, Extractor) and isinstance(extraction.name, str) and not isinstance(extraction, type)
        ):
            raise InvalidInputError(f'extraction is "safe", "own" or an Extractor, not {kind_of(extraction)}.')
        if isinstance(hipporag, EpicHippoRAG):
            raise InvalidInputError("This EpicHippoRAG has a memory. Give its instance: hipporag.hipporag.")
        self._instance = Instance(hipporag)
        self._memory = memory
        self._instructions: Instructions = instructions
        self._steerings = Steerings(
            HippoEncoder(hipporag), floor=None if floor is None else checked_tau(floor, "floor")
        )
        self._lock = threading.RLock()
        self._record = Record(self._instance, memory, instructed=instructions == "index")
        self._building = Building(self._instance, self._record, extraction)
        if extraction == "own" and evaluates(hipporag.openie):
            warnings.warn(
                f"{type(hipporag.openie).__name__} of this HippoRAG instance evaluates what its language model answers"
                " as Python: a passage that tells the model what to answer can run code on this machine. Leave"
                ' extraction="own" out, or give extraction="safe".',
                UnsafeExtractionWarning,
                stacklevel=2,
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("hipporag", "memory"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        found = getattr(self.hipporag, name)
        return partial(self._ask, name) if name in _ASKING else found

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

    def index(self, docs: str | Item | Iterable[Any], *, progress: bool = False) -> HippoReport:
        """Offer documents to the memory, and index those that it keeps.

        Args:
            docs: Texts, `Item`s, or what the instance's own preprocessor takes; if it has one, it cuts them first.
                Documents without text are left out. A text that is held already costs nothing; a text that was in the
                graph before and is not kept is removed from it.
            progress: Show a progress bar while they are judged.

        Raises:
            InvalidInputError: for anything but documents.
            NoPreferencesError: if the memory has no preferences.
            Exception: any exception of HippoRAG's; the graph is unchanged then, and `update` tries again.
        """
        with self._lock:
            items, blank = cut(docs, getattr(self.hipporag, "text_preprocessor", None))
            report = HippoReport(memory=self.memory.add(items, progress=progress))
            if blank:
                report.warnings.append(f"{blank} documents without text were left out.")
            return self._building.follow(report, {item.text for item in items})

    def update(self) -> HippoReport:
        """Make the graph hold what the memory holds: index new items, remove items that are gone.

        It does so even if that empties the graph, as for a new memory.
        """
        with self._lock:
            return self._building.follow(HippoReport(), trusted=True)

    def retry(self, *, progress: bool = False) -> HippoReport:
        """Verify undecided documents again, and extract passages again whose extraction failed."""
        with self._lock:
            return self._building.again(HippoReport(memory=self.memory.retry(progress=progress)))

    def adopt(self, *, progress: bool = False) -> HippoReport:
        """Offer the passages that were in the graph before to the memory; remove those that it does not keep."""
        return self.index(self.foreign, progress=progress)

    def delete(self, docs: str | Item | Iterable[str | Item]) -> HippoReport:
        """Remove documents from the memory and from the graph, for good; unknown documents are ignored.

        Args:
            docs: Texts as they were given or retrieved, or `Item`s.
        """
        with self._lock:
            items = [Item.of(doc) for doc in several(docs)]
            self._record.follow()
            held = [item for item in (self._record.item(one.text) for one in items) if item is not None]
            self.memory.forget(*{item.id: item for item in [*items, *held]}.values())
            return self._building.follow(HippoReport(), {one.text for one in items})

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

    # retrieval

    def retrieve(
        self,
        queries: Sequence[str],
        num_to_retrieve: int | None = None,
        gold_docs: Any = None,
        *,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
    ) -> Any:
        """Call the instance's `retrieve`; its facts and passages are searched with steered queries.

        Args:
            queries: Texts, not empty.
            num_to_retrieve, gold_docs: As the instance takes them.
            steering: Overrides the memory's mode: "signed", "paper" or "off".
            preferences: Which of the memory's preferences steer in this call; an empty list for none.

        Returns:
            The instance's solutions, whose `docs` are the user's texts (`hits` adds guidance); none for an empty store.

        Raises:
            InvalidInputError: for invalid queries, or an unknown mode.
            UnknownPreferenceError: for a preference that the memory does not have.
            EncoderError: if the embedding model fails for the preferences.
        """
        count = None if num_to_retrieve is None else checked_k(num_to_retrieve, "num_to_retrieve")
        return self._ask(
            "retrieve", queries, num_to_retrieve=count, gold_docs=gold_docs, steering=steering, preferences=preferences
        )

    def retrieve_dpr(
        self,
        queries: Sequence[str],
        num_to_retrieve: int | None = None,
        gold_docs: Any = None,
        *,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
    ) -> Any:
        """Do the same as `retrieve`, by the similarity of passages alone."""
        count = None if num_to_retrieve is None else checked_k(num_to_retrieve, "num_to_retrieve")
        return self._ask(
            "retrieve_dpr",
            queries,
            num_to_retrieve=count,
            gold_docs=gold_docs,
            steering=steering,
            preferences=preferences,
        )

    def rag_qa(
        self,
        queries: Sequence[Any],
        gold_docs: Any = None,
        gold_answers: Any = None,
        *,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
    ) -> Any:
        """Call the instance's `rag_qa`: retrieve for texts, and have its language model answer by the instructions.

        Args:
            queries: Texts, or solutions that `retrieve` returned; at least one.
            gold_docs, gold_answers: As the instance takes them.
            steering, preferences: As in `retrieve`; instructions for other preferences are not read.
        """
        gold = {"gold_docs": gold_docs, "gold_answers": gold_answers}
        return self._ask("rag_qa", queries, steering=steering, preferences=preferences, **gold)

    def rag_qa_dpr(
        self,
        queries: Sequence[Any],
        gold_docs: Any = None,
        gold_answers: Any = None,
        *,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
    ) -> Any:
        """Do the same as `rag_qa`, by the similarity of passages alone."""
        gold = {"gold_docs": gold_docs, "gold_answers": gold_answers}
        return self._ask("rag_qa_dpr", queries, steering=steering, preferences=preferences, **gold)

    def hits(self, solution: Any, *, preferences: Iterable[str | Preference] | None = None) -> Hits:
        """Return the passages of a solution as hits, in their order: items, instructions, stances, scores.

        With `preferences`, only guidance under these of the memory's preferences is included. A score is HippoRAG's own
        (of PageRank, or a normalised similarity): it compares the passages of one solution. A passage that did not come
        from the memory has only its text, and the tier "fallback".

        Raises:
            InvalidInputError: for anything but one solution, such as a list of them.
            UnknownPreferenceError: for a preference that the memory does not have.
        """
        if not hasattr(solution, "docs"):
            raise InvalidInputError(f"hits takes one solution, retrieve([...])[0], not {kind_of(solution)}.")
        with self._lock:
            self._record.follow()
            under = None if preferences is None else _ids(self._held(preferences))
            scores = getattr(solution, "doc_scores", None)
            scored = [0.0] * len(solution.docs) if scores is None else [float(score) for score in scores]
            return Hits(
                self._record.hit(text, score, under=under) for text, score in zip(solution.docs, scored, strict=True)
            )

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
    ) -> Hits:
        """Return the k passages for one query as hits, like `EpicMemory.search`; it combines `retrieve` and `hits`.

        Raises:
            InvalidInputError: for an empty query, or k below 1.
        """
        given = None if preferences is None else _several(preferences)
        with self._lock:
            movers: list[QueryMover] = []
            solutions = self._ask(
                "retrieve",
                [query],
                steering=steering,
                preferences=given,
                movers=movers,
                num_to_retrieve=checked_k(k),
            )
            hits = self.hits(solutions[0], preferences=given)
            steered = movers[0].steered.get(query) if movers else None
        if steered is not None:
            hits.vector = steered.vector
            hits.steered_by = [(one.preference.text, one.similarity, one.weight) for one in steered.preferences]
        return hits

    def context(self, query: str, k: int = 5, **options: Any) -> str:
        """Return the context for a model: the formatted hits of `search`, which takes the options."""
        return format_context(self.search(query, k, **options))

    # asynchronous variants: HippoRAG is synchronous, so they run in a worker thread

    async def aindex(self, docs: Any, *, progress: bool = False) -> HippoReport:
        """Do the same as `index` in a worker thread."""
        return await in_thread(partial(self.index, docs, progress=progress))

    async def aupdate(self) -> HippoReport:
        """Do the same as `update` in a worker thread."""
        return await in_thread(self.update)

    async def aretry(self, *, progress: bool = False) -> HippoReport:
        """Do the same as `retry` in a worker thread."""
        return await in_thread(partial(self.retry, progress=progress))

    async def aadopt(self, *, progress: bool = False) -> HippoReport:
        """Do the same as `adopt` in a worker thread."""
        return await in_thread(partial(self.adopt, progress=progress))

    async def adelete(self, docs: Any) -> HippoReport:
        """Do the same as `delete` in a worker thread."""
        return await in_thread(self.delete, docs)

    async def aforget(self, *items: str | Item) -> int:
        """Do the same as `forget` in a worker thread."""
        return await in_thread(self.forget, *items)

    async def aretrieve(self, queries: Sequence[str], *args: Any, **options: Any) -> Any:
        """Do the same as `retrieve` in a worker thread."""
        return await in_thread(partial(self.retrieve, queries, *args, **options))

    async def aretrieve_dpr(self, queries: Sequence[str], *args: Any, **options: Any) -> Any:
        """Do the same as `retrieve_dpr` in a worker thread."""
        return await in_thread(partial(self.retrieve_dpr, queries, *args, **options))

    async def arag_qa(self, queries: Sequence[Any], *args: Any, **options: Any) -> Any:
        """Do the same as `rag_qa` in a worker thread."""
        return await in_thread(partial(self.rag_qa, queries, *args, **options))

    async def asearch(self, query: str, k: int = 5, **options: Any) -> Hits:
        """Do the same as `search` in a worker thread."""
        return await in_thread(partial(self.search, query, k, **options))

    async def acontext(self, query: str, k: int = 5, **options: Any) -> str:
        """Do the same as `context` in a worker thread."""
        return format_context(await self.asearch(query, k, **options))

    # helpers of retrieval

    def _ask(
        self,
        method: str,
        queries: Any,
        *args: Any,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
        movers: list[QueryMover] | None = None,
        **options: Any,
    ) -> Any:
        """Call a method of the instance that asks questions, with steered queries."""
        ask = getattr(self.hipporag, method)
        asked = _checked_queries(queries)
        if not asked and method.startswith(("rag_qa", "answer")):
            raise InvalidInputError("There are no queries. Give at least one.")
        with self._lock:
            self._record.follow()
            if not getattr(self.hipporag, "ready_to_retrieve", True):
                self._building.index({}, HippoReport())
            mode = self.memory._session.steering if steering is None else checked_mode(steering)
            held = self.memory.preferences if preferences is None else self._held(preferences)
            mover = None if mode == "off" or not held else QueryMover(self._steerings, held, mode)
            told = partial(self._told, under=None if preferences is None else _ids(held))
            if mover is not None and movers is not None:
                movers.append(mover)
            gold = options.get("gold_docs")
            if gold is not None:
                gold = _checked_gold(gold, len(asked))
                options["gold_docs"] = [[self._record.indexed(text) for text in texts] for texts in gold]
            given = {name: value for name, value in options.items() if value is not None}
            with self._instance.asking(mover, None if self._instructions == "off" else told):
                result = ask(asked, *args, **given)
            return self._returned(result, gold)

    def _held(self, preferences: Iterable[str | Preference]) -> list[Preference]:
        """Return those of the memory's preferences that are given."""
        with self.memory._session.lock:
            space = self.memory._session.space()
            return [space.preferences[place] for place in space.positions(_several(preferences))]

    def _returned(self, result: Any, gold: Any) -> Any:
        """Return the instance's answer, with the user's texts in place of the indexed ones."""
        solutions = result[0] if isinstance(result, tuple) else result
        for number, solution in enumerate(solutions):
            solution.docs = [self._theirs(text) for text in solution.docs]
            if gold is not None and getattr(solution, "gold_docs", None) is not None:
                solution.gold_docs = gold[number]
        return result

    def _theirs(self, text: str) -> str:
        item = self._record.item(text)
        return text if item is None else item.text

    def _told(self, text: str, *, under: Collection[str | None] | None) -> str:
        """Return a passage in the form for the model that answers: with its guidance for this user."""
        hit = self._record.hit(text, under=under)
        return format_hit(1, hit).partition("\n")[2] if hit.entries else text


def _checked_queries(queries: Any) -> list[Any]:
    if isinstance(queries, (str, bytes, Mapping)) or not isinstance(queries, Iterable):
        raise InvalidInputError(f"Give queries as a list, not as {type(queries).__name__}.")
    # A solution of an earlier call stands for its question.
    return [one if hasattr(one, "question") else checked_text(one, "A query") for one in queries]


def _checked_gold(gold: Any, number: int) -> list[list[str]]:
    """Check the gold documents, a list for each query."""
    given = list(gold)
    if len(given) != number or any(isinstance(texts, str) for texts in given):
        raise InvalidInputError(f"gold_docs takes a list of texts for each query, {number} here.")
    return [list(texts) for texts in given]


def _several(preferences: object) -> list[Any]:
    if isinstance(preferences, (str, Preference)):
        return [preferences]
    if isinstance(preferences, (bytes, Mapping)) or not isinstance(preferences, Iterable):
        raise InvalidInputError(f"preferences must be several texts, not {kind_of(preferences)}.")
    return list(preferences)


def _ids(preferences: Iterable[Preference]) -> frozenset[str | None]:
    """Return the ids of the preferences whose entries count, and None: entries without a preference always count."""
    return frozenset((None, *(one.id for one in preferences)))
