"""The session of a memory: its parts, its settings, its namespaces in RAM, and their steering."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from epic_memory.encoders.base import Encoder, default_tau, described, taus_for_recall
from epic_memory.errors import EncoderError, EncoderMismatchError, NotCopiedError, StoreError
from epic_memory.pipeline.coarse_filter import Expanded
from epic_memory.preferences.evidence import borrows
from epic_memory.retention import Budget, budget_in
from epic_memory.runtime.background import Background
from epic_memory.steering.query_steering import QuerySteering
from epic_memory.storage.namespace import CommittedRows, Namespace
from epic_memory.storage.store import Store
from epic_memory.storage.tables.entries import verifier_number
from epic_memory.types import BuildReport, FloatArray, Item, Preference
from epic_memory.types.digests import DIGEST_BYTES, digest
from epic_memory.types.modes import Mode
from epic_memory.verification.base import EMBEDDED, BaseVerifier, Verifier, base_verifier

if TYPE_CHECKING:
    from epic_memory.lm.base import LanguageModel
    from epic_memory.lm.budget import ModelBudget
    from epic_memory.preferences.lm_reader import Reader
    from epic_memory.settings import Settings

# A server that searches for many users holds so many of them in RAM.
_SPACES_LOADED = 64
MODEL_BUDGET = "model_budget"
"""Key under which a file remembers what of its model's daily budget is used."""


@dataclass(kw_only=True)
class Session:
    """The inside of an `EpicMemory`: its settings, its parts, and what of its file is in RAM.

    Attributes:
        settings: As the user gave them; what a call changes is below.
        expander: Reads and expands preferences in place of the verifier's model.
        lm: The language model for all that one can do; None if none was given.
        model_budget: How much it may be asked a day.
        on_demand: Seconds that an answer waits for verdicts on what it finds; 0 in the background, None for none.
        own_tau: The threshold that was set; None for the encoder's own, or one by recall.
        retry_queue: How many undecided items wait at most.
        reserve: Bytes of the file up to which the light tier may fill it; 0 for no light tier.
        budget: Bytes on disk that are never exceeded.
        opened: What making or opening the memory did.
        verified_by: The name of the language model's verifier that decided last, if one did.
        lock: Held while RAM and file are read or written, never while a model is waited for.
        spaces: The namespaces that are loaded.
        expanded: Embeddings of what follows and breaks preferences, by their expansions.
        background: Where verdicts on demand are asked for.
        asked_on_demand: The pairs of an item's row and a preference's id that were asked about.
        never: The rules about what is never kept as the file has them, once they are read; empty for none.
    """

    settings: Settings
    namespace: str = field(init=False)
    encoder: Encoder
    verifier: Verifier
    store: Store
    expander: Reader | None
    lm: LanguageModel | None
    model_budget: ModelBudget | None
    on_demand: float | None
    own_tau: float | None = None
    retry_queue: int = 0
    reserve: int = 0
    budget: Budget | None = None
    opened: BuildReport = field(default_factory=BuildReport)
    verified_by: str | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    spaces: dict[str, Namespace] = field(default_factory=dict)
    expanded: dict[Preference, Expanded] = field(default_factory=dict)
    background: Background = field(default_factory=Background)
    asked_on_demand: set[tuple[int, str]] = field(default_factory=set)
    never: Any = None
    _steering: dict[str, tuple[Sequence[Preference], dict[Mode, QuerySteering]]] = field(default_factory=dict)
    _seen_change: int = 0
    _stamped: tuple[object, ...] = ()
    _asked: tuple[Verifier, BaseVerifier] | None = None
    _changing: bool = False

    def __post_init__(self) -> None:
        settings, store = self.settings, self.store
        self.namespace = settings.namespace
        self.own_tau = None if settings.tau is None else float(settings.tau)
        self.retry_queue = int(settings.retry_queue)
        store.verdicts.kept = int(settings.verdict_cache)
        store.entries.quoting = verifier_number(EMBEDDED)
        store.seen.kept = None if settings.ledger is None else int(settings.ledger)
        store.seen.records_kept = None if settings.not_kept is None else int(settings.not_kept)
        self._seen_change = store.changed_elsewhere()

    def __reduce__(self) -> Any:
        raise NotCopiedError(
            "What shows an open memory is not copied: take a list of it, or EpicMemory.open(path) again."
        )

    @property
    def tau(self) -> float:
        """The coarse filter's threshold in force; for preferences that a model has expanded, if it goes by recall."""
        by_recall = self._taus_by_recall
        return (by_recall or (default_tau(self.encoder),))[0] if self.own_tau is None else self.own_tau

    @property
    def base(self) -> BaseVerifier:
        """The verifier with all methods, made once for each."""
        if self._asked is None or self._asked[0] is not self.verifier:
            self._asked = self.verifier, base_verifier(self.verifier)
        return self._asked[1]

    @property
    def _taus_by_recall(self) -> tuple[float, float] | None:
        """The thresholds with which a model judges a share of what matters; None where no model judges."""
        recall = self.settings.coarse_recall
        by_model = self.own_tau is None and self.base.cached
        return taus_for_recall(self.encoder, recall) if by_model and recall else None

    def taus(self, preferences: Sequence[Preference]) -> FloatArray:
        """Return the coarse filter's threshold for each preference, shape `(m,)`."""
        expanded, others = self._taus_by_recall or (self.tau, self.tau)
        return np.array([others if one.expansion is None else expanded for one in preferences], dtype=np.float32)

    @property
    def reader(self) -> Reader | None:
        """The model that reads and expands preferences; None if there is none."""
        return self.base.aspect_reader if self.expander is None else self.expander

    @property
    def borrows(self) -> bool:
        """True if a preference without an expansion borrows from the bundled library."""
        return self.settings.expansions != "off" and borrows(self.encoder)

    def space(self, namespace: str | None = None, *, look: bool = True) -> Namespace:
        """Return the loaded namespace, with what another process has written. Call it under the lock.

        Without `look` it is as it was last, unless it has changed since in this process.
        """
        known = None if look else self.spaces.get(self.namespace if namespace is None else namespace)
        if known is not None and not known.stale:
            return known
        with self.store.reading():
            change = self.store.changed_elsewhere()
            if change != self._seen_change:
                self.check_encoder()
                budget = budget_in(self.store.meta())
                if budget != self.budget and not self._changing:
                    self.limit(budget)
                self._seen_change = change
                self.mark_stale()
                self._stamped, self.never = (), None
            name = self.namespace if namespace is None else namespace
            space = self.spaces.get(name)
            if space is None:
                if len(self.spaces) >= _SPACES_LOADED:
                    least = next(other for other in self.spaces if other != self.namespace)
                    self.spaces.pop(least)
                    self._steering.pop(least, None)
                space = Namespace(self.store, name, self.encoder, keep_texts=self.reserve > 0)
            elif (space.stale or space.expires()) and not self._changing:
                # Not there while it is read: half of it must not be taken for the whole.
                del self.spaces[name]
                space.refresh()
            self.spaces[name] = space
            return space

    def steering_of(self, space: Namespace, mode: Mode) -> QuerySteering:
        """Return the steering by a namespace's preferences, made when it is first asked for. Call it under the lock."""
        preferences, made = self._steering.get(space.namespace, ((), {}))
        if preferences is not space.preferences:
            made = {}
            self._steering[space.namespace] = (space.preferences, made)
        if mode not in made:
            made[mode] = QuerySteering(
                self.encoder, space.preferences, mode, vectors=space.vectors, borrow=self.borrows
            )
        return made[mode]

    def chunked(self, items: Sequence[Item]) -> list[Item]:
        """Return the items' chunks."""
        if self.settings.chunker is None:
            return list(items)
        chunks: list[Item] = []
        for item in items:
            pieces = self.settings.chunker.chunks(item.text)
            if len(pieces) == 1:
                chunks.append(item if pieces[0] == item.text else replace(item, text=pieces[0]))
                continue
            for number, piece in enumerate(pieces):
                metadata = {**item.metadata, "chunk": number, "chunks": len(pieces)}
                chunks.append(Item(id=f"{item.id}#{number}", text=piece, metadata=metadata))
        return chunks

    @property
    def rules_key(self) -> str:
        """The key under which the file has the rules about what is never kept."""
        return f"never/{self.namespace}"

    def rules(self) -> Any:
        """Return the rules about what is never kept as the file has them, empty for none. Call it under the lock."""
        if self.never is None:
            self.never = self.store.meta_of(self.rules_key) or {}
        return self.never

    def has_expired(self, space: Namespace) -> bool:
        """Tell whether anything of the own namespace has expired and was not removed yet."""
        known = space.expires() or bool(space.expired or space.expired_items)
        return known or self.store.has_expired(self.namespace)

    def limit(self, budget: Budget | None) -> None:
        """Hold the file to a byte budget, and what is bounded by number to its share of it."""
        self.budget = budget
        store = self.store
        if budget is None:
            store.limit_pages(0)
            store.seen.most = store.seen.records_most = 2**31
            return
        store.limit_pages(budget.pages(store.pages()[2]))
        # A tenth is for verdicts, a twentieth each for the ledger and for records, a quarter for what waits.
        store.verdicts.kept = min(store.verdicts.kept, budget.total // 10 // 600)
        store.seen.most = budget.total // 20 // DIGEST_BYTES
        store.seen.records_most = budget.total // 40 // 350
        self.retry_queue = min(self.retry_queue, max(1, budget.total // 4 // 1000))

    def mark_stale(self) -> None:
        """Have every namespace look at the file again before it is used."""
        for space in self.spaces.values():
            space.stale = True

    @contextmanager
    def changing(self, encoder: Encoder, rows: CommittedRows | None = None) -> Iterator[Namespace]:
        """Open one transaction over the own namespace, and yield the namespace as the transaction sees it.

        Waiting for another process's transaction can take a while: what was known before may be wrong. The
        namespace looks at the file again afterwards, unless it is told which rows were added and removed.

        Args:
            encoder: Of the vectors to be written.
            rows: Is filled in by the caller, inside the transaction.

        Raises:
            EncoderError: if the memory was embedded anew in the meantime.
        """
        with self.lock:
            with self.store.transaction():
                space = self.space()
                if encoder is not self.encoder:
                    raise EncoderError("The memory was embedded anew while this was going on. Do it again.")
                self.mark_stale()
                try:
                    self._changing = True
                    yield space
                    tables = None if rows is None or rows.incomplete else self.store.contents()
                finally:
                    self._changing = False
            if rows is not None and tables is not None:
                space.apply(rows, tables)

    def share_model_usage(self) -> None:
        """Exchange with other processes what of the model's daily budget is used, if the file is free."""
        budget, store = self.model_budget, self.store
        if budget is None or store.closed:
            return
        with suppress(StoreError), self.lock:
            if not (store.writable and budget.has_unwritten):
                budget.exchange(store.meta_of(MODEL_BUDGET))
                return
            with store.transaction(wait=False):
                budget.exchange(store.meta_of(MODEL_BUDGET), lambda record: store.set_meta(**{MODEL_BUDGET: record}))

    def stamp_ledger(self) -> None:
        """Clear the ledger if encoder, tau or verifier changed since it was written."""
        if self.store.seen.kept == 0:
            return
        how = (self.tau, self.settings.coarse, self.settings.fine, self.reserve)
        deciding = (self.encoder.fingerprint, *how, self.verifier.name, self.base.threshold)
        if deciding == self._stamped:
            return
        stamp = digest(*map(str, deciding), size=8).hex()
        key = f"ledger/{self.namespace}"
        with self.lock:
            if self.store.meta_of(key) != stamp:
                with self.store.transaction():
                    self.store.seen.clear(self.namespace)
                    self.store.set_meta(**{key: stamp})
                self.mark_stale()
        self._stamped = deciding

    def check_encoder(self) -> None:
        """Raise an `EncoderMismatchError` for a file that was embedded by another encoder."""
        other = self.other_encoder()
        if other:
            raise EncoderMismatchError(
                f"{self.store.path} was made with the encoder {_named(other)}, and is opened with"
                f" {_named(described(self.encoder))}. Open it with that encoder, or embed it anew with this one:"
                " EpicMemory.open(path, settings=Settings(reencode=True)), or `epic reencode`."
            )

    def other_encoder(self) -> dict[str, Any] | None:
        """The encoder the file was made with, if it is another one; a `StoreError` if the file does not say."""
        made = self.store.meta_of("encoder")
        if not isinstance(made, dict) or not {"name", "dimension", "fingerprint"} <= made.keys():
            raise StoreError(f"{self.store.path} is damaged: it does not say which encoder it was made with.")
        return None if made == described(self.encoder) else made


def _named(encoder: Mapping[str, Any]) -> str:
    return f"{encoder['name']} ({encoder['dimension']} dimensions, fingerprint {str(encoder['fingerprint'])[:8]})"
