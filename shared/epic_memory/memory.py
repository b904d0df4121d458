"""EpicMemory: the one facade over the three stages, the index and the file."""

# Longer than other modules: it is the reference of what users call, each method twice, and does nothing itself.

from __future__ import annotations

import copy
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epic_memory.context import ALLOWANCE, context_of
from epic_memory.encoders import Encoder
from epic_memory.encoders.by_name import bundled_encoder_of, encoder_for
from epic_memory.errors import InvalidInputError, NotCopiedError
from epic_memory.filters import Filter, checked_filter
from epic_memory.groups.file import MemoryFile
from epic_memory.groups.preferences import MemoryPreferences
from epic_memory.pipeline.aspects import check_reader
from epic_memory.pipeline.explain import explain, stats
from epic_memory.pipeline.ingest import retry
from epic_memory.pipeline.judge import JUDGED_AT_ONCE, judge_batch
from epic_memory.pipeline.opening import found_namespace, take_up
from epic_memory.pipeline.removal import forget
from epic_memory.pipeline.reporting import OnBatch, aadd_items, add_items, areported, checked_report, reported, timed
from epic_memory.pipeline.search import checked_search, search
from epic_memory.pipeline.session import Session
from epic_memory.runtime.batching import Items, abatches, batches, checked_part, unique_preferences
from epic_memory.runtime.effects import Clock, arun, in_thread, run
from epic_memory.runtime.optional import optional
from epic_memory.runtime.telemetry import Progress
from epic_memory.settings import Settings, check_no_file, checked_settings, session_of
from epic_memory.storage.sqlite.files import encoder_in
from epic_memory.storage.sqlite.locking import key_of
from epic_memory.storage.store import Store
from epic_memory.types import (
    BuildReport,
    Explanation,
    FloatArray,
    Hits,
    Item,
    Preference,
    Stats,
    checked_text,
)
from epic_memory.types.search_options import SearchOptions
from epic_memory.types.validation import checked_ids, checked_path
from epic_memory.types.verdicts import Judged
from epic_memory.verification import Verifier
from epic_memory.verification.embedded import verifier_of

if TYPE_CHECKING:
    from epic_learn.facts.memory_facts import MemoryFacts
    from epic_learn.memory_never import MemoryNever
    from epic_learn.memory_proposals import MemoryProposals

_LAST_ANSWER = 2.0
"""Most seconds that closing waits for what a model is answering in the background."""


class EpicMemory:
    """Preference-aligned memory: keeps what matters to one user, and retrieves it by their preferences.

        memory = EpicMemory(preferences=["I follow a strict vegan diet."])
        memory.add(["A recipe for lentil soup ...", "The history of the steam engine ..."])
        for hit in memory.search("What should I cook tonight?"):
            print(hit.score, hit.instructions, hit.item.text)

    This makes a memory that lives in RAM; `EpicMemory.open(path)` makes or opens one in a file. Safe to use
    from several threads.

    Args:
        preferences: The user's preferences, texts or `Preference`s.
        encoder: An encoder, or the name of one, as `encoder_of` takes it: "static", "minilm", "multilingual",
            "sentence-transformers/all-MiniLM-L6-v2", "ollama/nomic-embed-text". Default: a file keeps one of the first
            three; a new one takes, if installed, "multilingual" for preferences in other languages, else "minilm".
        llm: A language model for all that one can do: it explains each preference once, judges what passes the coarse
            filter and what questions find, tells what a new fact changes, and reads conversations and forms. A name
            (`lm_of`): "ollama:qwen3:4b", "openai:MODEL@http://localhost:8000/v1", "auto" for
            whatever answers on this machine; or a model of LangChain or LlamaIndex. Default: none is asked.
        settings: All else: whose memory it is, what it filters by, what it keeps, how large it gets.

    Raises:
        InvalidInputError: if an argument is invalid.
        DuplicatePreferenceError: if a preference is given twice.
    """

    _session: Session

    def __init__(
        self,
        preferences: Iterable[str | Preference] = (),
        *,
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings = Settings(),
    ) -> None:
        if isinstance(preferences, (str, Path)) and str(preferences).endswith(".epic"):
            raise InvalidInputError(f"{preferences} is a file, not preferences: open it by EpicMemory.open(...).")
        given = unique_preferences(preferences)
        settings = checked_settings(settings)
        check_no_file(settings)
        if settings.key is not None:
            raise InvalidInputError(
                "Settings(key=...) locks a file, and this memory is in RAM: EpicMemory.open(path, ...)."
            )
        begin = partial(found_namespace, preferences=given)
        self._session = session_of(settings, encoder_for(encoder, given), llm, partial(Store, None), begin)

    @classmethod
    def open(
        cls,
        path: str | Path,
        preferences: Iterable[str | Preference] | None = None,
        *,
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings | None = None,
        sync: bool = False,
    ) -> EpicMemory:
        """Open the memory in a file, or make it. Use it in a `with`, or `close()` it.

        Args:
            path: The file.
            preferences: What a new file starts with. For an existing one they must be those it holds.
            encoder, llm, settings: As for `EpicMemory`; `Settings` also say whether the file has to exist, may only be
                read, or is embedded anew by another encoder.
            sync: Change the preferences of an existing file to those given instead.

        Raises:
            StoreError: if the file cannot be opened or is no memory.
            DamagedError: if its content does not match its checksums.
            LockedError: if it is locked, and the key is missing or another.
            EncoderMismatchError: if it was made with another encoder.
            PreferencesMismatchError: if it holds other preferences.
        """
        if not isinstance(path, (str, Path)) or not str(path):
            raise InvalidInputError(f"open needs the name of a file, not {path!r}. EpicMemory() makes one in RAM.")
        if str(path) == ":memory:":
            raise InvalidInputError("':memory:' is no file here: EpicMemory(preferences=[...]) makes a memory in RAM.")
        given, how = None if preferences is None else unique_preferences(preferences), checked_settings(settings)
        make = partial(Store, path, must_exist=how.must_exist, read_only=how.read_only, key=key_of(how.key))
        begin = partial(take_up, given=given, sync=sync, reencode=how.reencode)
        encoder = bundled_encoder_of(encoder_in(Path(path), key_of(how.key))) if encoder is None else encoder
        memory = cls.__new__(cls)
        memory._session = session_of(how, encoder_for(encoder, given), llm, make, begin)
        return memory

    @classmethod
    def restore(
        cls,
        export: str | Path,
        path: str | Path,
        *,
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings | None = None,
    ) -> EpicMemory:
        """Make a memory from an export, embedded with the encoder given.

        Args:
            export: The file of JSON lines.
            path: The memory's file: a new one, or one whose namespace of this name holds nothing.
            encoder, llm, settings: As for `EpicMemory`.

        Raises:
            InvalidInputError: naming the line that is wrong, or if the export was cut; nothing is written then.
            StoreError: if a file cannot be read or written, or the namespace holds something.
        """
        how = checked_settings(settings)
        make = partial(Store, checked_path(path), key=key_of(how.key))
        check_no_file(how)
        read = optional("epic_learn.export", "read_export")(checked_path(export))
        begin = partial(optional("epic_learn.export", "take_over"), read=read)
        memory = cls.__new__(cls)
        memory._session = session_of(how, encoder_for(encoder, read.preferences), llm, make, begin, imports=True)
        return memory

    # building

    def add(self, items: Items, *, light: bool = True, progress: bool | OnBatch = False) -> BuildReport:
        """Offer items to the memory: coarse filter, fine verification, index. Committed batch by batch.

        Args:
            items: Texts or `Item`s, one or an iterable of any length, also one that never ends: a batch is committed
                when it has 512 items, or with the first item that comes after half a second; if the stream fails, items
                that were not committed are lost. An item already held with the same text is skipped, and so is one
                that was discarded under the same preferences; a known id with another text replaces the earlier
                version.
            light: Whether what is not kept may stay in the light tier.
            progress: Show a bar; or call this with the report so far after each batch that was committed.

        Raises:
            InvalidInputError: for an item that is no text; the batches before it are kept.
            NoPreferencesError: if the memory has no preferences to filter by, and no light tier (`reserve=0`).
            EncoderError: if the encoder fails; the batches before are kept.
        """
        return add_items(self._session, items, light=light, progress=progress)

    async def aadd(
        self, items: Items | AsyncIterable[str | Item], *, light: bool = True, progress: bool | OnBatch = False
    ) -> BuildReport:
        """As `add`, without blocking the event loop; also takes an asynchronous iterable."""
        return await aadd_items(self._session, items, light=light, progress=progress)

    def judge(self, items: Items, *, report: BuildReport | None = None, progress: bool = False) -> Iterator[Judged]:
        """Judge items without taking them in: stages 1 and 2 by themselves.

        What a language model says is remembered as in `add`. An item is judged as it is, also where the memory has a
        chunker.

        Args:
            items: As for `add`. They are judged a few at a time, as the iterator is advanced.
            report: Is filled in as it goes.
            progress: Show a bar.

        Yields:
            One `Judged` for each item, in their order.

        Raises:
            InvalidInputError: for an item that is no text.
            NoPreferencesError: if the memory has no preferences.
            ReadOnlyError: if a model is to be asked, and what it says cannot be remembered.
            EncoderError: if the encoder fails.
        """
        report, clock = checked_report(report), Clock()
        with Progress(items, shown=progress) as bar:
            for batch in batches(items, JUDGED_AT_ONCE):
                judged = run(judge_batch(self._session, batch, report, clock, bar), clock)
                timed(self._session, report, clock)
                yield from judged

    async def ajudge(
        self, items: Items | AsyncIterable[str | Item], *, report: BuildReport | None = None, progress: bool = False
    ) -> AsyncIterator[Judged]:
        """As `judge`, without blocking the event loop; also takes an asynchronous iterable."""
        report, clock = checked_report(report), Clock()
        with Progress(items, shown=progress) as bar:
            async for batch in abatches(items, JUDGED_AT_ONCE):
                judged = await arun(judge_batch(self._session, batch, report, clock, bar), clock)
                timed(self._session, report, clock)
                for one in judged:
                    yield one

    def retry(self, *, progress: bool = False) -> BuildReport:
        """Verify the undecided items again."""
        return reported(self._session, partial(retry, self._session), progress=progress)

    async def aretry(self, *, progress: bool = False) -> BuildReport:
        """As `retry`, without blocking the event loop."""
        return await areported(self._session, partial(retry, self._session), progress=progress)

    # retrieving

    def search(
        self,
        query: str | Sequence[float] | FloatArray,
        k: int = 5,
        *,
        filter: Filter | None = None,
        namespace: str | None = None,
        options: SearchOptions = SearchOptions(),
    ) -> Hits:
        """Return the k items that answer a query best under the user's preferences.

        Args:
            query: A text, not empty; or a vector of the encoder's, shape `(d,)`, of any length other than zero: nothing
                steers it, and no fallback is asked.
            k: How many items, at least 1; fewer come back if fewer are held.
            filter: A condition on metadata, applied inside the search.
            namespace: Another user's memory in the same file.
            options: How to search: steering, which preferences, what conflicts with them, the least relevance.

        Returns:
            Hits, best first, with `timings` in seconds; `relevant` tells whether the memory holds anything relevant.

        Raises:
            InvalidInputError: for an empty query, a vector of another dimension, k below 1, or nothing to embed.
            UnknownPreferenceError: for a preference that is not held.
        """
        asked = checked_search(self._session, query, k, filter=filter, namespace=namespace, options=options)
        return run(search(self._session, asked, clock := Clock()), clock)

    async def asearch(
        self,
        query: str | Sequence[float] | FloatArray,
        k: int = 5,
        *,
        filter: Filter | None = None,
        namespace: str | None = None,
        options: SearchOptions = SearchOptions(),
    ) -> Hits:
        """As `search`, without blocking the event loop."""
        asked = checked_search(self._session, query, k, filter=filter, namespace=namespace, options=options)
        return await arun(search(self._session, asked, clock := Clock()), clock)

    def get(self, item_ids: Iterable[str], *, namespace: str | None = None) -> list[Item]:
        """Return the held items with these ids, in order; those that are not held are left out.

        Raises:
            InvalidInputError: for anything but several ids.
        """
        checked = checked_ids(item_ids)
        with self._session.lock, self._session.store.reading():
            space, store = self._session.space(namespace), self._session.store
            row_of = store.items.rows_of(space.namespace, checked)
            items = store.items.at([row for row in row_of.values() if row not in space.expired_items])
        return [items[row_of[item_id]] for item_id in checked if row_of.get(item_id) in items]

    def items(self, filter: Filter | None = None, *, waiting: bool = False, namespace: str | None = None) -> list[Item]:
        """Yield the held items, those of the light tier included, oldest first.

            memory.forget(*memory.items(Filter.eq("source", "notes.md")))

        Args:
            filter: Only those whose metadata satisfies it.
            waiting: Instead, those that wait in the retry queue to be verified again; one that is held already can
                wait, too.
            namespace: Another user's memory in the same file.

        Raises:
            InvalidInputError: for what is no filter.
        """
        condition = checked_filter(filter)
        name = None if namespace is None else checked_text(namespace, "The namespace")
        with self._session.lock, self._session.store.reading():
            space, store = self._session.space(name), self._session.store
            if waiting:
                found = [item for item, *_ in store.retry_queue.waiting(space.namespace)]
                return [item for item in found if condition is None or condition.matches(item.metadata)]
            if condition is None:
                now = time.time()
                return [item for item in store.items.all(space.namespace) if item.ends > now]
            held = store.items.at(rows := sorted(space.items_matching(condition) - space.expired_items))
            return [held[row] for row in rows]

    def context(
        self,
        query: str | Sequence[float] | FloatArray,
        k: int = 5,
        *,
        filter: Filter | None = None,
        namespace: str | None = None,
        options: SearchOptions = SearchOptions(),
        allowance: int = ALLOWANCE,
    ) -> str:
        """Return the text for a model: the preferences that matter to the query, then the hits of `search`.

        Args:
            query, k, filter, namespace, options: As for `search`; `options.opening` says which preferences it opens
                with, and a `min_score` that is no word keeps hits that answer much worse than the first.
            allowance: How many tokens the preferences may take, about.
        """
        hits = self.search(query, k, filter=filter, namespace=namespace, options=options)
        return context_of(hits, options, allowance)

    async def acontext(
        self,
        query: str | Sequence[float] | FloatArray,
        k: int = 5,
        *,
        filter: Filter | None = None,
        namespace: str | None = None,
        options: SearchOptions = SearchOptions(),
        allowance: int = ALLOWANCE,
    ) -> str:
        """As `context`, without blocking the event loop."""
        hits = await self.asearch(query, k, filter=filter, namespace=namespace, options=options)
        return context_of(hits, options, allowance)

    # the file

    def explain(self, item_id: str) -> Explanation:
        """Explain why an item was kept: similarity, rationale, stance, confidence, for each of its entries.

        Raises:
            UnknownItemError: if no item with that id is held.
        """
        checked_text(item_id, "The item's id")
        with self._session.lock, self._session.store.reading():
            return explain(self._session, item_id)

    def stats(self) -> Stats:
        """Return the counts of this namespace, and the bytes of the whole memory by part, as the paper's Table 6."""
        self._session.share_model_usage()
        with self._session.lock, self._session.store.reading():
            return stats(self._session)

    def forget(self, *items: str | Item) -> int:
        """Forget items for good: text, entries, what a model said of them, and that they were ever seen.

        What is removed is overwritten in the file.

        Args:
            *items: Ids, also of a document that was cut into chunks; or the items themselves, even if they
                were not kept.

        Returns:
            How many of them were held, or waited to be verified again.

        Raises:
            UnknownItemError: for an id that nothing is known of; nothing is forgotten then.
        """
        for item in items:
            if not isinstance(item, Item):
                checked_text(item, "The item's id")
        return forget(self._session, items)

    async def aforget(self, *items: str | Item) -> int:
        """As `forget`, without blocking the event loop."""
        return await in_thread(self.forget, *items)

    # the groups and parts

    @property
    def preferences(self) -> MemoryPreferences:
        """The user's preferences, in their order: a sequence, with what changes it."""
        return MemoryPreferences(self._session)

    @property
    def facts(self) -> MemoryFacts:
        """The facts of the user that are held, oldest first: a sequence, with what changes it.

        Raises:
            MissingPackageError: without the package `epic_learn`.
        """
        made: MemoryFacts = optional("epic_learn.facts.memory_facts", "MemoryFacts")(self._session)
        return made

    @property
    def proposals(self) -> MemoryProposals:
        """The proposals that wait for a decision, oldest first: a sequence, with what makes and decides them.

        Raises:
            MissingPackageError: without the package `epic_learn`.
        """
        made: MemoryProposals = optional("epic_learn.memory_proposals", "MemoryProposals")(self._session)
        return made

    @property
    def never(self) -> MemoryNever:
        """The topics and folders of which nothing is kept: a sequence, with what changes it.

        Raises:
            MissingPackageError: without the package `epic_learn`.
        """
        made: MemoryNever = optional("epic_learn.memory_never", "MemoryNever")(self._session)
        return made

    @property
    def file(self) -> MemoryFile:
        """The file: its path, namespaces, checks, copies and exports."""
        return MemoryFile(self._session)

    @property
    def settings(self) -> Settings:
        """The settings that the memory was made or opened with."""
        return self._session.settings

    @property
    def encoder(self) -> Encoder:
        """The encoder in force."""
        return self._session.encoder

    @property
    def verifier(self) -> Verifier:
        """The verifier in force; another one can be set at any time."""
        return self._session.verifier

    @verifier.setter
    def verifier(self, verifier: Verifier | str) -> None:
        verifier = verifier_of(verifier, self._session.encoder, language=self.settings.language)
        checked_part("verifier", verifier, "verify")
        check_reader(self.settings, verifier, self._session.expander)
        self._session.verifier = verifier

    @property
    def namespace(self) -> str:
        """Whose memory this is."""
        return self._session.namespace

    @property
    def tau(self) -> float:
        """The coarse filter's threshold in force."""
        return self._session.tau

    @property
    def opening_report(self) -> BuildReport:
        """The report of making or opening this memory: preferences that were read, or changed by `sync=True`."""
        return copy.deepcopy(self._session.opened)

    def __len__(self) -> int:
        with self._session.lock, self._session.store.reading():
            return len(self._session.space().rows_of)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        path = self._session.store.path
        where = "in RAM" if path is None else str(path)
        return f"<EpicMemory {where}, namespace {self.namespace!r}{', closed' if self._session.store.closed else ''}>"

    def __reduce__(self) -> Any:
        raise NotCopiedError(
            f"{self!r} is open, and can be neither pickled nor copied. Share the object; where that cannot be, open its"
            " file again: EpicMemory.open(path)."
        )

    def close(self) -> None:
        """Close the file, which is then one file and no more; closing twice is fine.

        A model that is being asked in the background has two seconds for its answer, which is then kept.
        """
        self._session.background.close(_LAST_ANSWER)
        with self._session.lock:
            self._session.share_model_usage()
            self._session.spaces.clear()
            self._session.store.close()

    def __enter__(self) -> EpicMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def checked_memory(memory: object) -> EpicMemory:
    """Return the memory that a function is given, or raise `InvalidInputError` for anything else."""
    if not isinstance(memory, EpicMemory):
        raise InvalidInputError(f"memory must be an EpicMemory, not {type(memory).__name__}: EpicMemory.open(path).")
    return memory
