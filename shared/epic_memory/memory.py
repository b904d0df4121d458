"""EpicMemory: the one facade over the three stages, the index and the file."""

# Longer than other modules: it is the reference of what users call, each method twice, and does nothing itself.

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, overload

from typing_extensions import Unpack

from epic_learn.conversations import Conversation, conversation_items, read_conversation
from epic_learn.credentials import without_credentials
from epic_learn.proposals import accept, add_proposals, found_proposal, propose, reject
from epic_memory.context import ALLOWANCE, format_context, those_that_matter, told_in_context
from epic_memory.encoders import Encoder, encoder_of
from epic_memory.encoders.base import checked_vector
from epic_memory.encoders.by_name import bundled_encoder_of
from epic_memory.errors import InvalidInputError, NotCopiedError
from epic_memory.filters import Filter
from epic_memory.pipeline.aspects import (
    Expanding,
    Reading,
    checked_expander,
    checked_expanding,
    checked_reading,
    set_aspects,
    set_expansion,
)
from epic_memory.pipeline.choice import Feedback, Select, checked_choice, learn, own_reranker, set_reranker
from epic_memory.pipeline.expiry import drop_expired
from epic_memory.pipeline.explain import entries, explain, outline, stats
from epic_memory.pipeline.export import export, read_export
from epic_memory.pipeline.facts import made_fact
from epic_memory.pipeline.fallback import checked_fallback
from epic_memory.pipeline.forget import forget
from epic_memory.pipeline.ingest import PARTS, add_batch, resume, retry, warn
from epic_memory.pipeline.judge import JUDGED_AT_ONCE, judge_batch
from epic_memory.pipeline.on_demand import checked_on_demand
from epic_memory.pipeline.opening import found_namespace, hold_to, take_over, take_up
from epic_memory.pipeline.preferences import add_preference, remove_preference, replace_preference
from epic_memory.pipeline.reencode import reencode_memory
from epic_memory.pipeline.search import (
    BY_VECTOR,
    Keys,
    checked_filter,
    checked_search,
    preferences_by_weight,
    search,
    search_vector,
)
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.tags import checked_tagger
from epic_memory.pipeline.undo import undo
from epic_memory.preferences.parser import aspects_of
from epic_memory.retention.budget import checked_budget, checked_reserve
from epic_memory.retention.policies import ByValue, RetentionPolicy, checked_policy
from epic_memory.runtime.batching import Items, abatches, batches, checked_part, unique_preferences
from epic_memory.runtime.effects import Clock, Effects, arun, run
from epic_memory.runtime.progress import Progress
from epic_memory.runtime.telemetry import counts_of, span
from epic_memory.runtime.threads import in_thread
from epic_memory.storage.sqlite.files import encoder_in
from epic_memory.storage.store import Store
from epic_memory.text.chunking import Chunker, ConversationChunker
from epic_memory.text.tagging import Tagger
from epic_memory.types import (
    Aspects,
    BuildReport,
    Expansion,
    Explanation,
    FloatArray,
    Hits,
    Item,
    MemoryEntry,
    Outline,
    Preference,
    Stats,
    checked_string,
    checked_text,
)
from epic_memory.types.digests import digest
from epic_memory.types.edits import Edit
from epic_memory.types.modes import MinScore, Mode, StancePolicy, checked_mode
from epic_memory.types.proposals import Proposal, Proposals
from epic_memory.types.reports import NotKept
from epic_memory.types.validation import checked_keep_rate, checked_tau, one_of
from epic_memory.types.verdicts import Judged
from epic_memory.verification import Verifier
from epic_memory.verification.base import base_verifier
from epic_memory.verification.embedded import verifier_of
from epic_rerank import LearnedReranker

if TYPE_CHECKING:
    from epic_learn.forms import Due, FilledForm, Form
    from epic_memory.lm.base import LanguageModel
    from epic_memory.lm.budget import ModelBudget

Reporting: TypeAlias = Callable[[BuildReport, Clock, Progress], Effects[None]]
"""Work that says in a report what it did."""

OnBatch: TypeAlias = Callable[[BuildReport], object]
"""Told the report so far, after each batch."""


class Options(TypedDict, total=False):
    """The keyword arguments of `EpicMemory`, as `EpicMemory.open` takes them too."""

    encoder: Encoder | str | None
    verifier: Verifier | str | None
    tau: float | None
    keep_rate: float | None
    coarse_recall: float | None
    on_demand: str | float | None
    steering: Mode
    chunker: Chunker | None
    fallback: Any
    namespace: str
    coarse: bool
    fine: bool
    verdict_cache: int
    retry_queue: int
    ledger: int | None
    not_kept: int | None
    budget: int | str | None
    reserve: int | str | None
    retention: RetentionPolicy | None
    floor: int
    aspects: Reading
    expansions: Expanding
    expander: LanguageModel | str | None
    tagger: Tagger | None
    model_budget: int | str | None


class OptionsWithModel(Options, total=False):
    """The same with the language model, which the plugins take in forms of their own."""

    llm: Any


class ModelOptions(TypedDict, total=False):
    """Those that say which language model is asked, and how much."""

    llm: Any
    model_budget: int | str | None
    on_demand: str | float | None


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
        encoder: An encoder, or the name of one, as `encoder_of` takes it: "static", "minilm",
            "sentence-transformers/all-MiniLM-L6-v2", "ollama/nomic-embed-text". Default: "minilm" if that is installed,
            else "static"; a file that was made with one of these keeps it.
        llm: A language model for all that one can do: it explains each preference once, judges what passes the coarse
            filter and what questions find, tells what a new fact changes, and reads conversations and forms. A name
            (`lm_of`): "ollama:qwen3:4b", "openai:MODEL@http://localhost:8000/v1", "llama.cpp:model.gguf", "auto" for
            whatever answers on this machine; or a model of LangChain or LlamaIndex. Default: none is asked.
        model_budget: How much `llm` may be asked a day: a number of calls, or text like "50000 tokens". What is left
            over is undecided and waits for `retry`. The file counts.
        verifier: Fine verification; a name such as "ollama:qwen3:4b" is an `LMVerifier` with that model (`lm_of`).
            Default: `EmbeddedVerifier(encoder)`.
        tau: The coarse filter's threshold, a cosine; default: the one that belongs to the encoder.
        keep_rate: Instead of tau, the share of the first items that shall pass, in (0, 1]; resolved to a
            tau once and stored.
        coarse_recall: Where a language model judges, which share of what matters is to pass the coarse filter, as
            measured for the encoder, in (0, 1); None for the encoder's own tau.
        on_demand: Where a language model judges, what becomes of texts that a question finds and that nobody has judged
            under the preferences that matter to it: they are judged in the "background", for later answers; or within a
            time such as "300 ms", which the answer waits; or not ("off"). Default: in the background with `llm`.
        steering: "signed", "paper" (Eq. 7-8) or "off"; `search` can override it.
        chunker: Cuts each item before the coarse filter; default: an item is one chunk.
        fallback: Asked when the memory holds nothing relevant to a query: a callable `(query, k)`, or an object with
            `search(query, k)`.
        namespace: Whose memory this is; nothing of another namespace is seen.
        coarse, fine: Switch a stage off, for ablations.
        verdict_cache: How many verdicts of a language model are kept, so that the same text under the same
            preference is not asked about again; 0 keeps none.
        retry_queue: How many undecided items may wait; a call that would add more stops with an error.
        ledger: How many discarded items are remembered, so that they are skipped when they come again; 0 for none.
            Default: a twentieth of the file, less in a small one, 200 at least.
        not_kept: How many discarded items are kept on record, as a sample, and how many evicted ones. Default: as many
            as fit into a hundredth of the file each, 4 at least.
        budget: Bytes that the file never exceeds: a number, or text like "1 MB"; while a call writes, its journal may
            stand beside it. The file remembers the budget; "unlimited" lifts it. The other limits are lowered to what
            fits.
        reserve: The file size up to which discarded items stay in the light tier, by their text only, the best first: a
            number of bytes, or text like "1 MB", the default. The tier gives way to what is kept, is searched with it,
            and is compared with every new preference. 0 means no light tier, as in the paper. The file remembers it.
        retention: What goes first when the budget is reached: a `RetentionPolicy`; default `ByValue()`.
        floor: How many entries each preference keeps at least, within half of the budget.
        aspects: What reads a new preference's likes and dislikes, once: the verifier's language model ("model"), which
            takes one call, or a parser ("parser"); "auto" is the model if there is one. `opening_report` tells how it
            went with those given here. Calls made here block: within an event loop, make the memory in a thread, or
            add preferences by `aadd_preference`.
        expansions: Who says, once, what a new preference means in practice: questions for which it matters, what
            follows it and what breaks it. "model" is the verifier's language model, in the same call that reads the
            aspects; "bundled" borrows from a library that comes with the package, and asks no model; "off" does
            without. "auto" is the model if there is one, else the library; with `aspects="parser"` the model is not
            asked.
        expander: A language model that reads and expands preferences in place of the verifier's, such as
            `OllamaLM("qwen3:4b")` beside the embedded verifier.
        tagger: Gives tags to items, as metadata `tags_topics`, `tags_entities`, `tags_kind`, `tags_intent` and
            `tags_preferences`, for filters: `epic_graph.PhraseTagger()`, `LMTagger(lm)`.

    Raises:
        InvalidInputError: if an argument is invalid.
        DuplicatePreferenceError: if a preference is given twice.
    """

    def __init__(
        self,
        preferences: Iterable[str | Preference] = (),
        *,
        encoder: Encoder | str | None = None,
        verifier: Verifier | str | None = None,
        tau: float | None = None,
        keep_rate: float | None = None,
        coarse_recall: float | None = 0.9,
        on_demand: str | float | None = None,
        steering: Mode = "signed",
        chunker: Chunker | None = None,
        fallback: Any = None,
        namespace: str = "default",
        coarse: bool = True,
        fine: bool = True,
        verdict_cache: int = 50_000,
        retry_queue: int = 10_000,
        ledger: int | None = None,
        not_kept: int | None = None,
        budget: int | str | None = None,
        reserve: int | str | None = None,
        retention: RetentionPolicy | None = None,
        floor: int = 3,
        aspects: Reading = "auto",
        expansions: Expanding = "auto",
        expander: LanguageModel | str | None = None,
        tagger: Tagger | None = None,
        llm: Any = None,
        model_budget: int | str | None = None,
        _store: Callable[[], Store] | None = None,
    ) -> None:
        if tau is not None and keep_rate is not None:
            raise InvalidInputError("Give tau or keep_rate, not both.")
        if keep_rate is not None:
            checked_keep_rate(keep_rate)
        if coarse_recall is not None:
            checked_keep_rate(coarse_recall, "coarse_recall")
        waits = checked_on_demand(("off" if llm is None else "background") if on_demand is None else on_demand)
        checked_text(namespace, "The namespace")
        limits = {
            "verdict_cache": verdict_cache,
            "retry_queue": retry_queue,
            "ledger": 0 if ledger is None else ledger,
            "not_kept": 0 if not_kept is None else not_kept,
            "floor": floor,
        }
        for limit, value in limits.items():
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
                raise InvalidInputError(f"{limit} must be a whole number of at least 0, not {value!r}.")
        mode, given = checked_mode(steering), unique_preferences(preferences)
        octets, light = checked_budget(budget), checked_reserve(reserve)
        own_tau, fallback = None if tau is None else checked_tau(tau), checked_fallback(fallback)
        encoder = encoder_of(encoder)
        lm, allowed = asked_model(llm, model_budget)
        verifier = verifier_of(verifier, encoder, lm)
        for name, part, method in (
            ("verifier", verifier, "verify"),
            ("chunker", chunker, "chunks"),
        ):
            if part is not None:
                checked_part(name, part, method)
        if retention is not None:
            checked_policy(retention)
        reader = checked_expander(expander if base_verifier(verifier).aspect_reader or expander is not None else lm)
        self._session = Session(
            encoder=encoder,
            verifier=verifier,
            aspects=checked_reading(aspects, verifier, reader),
            expansions=checked_expanding(expansions, verifier, reader),
            expander=reader,
            steering=mode,
            chunker=chunker,
            fallback=fallback,
            tagger=checked_tagger(tagger),
            namespace=namespace,
            coarse=coarse,
            fine=fine,
            keep_rate=keep_rate,
            own_tau=own_tau,
            coarse_recall=coarse_recall,
            on_demand=waits,
            lm=lm,
            model_budget=allowed,
            retry_queue=int(retry_queue),
            retention=ByValue() if retention is None else retention,
            floor=int(floor),
            # Last, so that no argument that cannot be leaves a file behind.
            store=Store(None) if _store is None else _store(),
        )
        self._session.store.verdicts.kept = int(verdict_cache)
        self._session.store.seen.kept = None if ledger is None else int(ledger)
        self._session.store.seen.records_kept = None if not_kept is None else int(not_kept)
        hold_to(self._session, octets, light)
        self._session.share_model_usage()
        if _store is None:
            found_namespace(self._session, given)

    @classmethod
    def open(
        cls,
        path: str | Path,
        preferences: Iterable[str | Preference] | None = None,
        *,
        sync: bool = False,
        reencode: bool = False,
        must_exist: bool = False,
        read_only: bool = False,
        **options: Unpack[OptionsWithModel],
    ) -> EpicMemory:
        """Open the memory in a file, or make it. Use it in a `with`, or `close()` it.

        Args:
            path: The file.
            preferences: What a new file starts with. For an existing one they must be those it holds.
            sync: Change the preferences of an existing file to those given instead.
            reencode: Embed an existing file anew if it was made with another encoder.
            must_exist: Refuse to make a new file.
            read_only: Never write into the file: it can be searched, and changes by other processes are seen.
            **options: As for `EpicMemory`.

        Raises:
            StoreError: if the file cannot be opened or is no memory.
            DamagedError: if its content does not match its checksums.
            EncoderMismatchError: if it was made with another encoder.
            PreferencesMismatchError: if it holds other preferences.
        """
        if not isinstance(path, (str, Path)) or not str(path):
            raise InvalidInputError(f"open needs the name of a file, not {path!r}. EpicMemory() makes one in RAM.")
        if str(path) == ":memory:":
            raise InvalidInputError("':memory:' is no file here: EpicMemory(preferences=[...]) makes a memory in RAM.")
        given = None if preferences is None else unique_preferences(preferences)
        if options.get("encoder") is None:
            options["encoder"] = bundled_encoder_of(encoder_in(Path(path)))
        make = partial(Store, path, must_exist=must_exist, read_only=read_only)
        return cls._over(make, partial(take_up, given=given, sync=sync, reencode=reencode), options)

    @classmethod
    def import_(cls, export: str | Path, path: str | Path, **options: Unpack[OptionsWithModel]) -> EpicMemory:
        """Make a memory from an export, embedded with the encoder given.

        Args:
            export: The file of JSON lines.
            path: The memory's file: a new one, or one whose namespace of this name holds nothing.
            **options: As for `EpicMemory`.

        Raises:
            InvalidInputError: naming the line that is wrong, or if the export was cut; nothing is written then.
            StoreError: if a file cannot be read or written, or the namespace holds something.
        """
        if "preferences" in options:
            raise InvalidInputError("import_ takes the preferences of the export. Change them afterwards.")
        read = read_export(Path(export))
        return cls._over(partial(Store, path), partial(take_over, read=read), options, imports=True)

    @classmethod
    def _over(
        cls,
        make: Callable[[], Store],
        begin: Callable[[Session], None],
        options: OptionsWithModel,
        *,
        imports: bool = False,
    ) -> EpicMemory:
        """Make a memory over a file, and leave no new file behind where that fails."""
        store: list[Store] = []

        def made() -> Store:
            store.append(make())
            return store[0]

        try:
            memory = cls(_store=made, **options)
            begin(memory._session)
        except BaseException:
            if store:
                store[0].discard_if_new(whatever=imports)
            raise
        return memory

    # running

    def _reported(self, steps: Reporting, progress: bool = False) -> BuildReport:
        self._session.store.check_writable()
        report, clock = self._new_report()
        with Progress(shown=progress) as bar:
            run(steps(report, clock, bar), clock)
        return self._finished(report, clock)

    async def _areported(self, steps: Reporting, progress: bool = False) -> BuildReport:
        self._session.store.check_writable()
        report, clock = self._new_report()
        with Progress(shown=progress) as bar:
            await arun(steps(report, clock, bar), clock)
        return self._finished(report, clock)

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
        self._session.store.check_writable()
        report, clock = self._new_report()
        resume(self._session)
        with span("build", clock) as counts, Progress(items, shown=progress is True) as bar:
            for batch in batches(items):
                run(add_batch(self._session, batch, report, clock, bar, light=light), clock)
                counts.update(counts_of(report))
                if callable(progress):
                    progress(self._so_far(report, clock))
        return self._finished(report, clock)

    async def aadd(
        self, items: Items | AsyncIterable[str | Item], *, light: bool = True, progress: bool | OnBatch = False
    ) -> BuildReport:
        """As `add`, without blocking the event loop; also takes an asynchronous iterable."""
        self._session.store.check_writable()
        report, clock = self._new_report()
        resume(self._session)
        with span("build", clock) as counts, Progress(items, shown=progress is True) as bar:
            async for batch in abatches(items):
                await arun(add_batch(self._session, batch, report, clock, bar, light=light), clock)
                counts.update(counts_of(report))
                if callable(progress):
                    told = progress(self._so_far(report, clock))
                    if inspect.isawaitable(told):
                        await told
        return self._finished(report, clock)

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
        report, clock = _checked_report(report), Clock()
        with Progress(items, shown=progress) as bar:
            for batch in batches(items, JUDGED_AT_ONCE):
                judged = run(judge_batch(self._session, batch, report, clock, bar), clock)
                report.timings, report.tau = dict(clock.parts), self._tau_in_use()
                yield from judged

    async def ajudge(
        self, items: Items | AsyncIterable[str | Item], *, report: BuildReport | None = None, progress: bool = False
    ) -> AsyncIterator[Judged]:
        """As `judge`, without blocking the event loop; also takes an asynchronous iterable."""
        report, clock = _checked_report(report), Clock()
        with Progress(items, shown=progress) as bar:
            async for batch in abatches(items, JUDGED_AT_ONCE):
                judged = await arun(judge_batch(self._session, batch, report, clock, bar), clock)
                report.timings, report.tau = dict(clock.parts), self._tau_in_use()
                for one in judged:
                    yield one

    def add_fact(
        self,
        fact: str | Item,
        *,
        type: str = "",
        subclass: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | None = None,
    ) -> BuildReport:
        """Add a fact of the user, such as "I work night shifts": held whatever the preferences are, never evicted.

        A plain statement about the same subject replaces a fact that is held, or ends it; `report.edits` says which,
        `undo` takes it back. What may change another fact is held beside it, and the change waits in `proposals`.

        Args:
            fact: A short statement, in English for updates to be recognised.
            type, subclass: Kept as the metadata `memory_type` and `memory_subclass`.
            metadata: More metadata.
            expires_at: Time from which it does not hold any more, with a zone; by default the end of the day that it
                states itself, as in "My voucher expires on 14 May 2027".

        Raises:
            InvalidInputError: for a fact that is too long, or arguments that cannot be.
            BudgetError: if there are too many facts, or the budget has no room.
            EncoderError: if the encoder fails.
        """
        return self.add([_ending(made_fact(fact, type, subclass, metadata, expires_at))])

    async def aadd_fact(
        self,
        fact: str | Item,
        *,
        type: str = "",
        subclass: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | None = None,
    ) -> BuildReport:
        """As `add_fact`, without blocking the event loop."""
        return await self.aadd([_ending(made_fact(fact, type, subclass, metadata, expires_at))])

    def facts(self, *, namespace: str | None = None) -> list[Item]:
        """Return the facts of the user that are held, oldest first."""
        return [item for item in self.items(namespace=namespace) if item.fact]

    def edits(self) -> list[Edit]:
        """Return what adding facts did, newest first: the last hundred, or fewer under a byte budget."""
        with self._session.lock, self._session.store.reading():
            return self._session.store.edits.all(self._session.namespace)

    def undo(self, edit: Edit | int) -> Edit:
        """Take an edit of facts back: what it added goes, what it replaced or ended is held again.

        An item that became a fact is an item again, and verified anew. If the edit came of a proposal, nothing but
        digests of that stay, so that it is not made again.

        Raises:
            UnknownItemError: if there is no such edit any more, or a later one builds on it, which has to go first.
        """
        self._session.store.check_writable()
        return run(undo(self._session, edit.id if isinstance(edit, Edit) else edit))

    async def aundo(self, edit: Edit | int) -> Edit:
        """As `undo`, without blocking the event loop."""
        self._session.store.check_writable()
        return await arun(undo(self._session, edit.id if isinstance(edit, Edit) else edit))

    def add_conversation(
        self,
        messages: Any,
        *,
        chunker: ConversationChunker | None = None,
        metadata: Mapping[str, Any] | None = None,
        light: bool = True,
    ) -> BuildReport:
        """Offer a conversation in windows of a few turns, which know their `turn`, `time`, `speaker` and `source`.

        These are metadata: the number and time of a window's first turn, and who speaks if it is one. They rank what a
        question finds that names a speaker or a month, or that a turn answers.

        Args:
            messages: In their order: mappings with `role` and `content` as OpenAI and Anthropic have them, message
                objects of LangChain or LlamaIndex, a ChatGPT or mem0 export, or a text with "Name: words" lines. The
                report's `unusable` counts what could not be used, such as tool calls and images, and sentences with a
                password, which are left out.
            chunker: Cuts the windows.
            metadata: Of every window, such as a session's id; `kind` and `window` are ours. The same words with
                other metadata are another item.
            light: Whether what is not kept may stay in the light tier.

        Raises:
            InvalidInputError: for what holds no messages, or metadata that cannot be; and as `add`.
        """
        conversation = without_credentials(read_conversation(messages))
        report = self.add(conversation_items(conversation, chunker, metadata), light=light)
        report.unusable = dict(+conversation.unusable)
        return report

    async def aadd_conversation(
        self,
        messages: Any,
        *,
        chunker: ConversationChunker | None = None,
        metadata: Mapping[str, Any] | None = None,
        light: bool = True,
    ) -> BuildReport:
        """As `add_conversation`, without blocking the event loop."""
        conversation = without_credentials(await in_thread(read_conversation, messages))
        report = await self.aadd(conversation_items(conversation, chunker, metadata), light=light)
        report.unusable = dict(+conversation.unusable)
        return report

    def retry(self, *, progress: bool = False) -> BuildReport:
        """Verify the undecided items again."""
        return self._reported(self._retrying, progress)

    async def aretry(self, *, progress: bool = False) -> BuildReport:
        """As `retry`, without blocking the event loop."""
        return await self._areported(self._retrying, progress)

    def _retrying(self, report: BuildReport, clock: Clock, progress: Progress) -> Effects[None]:
        yield from retry(self._session, report, clock, progress)

    def _new_report(self) -> tuple[BuildReport, Clock]:
        self._session.share_model_usage()
        clock = Clock()
        clock.parts.update(dict.fromkeys(PARTS, 0.0))
        return BuildReport(), clock

    def _tau_in_use(self) -> float | None:
        return self._session.tau if self._session.coarse else None

    def _so_far(self, report: BuildReport, clock: Clock) -> BuildReport:
        report.timings = dict(clock.parts)
        report.tau = self._tau_in_use()
        return copy.deepcopy(report)

    def _finished(self, report: BuildReport, clock: Clock) -> BuildReport:
        report = self._so_far(report, clock)
        self._session.share_model_usage()
        warn(report, self._session)
        return report

    # retrieving

    def search(
        self,
        query: str,
        k: int = 5,
        *,
        filter: Filter | None = None,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
        stance_policy: StancePolicy = "prefer",
        namespace: str | None = None,
        keys: Keys = "both",
        min_score: MinScore = "auto",
        reranker: LearnedReranker | bool | None = None,
        select: Select = "k",
    ) -> Hits:
        """Return the k items that answer a query best under the user's preferences.

        Args:
            query: Not empty.
            k: How many items, at least 1; fewer come back if fewer are held.
            filter: A condition on metadata, applied inside the search.
            steering: Overrides the memory's mode.
            preferences: The preferences to use in this call: only these steer, and only their entries are searched.
            stance_policy: "prefer" ranks what conflicts with a preference below all that answers and does not, however
                near it is, if the preference is firm, and by a penalty, if it is mild (`steering.ranking`);
                "only_supports" leaves out items that conflict with a preference, in part or whole; "any" ranks by
                similarity alone. A question that asks what stands in a note is answered by its topic.
            namespace: Another user's memory in the same file.
            keys: "both" finds an item by its title, text and exact words, and by its instructions if it has no text
                embedded; "instruction" by its instructions alone, as in the paper.
            min_score: The least relevance of a hit: "auto" for the encoder's own floor, below which nothing is returned
                and the fallback is asked; a cosine; or None, which always returns k hits, as in the paper.
            reranker: Chooses the k hits of twenty by what helped before: one that was trained, or True for what this
                memory has learnt (`learn`). Scores stay those of retrieval; `Hits.ranking` has its probabilities.
            select: "k" for k hits; "adaptive" for as many as the question needs, at most k.

        Returns:
            Hits, best first, with `timings` in seconds; `relevant` tells whether the memory holds anything relevant.

        Raises:
            InvalidInputError: for an empty query, k below 1, an unknown policy or mode, or nothing to embed.
            UnknownPreferenceError: for a preference that is not held.
        """
        clock = Clock()
        asked = checked_search(
            self._session,
            query,
            k,
            filter=filter,
            steering=steering,
            preferences=preferences,
            stance_policy=stance_policy,
            namespace=namespace,
            keys=keys,
            min_score=min_score,
            choice=checked_choice(
                self._session,
                reranker,
                select,
                namespace=namespace,
                plain=keys == "both",
            ),
        )
        return run(search(self._session, asked, clock), clock)

    async def asearch(
        self,
        query: str,
        k: int = 5,
        *,
        filter: Filter | None = None,
        steering: Mode | None = None,
        preferences: Iterable[str | Preference] | None = None,
        stance_policy: StancePolicy = "prefer",
        namespace: str | None = None,
        keys: Keys = "both",
        min_score: MinScore = "auto",
        reranker: LearnedReranker | bool | None = None,
        select: Select = "k",
    ) -> Hits:
        """As `search`, without blocking the event loop."""
        clock = Clock()
        asked = checked_search(
            self._session,
            query,
            k,
            filter=filter,
            steering=steering,
            preferences=preferences,
            stance_policy=stance_policy,
            namespace=namespace,
            keys=keys,
            min_score=min_score,
            choice=checked_choice(
                self._session,
                reranker,
                select,
                namespace=namespace,
                plain=keys == "both",
            ),
        )
        return await arun(search(self._session, asked, clock), clock)

    def learn(self, hits: Hits, feedback: Feedback) -> None:
        """Learn which hits help from what the user did with those of a search with `reranker=`.

            hits = memory.search("What should I cook tonight?", k=3, reranker=True)
            memory.learn(hits, {hits[1].item.id: "used"})

        It learns numbers only. They are stored in the file, exported, and deleted by `forget_learnt`. Hits that the
        feedback does not name count as shown in vain.

        Args:
            hits: The whole result.
            feedback: By the id of an item: "used", "copied", "thumb", "corrected", or a reward in [0, 1].

        Raises:
            InvalidInputError: for hits of a search without a reranker, another item, or another signal.
        """
        learn(self._session, hits, feedback)

    async def alearn(self, hits: Hits, feedback: Feedback) -> None:
        """As `learn`, without blocking the event loop."""
        await in_thread(learn, self._session, hits, feedback)

    @property
    def reranker(self) -> LearnedReranker:
        """What this memory has learnt, or an untrained reranker; set one that was trained, and the file keeps it."""
        return own_reranker(self._session, self.namespace)

    @reranker.setter
    def reranker(self, reranker: LearnedReranker) -> None:
        set_reranker(self._session, reranker)

    def forget_learnt(self) -> bool:
        """Forget what was learnt of feedback and by training, and return whether there was anything."""
        return set_reranker(self._session, None)

    def fill(
        self,
        form: Form | Mapping[str, Any] | str | Path,
        lm: LanguageModel | str | None = None,
        *,
        namespace: str | None = None,
    ) -> FilledForm:
        """Fill in a form from what is held: for each field the value, and the memory that it comes from.

            filled = memory.fill({"fields": [{"name": "born", "question": "When was I born?", "type": "date"}]})
            print(filled.values)

        Nothing is guessed. Without a model, the value is read off the one sentence that answers a field's question, in
        English; a field stays empty where nothing relevant is known, and undecided where what is known does not tell.

        Args:
            form: Fields, each with a name, and a question, a type ("text", "number", "date", "choice", "boolean") and
                choices if it needs them; or the path of a file of JSON.
            lm: A language model that reads the values, one call a field, or its name (`lm_of`); default: the memory's
                `llm`. What it says counts if the words that it quotes are a memory's, and the value is in them; else
                the field is undecided.
            namespace: Another user's memory in the same file.

        Raises:
            InvalidInputError: for what is no form.
        """
        clock = Clock()
        return run(self._filling(form, lm, namespace, clock), clock)

    async def afill(
        self,
        form: Form | Mapping[str, Any] | str | Path,
        lm: LanguageModel | str | None = None,
        *,
        namespace: str | None = None,
    ) -> FilledForm:
        """As `fill`, without blocking the event loop."""
        clock = Clock()
        return await arun(self._filling(form, lm, namespace, clock), clock)

    def _filling(
        self,
        form: Form | Mapping[str, Any] | str | Path,
        lm: LanguageModel | str | None,
        namespace: str | None,
        clock: Clock,
    ) -> Effects[FilledForm]:
        from epic_learn.forms.fields import Form
        from epic_learn.forms.filling import CANDIDATES, fill

        lm = self._session.lm if lm is None else asked_model(lm)[0]

        def looked_up(question: str) -> Effects[Hits]:
            asked = checked_search(
                self._session, question, CANDIDATES, filter=None, steering="signed", preferences=None,
                stance_policy="any", namespace=namespace,
            )  # fmt: skip
            return search(self._session, asked, clock)

        return fill(Form.of(form), looked_up, lm)

    def due(self, before: date | datetime | str | None = None, *, namespace: str | None = None) -> list[Due]:
        """Return what is held about the days that are coming up, soonest first: reminders.

        Facts count by the days that their words name ("Mia's birthday is on 4 May", "the lease ends on 2027-03-31"),
        and everything by its `expires_at`. Days are those of local time; one without a year is the next of its kind.

        Args:
            before: The first day that is too late, also as text like "2027-03-31"; None for 30 days from today.
            namespace: Another user's memory in the same file.

        Raises:
            InvalidInputError: for what is no day.
        """
        from epic_learn.forms.reminders import due

        return due(self.items(namespace=namespace), before)

    def search_vector(
        self,
        vector: Sequence[float] | FloatArray,
        k: int = 5,
        *,
        filter: Filter | None = None,
        stance_policy: StancePolicy = "prefer",
        namespace: str | None = None,
        min_score: MinScore = "auto",
    ) -> Hits:
        """As `search`, by a vector of the encoder's: nothing steers it, and no fallback is asked.

        Args:
            vector: Shape `(d,)`, of any length other than zero.
            k, filter, stance_policy, namespace, min_score: As for `search`.

        Raises:
            InvalidInputError: for a vector of another dimension, k below 1 or an unknown policy.
        """
        asked = checked_search(
            self._session,
            BY_VECTOR,
            k,
            filter=filter,
            steering="off",
            preferences=None,
            stance_policy=stance_policy,
            namespace=namespace,
            min_score=min_score,
        )
        unit = checked_vector(vector, self.encoder.dimension, self)
        return search_vector(self._session, asked, unit)

    def get(self, item_ids: Iterable[str], *, namespace: str | None = None) -> list[Item]:
        """Return the held items with these ids, in order; those that are not held are left out.

        Raises:
            InvalidInputError: for anything but several ids.
        """
        checked = checked_ids(item_ids)
        with self._session.lock, self._session.store.reading():
            name = self._session.space(namespace).namespace
            found = [self._session.store.items.row(name, item_id) for item_id in checked]
            gone = self._session.space(namespace).expired_items
            rows = [row for row in found if row is not None and row not in gone]
            items = self._session.store.items.at(list(dict.fromkeys(rows)))
        return [items[row] for row in rows]

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

    def context(self, query: str, k: int = 5, *, allowance: int = ALLOWANCE, **options: Any) -> str:
        """Return the text for a model: the preferences that matter to the query, then the hits of `search`.

        Args:
            query, k: As for `search`.
            allowance: How many tokens the preferences may take, about.
            **options: As for `search`. `preferences` may also be "matter", the default, "all" or "none": which of the
                user's preferences it opens with. All of them are worth their tokens while they are few and the model
                is strong; none is the paper's.
        """
        told, options = told_in_context(options)
        found, every = self.search(query, k, **options), "min_score" in options
        return format_context(found, preferences=told, allowance=allowance, every_hit=every)

    async def acontext(self, query: str, k: int = 5, *, allowance: int = ALLOWANCE, **options: Any) -> str:
        """As `context`, without blocking the event loop."""
        told, options = told_in_context(options)
        found, every = await self.asearch(query, k, **options), "min_score" in options
        return format_context(found, preferences=told, allowance=allowance, every_hit=every)

    def preferences_for(
        self, query: str, *, allowance: int = ALLOWANCE, namespace: str | None = None
    ) -> list[Preference]:
        """Return the preferences that matter to a query, heaviest first, as many as fit into an allowance of tokens.

        They are those that `context` opens with; what is held about the query's topic helps to tell. No model is
        called. For a prompt of one's own, or where nothing but the preferences is wanted.

        Raises:
            InvalidInputError: for an empty query.
        """
        return those_that_matter(run(self._weighing(query, namespace)), allowance)

    async def apreferences_for(
        self, query: str, *, allowance: int = ALLOWANCE, namespace: str | None = None
    ) -> list[Preference]:
        """As `preferences_for`, without blocking the event loop."""
        return those_that_matter(await arun(self._weighing(query, namespace)), allowance)

    def _weighing(self, query: str, namespace: str | None) -> Effects[list[tuple[Preference, float]]]:
        checked_text(query, "The query")
        name = self.namespace if namespace is None else checked_text(namespace, "The namespace")
        return preferences_by_weight(self._session, query, name)

    # preferences

    @property
    def preferences(self) -> list[Preference]:
        """The user's preferences, in their order."""
        with self._session.lock:
            return list(self._session.space().preferences)

    def add_preference(self, preference: str | Preference, *, progress: bool = False) -> BuildReport:
        """Add a preference; items already held are matched with it too.

        Raises:
            DuplicatePreferenceError: if it is held already.
        """
        steps = partial(add_preference, self._session, Preference.of(preference))
        return self._reported(steps, progress)

    async def aadd_preference(self, preference: str | Preference, *, progress: bool = False) -> BuildReport:
        """As `add_preference`, without blocking the event loop."""
        steps = partial(add_preference, self._session, Preference.of(preference))
        return await self._areported(steps, progress)

    def remove_preference(self, preference: str | Preference) -> BuildReport:
        """Remove a preference (by text, id or object), its entries, and what was written for it.

        Items that no other preference holds are left in the light tier by their text alone; with `reserve=0` they go.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        return self._reported(partial(remove_preference, self._session, preference))

    async def aremove_preference(self, preference: str | Preference) -> BuildReport:
        """As `remove_preference`, without blocking the event loop."""
        return await self._areported(partial(remove_preference, self._session, preference))

    def replace_preference(
        self, old: str | Preference, new: str | Preference, *, progress: bool = False
    ) -> BuildReport:
        """Put a preference in another's place; the held items are matched with it, the old one's included.

        Raises:
            UnknownPreferenceError: if the old one is not held.
            DuplicatePreferenceError: if the new one is held already.
        """
        steps = partial(replace_preference, self._session, old, Preference.of(new))
        return self._reported(steps, progress)

    async def areplace_preference(
        self, old: str | Preference, new: str | Preference, *, progress: bool = False
    ) -> BuildReport:
        """As `replace_preference`, without blocking the event loop."""
        steps = partial(replace_preference, self._session, old, Preference.of(new))
        return await self._areported(steps, progress)

    # what is learnt from what is said

    def propose(
        self,
        messages: Any,
        lm: LanguageModel | str | None = None,
        auto: float | None = None,
        *,
        user: str | Collection[str] = (),
    ) -> Proposals:
        """Read a conversation for what it says of the user; nothing takes effect before it is accepted.

            for proposal in memory.propose(messages):
                print(proposal, proposal.quote)
                memory.accept(proposal)

        Only the user's own turns count, in the first person and literally quoted; not questions, conditions,
        quotations, pasted texts or the tastes of others. "Today" and "this time" expire. A change of mind ("I quit
        coffee") refers to the preference or fact that it changes.

        Args:
            messages: As for `add_conversation`. Only the quotes are stored. Sentences with a password are not read.
            lm: A language model that reads it too, one call for a few turns; or its name (`lm_of`). Default: the
                memory's `llm`.
            auto: Accept by itself additions of at least this confidence, in (0, 1]; 0.9 for what is said plainly.
            user: Names of speakers who are the user, besides "user".

        Returns:
            What is newly proposed, in the order of the turns; its `report` says what else was found.

        Raises:
            InvalidInputError: for what holds no messages, or arguments that cannot be.
            ReadOnlyError: if the memory cannot be written.
        """
        clock = Clock()
        return run(self._proposing(read_conversation(messages, user=user), lm, auto, clock), clock)

    async def apropose(
        self,
        messages: Any,
        lm: LanguageModel | str | None = None,
        auto: float | None = None,
        *,
        user: str | Collection[str] = (),
    ) -> Proposals:
        """As `propose`, without blocking the event loop."""
        conversation, clock = await in_thread(partial(read_conversation, messages, user=user)), Clock()
        return await arun(self._proposing(conversation, lm, auto, clock), clock)

    def _proposing(
        self, conversation: Conversation, lm: LanguageModel | str | None, auto: float | None, clock: Clock
    ) -> Effects[Proposals]:
        if auto is not None and not (isinstance(auto, Real) and not isinstance(auto, bool) and 0.0 < auto <= 1.0):
            raise InvalidInputError(f"auto must be a confidence in (0, 1], not {auto!r}.")
        lm = self._session.lm if lm is None else asked_model(lm)[0]
        return propose(self._session, without_credentials(conversation), lm, auto, clock)

    def add_proposals(self, proposals: Iterable[Proposal], *, again: bool = False) -> Proposals:
        """Keep proposals that your own code has made as open, to be accepted or rejected like those of `propose`.

        Args:
            proposals: Those that are over, and those that were decided before, are left out.
            again: Whether to keep also those that were decided before, such as what the user says anew when asked.

        Returns:
            Those that are open now; its `report` says why others are not.

        Raises:
            InvalidInputError: for what is no proposal, or a fact that is too long.
            ReadOnlyError: if the memory cannot be written.
        """
        return add_proposals(self._session, proposals, again=again)

    async def aadd_proposals(self, proposals: Iterable[Proposal], *, again: bool = False) -> Proposals:
        """As `add_proposals`, without blocking the event loop."""
        return await in_thread(partial(self.add_proposals, proposals, again=again))

    def proposals(self, state: Literal["open", "accepted"] = "open") -> list[Proposal]:
        """Return the proposals that wait for a decision, oldest first; or the accepted ones, with their quotes.

        The acceptance of a fact is forgotten with it: when it is replaced, undone, forgotten, or over.
        """
        one_of("state", state, ("open", "accepted"))
        with self._session.lock, self._session.store.reading():
            return self._session.store.proposals.of(self.namespace, state)

    def accept(self, proposal: str | Proposal, text: str | None = None, *, progress: bool = False) -> BuildReport:
        """Put a proposal in force: add, replace or remove a preference or fact, all in one transaction.

        Args:
            proposal: As such or by its id; it has to be open (`proposals`, `add_proposals`).
            text: The user's own wording, in place of the proposal's.
            progress: Show a bar.

        Raises:
            UnknownProposalError: if it is not open in this namespace: unknown, decided, or its time is over.
            InvalidInputError: for a fact that is too long.
        """
        return self._reported(partial(accept, self._session, found_proposal(self._session, proposal), text), progress)

    async def aaccept(
        self, proposal: str | Proposal, text: str | None = None, *, progress: bool = False
    ) -> BuildReport:
        """As `accept`, without blocking the event loop."""
        found = await in_thread(found_proposal, self._session, proposal)
        return await self._areported(partial(accept, self._session, found, text), progress)

    def reject(self, *proposals: str | Proposal) -> None:
        """Turn proposals down, given as such or by their ids: they never come back. Only digests of them are kept.

        Raises:
            UnknownProposalError: for one that is not open; none is turned down then.
        """
        self._session.store.check_writable()
        for proposal in [found_proposal(self._session, each) for each in proposals]:
            reject(self._session, proposal)

    async def areject(self, *proposals: str | Proposal) -> None:
        """As `reject`, without blocking the event loop."""
        await in_thread(self.reject, *proposals)

    # what preferences like and avoid, and mean in practice

    @overload
    def aspects(self) -> dict[str, Aspects]: ...
    @overload
    def aspects(self, preference: str | Preference) -> Aspects: ...

    def aspects(self, preference: str | Preference | None = None) -> Aspects | dict[str, Aspects]:
        """Return what a preference likes, what it avoids, how firmly and where; `source` says who read it.

        Args:
            preference: By text, id or object; without one, all: text to aspects.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        with self._session.lock:
            space = self._session.space()
            if preference is not None:
                return aspects_of(space.preferences[space.find(preference)])
            return {each.text: aspects_of(each) for each in space.preferences}

    @property
    def unread(self) -> list[str]:
        """Return the texts of the preferences that a language model failed to read or to expand.

        The next change asks about them again.
        """
        with self._session.lock:
            space, marked = self._session.space(), self._session.store.preferences.unread(self._session.namespace)
            return [each.text for each in space.preferences if each.id in marked]

    def set_aspects(self, preference: str | Preference, aspects: Aspects | Mapping[str, Any] | None) -> BuildReport:
        """Say what a preference likes and avoids, from the next search on; what is held stays as it was judged.

        Args:
            preference: By text, id or object.
            aspects: `Aspects`, or a mapping such as `{"avoided": ["hotels with casinos"], "firmness": 1.0}`; None has
                them read anew, by the model that reads for this memory or the parser.

        Raises:
            UnknownPreferenceError: if the preference is not held.
            InvalidInputError: for aspects that are none.
        """
        return self._reported(partial(set_aspects, self._session, preference, aspects))

    async def aset_aspects(
        self, preference: str | Preference, aspects: Aspects | Mapping[str, Any] | None
    ) -> BuildReport:
        """As `set_aspects`, without blocking the event loop."""
        return await self._areported(partial(set_aspects, self._session, preference, aspects))

    @overload
    def expansions(self) -> dict[str, Expansion | None]: ...
    @overload
    def expansions(self, preference: str | Preference) -> Expansion | None: ...

    def expansions(self, preference: str | Preference | None = None) -> Expansion | dict[str, Expansion | None] | None:
        """Return what is stored of what a preference means in practice; `source` says who wrote it.

        Args:
            preference: By text, id or object; without one, all: text to expansion.

        Returns:
            None for a preference without an expansion of its own.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        with self._session.lock:
            space = self._session.space()
            if preference is not None:
                return space.preferences[space.find(preference)].expansion
            return {each.text: each.expansion for each in space.preferences}

    def set_expansion(
        self, preference: str | Preference, expansion: Expansion | Mapping[str, Any] | None
    ) -> BuildReport:
        """Say what a preference means in practice, from the next search on; what is held stays as it was judged.

        Args:
            preference: By text, id or object.
            expansion: `Expansion`, or a mapping such as `{"follows": ["a slim novella"], "breaks": ["a trilogy"]}`;
                None has it written anew by the model that expands preferences for this memory, and removes it where
                there is none.

        Raises:
            UnknownPreferenceError: if the preference is not held.
            InvalidInputError: for an expansion that is none.
        """
        return self._reported(partial(set_expansion, self._session, preference, expansion))

    async def aset_expansion(
        self, preference: str | Preference, expansion: Expansion | Mapping[str, Any] | None
    ) -> BuildReport:
        """As `set_expansion`, without blocking the event loop."""
        return await self._areported(partial(set_expansion, self._session, preference, expansion))

    # the file

    def explain(self, item_id: str) -> Explanation:
        """Explain why an item was kept: similarity, rationale, stance, confidence, for each of its entries.

        Raises:
            UnknownItemError: if no item with that id is held.
        """
        checked_text(item_id, "The item's id")
        with self._session.lock, self._session.store.reading():
            return explain(self._session, item_id)

    def entries(self, item_ids: Iterable[str]) -> dict[str, list[MemoryEntry]]:
        """Return the entries of held items: item id to entries, oldest first, for those that have any.

        Raises:
            InvalidInputError: for anything but several ids.
        """
        checked = checked_ids(item_ids)
        with self._session.lock, self._session.store.reading():
            return entries(self._session, checked)

    def outline(self) -> Outline:
        """Return what is held without the texts: ids, embeddings, and which item was kept for which preference."""
        with self._session.lock, self._session.store.reading():
            return outline(self._session)

    def stats(self) -> Stats:
        """Return the counts of this namespace, and the bytes of the whole memory by part, as the paper's Table 6."""
        self._session.share_model_usage()
        with self._session.lock, self._session.store.reading():
            return stats(self._session)

    def not_kept(self) -> list[NotKept]:
        """Return the records of items that are not held, the newest first.

        A uniform sample of what was discarded, and the last of what was evicted; `not_kept=` says how many of each.
        """
        with self._session.lock:
            return self._session.store.seen.records(self._session.namespace)

    @property
    def namespaces(self) -> list[str]:
        """Return the namespaces of the file that hold something, sorted."""
        with self._session.lock:
            return self._session.store.preferences.namespaces()

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

    def export(self, path: str | Path, *, overwrite: bool = False) -> int:
        """Write this namespace as lines of JSON: preferences, items, entries, what waits, proposals.

        Left out are embeddings, what has expired, and the history of facts: `undo` does not reach behind an import.

        Args:
            path: The file; it is there whole or not at all.
            overwrite: Whether a file that is there is replaced.

        Returns:
            How many items were written.

        Raises:
            StoreError: if it cannot be written, or is there already.
        """
        return export(self._session, checked_path(path), overwrite=overwrite)

    async def aexport(self, path: str | Path, *, overwrite: bool = False) -> int:
        """As `export`, without blocking the event loop."""
        return await in_thread(partial(self.export, path, overwrite=overwrite))

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Copy the whole file as the last commit left it, all namespaces, while it is open and in use.

        A memory in RAM is written into a file.

        Raises:
            DamagedError: if the memory is not as it was written; nothing is copied then.
            StoreError: if the copy cannot be written, or there is a file already.
        """
        with self._session.lock:
            # A damaged file must not take the place of the last good copy.
            self._session.store.verify()
            self._session.store.copy_to(checked_path(path), overwrite=overwrite)

    async def abackup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """As `backup`, without blocking the event loop."""
        await in_thread(partial(self.backup, path, overwrite=overwrite))

    def verify(self) -> int:
        """Check the whole file: its structure, that no row is missing, and every row against its checksum.

        Returns:
            How many rows it has.

        Raises:
            DamagedError: if anything is not as it was written.
        """
        with self._session.lock:
            return self._session.store.verify()

    def compact(self) -> int:
        """Remove what has expired, and write the file anew without gaps.

        Returns:
            How many bytes smaller the file is.

        Raises:
            DamagedError: if the memory is not as it was written.
            StoreError: if it cannot be written.
        """
        session = self._session
        with session.lock:
            session.store.verify()
            before = session.store.file_bytes()
            drop_expired(session)
            session.store.compact()
            return before - session.store.file_bytes()

    async def acompact(self) -> int:
        """As `compact`, without blocking the event loop."""
        return await in_thread(self.compact)

    # the parts

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
        verifier = verifier_of(verifier, self._session.encoder)
        checked_part("verifier", verifier, "verify")
        checked_reading(self._session.aspects, verifier, self._session.expander)
        checked_expanding(self._session.expansions, verifier, self._session.expander)
        self._session.verifier = verifier

    @property
    def fallback(self) -> Any:
        """The fallback: asked for queries to which nothing held is relevant."""
        return self._session.fallback

    @property
    def namespace(self) -> str:
        """Whose memory this is."""
        return self._session.namespace

    @property
    def tau(self) -> float:
        """The coarse filter's threshold in force."""
        return self._session.tau

    @property
    def path(self) -> Path | None:
        """The file; None for a memory in RAM."""
        return self._session.store.path

    @property
    def opening_report(self) -> BuildReport:
        """The report of making or opening this memory: preferences that were read, or changed by `sync=True`."""
        return copy.deepcopy(self._session.opened)

    @property
    def revision(self) -> str:
        """A value that changes with everything a search depends on, also when another process writes."""
        with self._session.lock, self._session.store.reading():
            return digest(*map(str, self._session.store.sums()), size=8).hex()

    def reencode(self, encoder: Encoder | str) -> None:
        """Embed everything anew with another encoder: preferences, instructions, texts, all namespaces.

        The coarse filter's tau becomes the new encoder's own. Items that were discarded stay discarded.
        """
        run(reencode_memory(self._session, encoder_of(encoder)))

    def __len__(self) -> int:
        with self._session.lock, self._session.store.reading():
            space = self._session.space()
            expired = len(space.expired_items - self._session.store.items.marks_at(sorted(space.expired_items))[0])
            return self._session.store.counts(self.namespace)["items"] - expired

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        where = "in RAM" if self.path is None else str(self.path)
        return f"<EpicMemory {where}, namespace {self.namespace!r}{', closed' if self._session.store.closed else ''}>"

    def __reduce__(self) -> Any:
        raise NotCopiedError(
            f"{self!r} is open, and can be neither pickled nor copied. Share the object; where that cannot be, open its"
            " file again: EpicMemory.open(path)."
        )

    def close(self) -> None:
        """Close the file, which is then one file and no more; closing twice is fine."""
        self._session.background.close()
        with self._session.lock:
            self._session.share_model_usage()
            self._session.spaces.clear()
            self._session.store.close()

    def __enter__(self) -> EpicMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def asked_model(llm: Any, budget: object = None) -> tuple[LanguageModel | None, ModelBudget | None]:
    """Return the language model that a user named or gave, held to a daily budget if there is one, and the budget.

    Raises:
        InvalidInputError: for what is no model or no budget, or a budget without a model.
    """
    if llm is None:
        if budget is not None:
            raise InvalidInputError("model_budget says how much a model is asked; llm says which.")
        return None, None
    # Models are imported where there is one.
    from epic_memory.lm.budget import BudgetedLM, ModelBudget
    from epic_memory.lm.by_name import lm_of

    lm, allowed = lm_of(llm), ModelBudget.of(budget)
    if isinstance(lm, BudgetedLM) and allowed is None:
        return lm, lm.budget
    return (lm if allowed is None else BudgetedLM(lm, allowed)), allowed


def _ending(fact: Item) -> Item:
    """Return a fact with the end that its text states, if none is given."""
    if fact.expires_at is not None:
        return fact
    # Its patterns take a while to compile.
    from epic_learn.durations import end_of_fact

    return replace(fact, expires_at=end_of_fact(fact.text))


def _checked_report(report: BuildReport | None) -> BuildReport:
    if report is not None and not isinstance(report, BuildReport):
        raise InvalidInputError(f"report must be a BuildReport, not {report!r}.")
    return BuildReport() if report is None else report


def checked_ids(item_ids: Iterable[str]) -> list[str]:
    """Return the ids of items.

    Raises:
        InvalidInputError: for anything but several ids.
    """
    if isinstance(item_ids, str) or not isinstance(item_ids, Iterable):
        raise InvalidInputError(f"Give the ids in a list, not as {type(item_ids).__name__}.")
    return [checked_string(item_id, "An item's id") for item_id in item_ids]


def checked_path(path: str | Path) -> Path:
    """Return the path of a file to be written.

    Raises:
        InvalidInputError: for what names no file.
    """
    if not isinstance(path, (str, Path)) or not str(path):
        raise InvalidInputError(f"The name of a file is needed, not {path!r}.")
    return Path(path)
