"""Settings of a memory: what it filters by, who judges, what it keeps, and how large its file gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args

from pydantic_core import core_schema

from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.pipeline.aspects import Expanding, Reading, check_reader, checked_expander
from epic_memory.pipeline.on_demand import checked_on_demand
from epic_memory.pipeline.opening import set_budget
from epic_memory.pipeline.session import Session
from epic_memory.retention import checked_budget, checked_reserve
from epic_memory.runtime.batching import checked_part
from epic_memory.runtime.optional import optional
from epic_memory.storage.sqlite.locking import Key, Passphrase, key_of
from epic_memory.storage.store import Store
from epic_memory.text.chunking import Chunker
from epic_memory.text.language import ENGLISH
from epic_memory.text.translations import LANGUAGES
from epic_memory.types import checked_text
from epic_memory.types.modes import Mode, checked_mode
from epic_memory.types.validation import checked_share, checked_tau, checked_whole, one_of
from epic_memory.verification import Verifier
from epic_memory.verification.base import base_verifier
from epic_memory.verification.embedded import verifier_of

if TYPE_CHECKING:
    from epic_memory.lm.base import LanguageModel
    from epic_memory.lm.budget import ModelBudget
    from epic_rerank.tags import Tagger

_IF_GIVEN: dict[str, Callable[[Any], object]] = {
    "tau": checked_tau,
    "coarse_recall": partial(checked_share, name="coarse_recall"),
    "on_demand": checked_on_demand,
    "ledger": partial(checked_whole, name="ledger", least=0),
    "not_kept": partial(checked_whole, name="not_kept", least=0),
    "chunker": partial(checked_part, "chunker", method="chunks"),
    "tagger": partial(checked_part, "tagger", method="atag"),
}
"""Checks of the settings that may be None."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a memory; `dataclasses.replace` changes some of it for another memory.

        small = Settings(budget="1 MB", steering="off")
        memory = EpicMemory.open("me.epic", preferences, settings=small)

    Attributes:
        namespace: Whose memory this is; nothing of another namespace is seen.
        language: Of contexts and guidance, such as "de", one of `epic_memory.text.translations.LANGUAGES`. None takes
            that of most preferences for contexts, and of its preference for guidance; English has all that lack one.
        verifier: Fine verification; a name such as "ollama:qwen3:4b" is an `LMVerifier` with that model (`lm_of`).
            Default: the language model, if the memory has one, else `EmbeddedVerifier(encoder)`.
        tau: The coarse filter's threshold, a cosine in [-1, 1]; default: the one that belongs to the encoder.
        coarse_recall: Where a model judges, the share of what matters that is to pass, in (0, 1]; None for the own tau.
        coarse, fine: Switch a stage off, for ablations.
        steering: "signed", "paper" (Eq. 7-8) or "off"; `SearchOptions` can override it.
        aspects: What reads a new preference's likes and dislikes, once: the verifier's language model ("model"), which
            takes one call, or a parser ("parser"); "auto" is the model if there is one. Calls for the preferences given
            first block: within an event loop, make the memory in a thread, or use `preferences.aadd`.
        expansions: Who says, once, what a new preference means in practice: questions for which it matters, what
            follows it and what breaks it. "model" is the verifier's language model, in the call that reads the
            aspects; "bundled" borrows from a library in the package; "off" does without. "auto" is the model if there
            is one, else the library; with `aspects="parser"` the model is not asked.
        expander: A language model that reads and expands preferences in place of the verifier's.
        model_budget: Calls of the language model a day, or text like "50000 tokens"; what is left over waits.
        on_demand: When texts that a question finds and nobody has judged are judged by the language model: in the
            "background", for later answers, the default with `llm`; within a time such as "300 ms"; or "off".
        chunker: Cuts each item before the coarse filter; default: an item is one chunk.
        tagger: Gives items tags for filters, as metadata `tags_topics` and others: `epic_graph.PhraseTagger()`.
        fallback: Asked when nothing is relevant to a query: a callable `(query, k)`, or an object with `search`.
        budget: Bytes that the file never exceeds: a number, or text like "1 MB"; while a call writes, its journal may
            stand beside it. The file remembers the budget; "unlimited" lifts it. The other limits are lowered to what
            fits.
        reserve: The file size up to which discarded items stay in the light tier, for their text only, the best
            first: bytes, or text like "1 MB", the default. It gives way to what is kept, is searched with it, and is
            compared with every new preference. 0 means no light tier, as in the paper. The file remembers it.
        floor: How many entries each preference keeps at least, within half of the budget.
        verdict_cache: How many verdicts of a language model are kept, so that the same text under the same
            preference is not asked about again; 0 keeps none.
        retry_queue: How many undecided items may wait; a call that would add more stops with an error.
        ledger: How many discarded items are remembered, so that they are skipped when they come again; 0 for none.
            Default: a twentieth of the file, less in a small one, 200 at least.
        not_kept: How many discarded items are kept on record, as a sample, and how many evicted ones. Default: as many
            as fit into a hundredth of the file each, 4 at least.
        key: What the file is locked with: a passphrase, or a callable that returns it, so that it stands in no code. A
            new file is locked with it. Needs the extra "encryption"; `memory.file.rekey` changes it.
        must_exist: Refuse to make a new file.
        read_only: Never write into the file: it can be searched, and changes by other processes are seen.
        reencode: Embed an existing file anew if it was made with another encoder than the memory's.

    Raises:
        InvalidInputError: for a value that cannot be.
    """

    namespace: str = "default"
    language: str | None = None
    verifier: Verifier | str | None = None
    tau: float | None = None
    coarse_recall: float | None = 0.9
    coarse: bool = True
    fine: bool = True
    steering: Mode = "signed"
    aspects: Reading = "auto"
    expansions: Expanding = "auto"
    expander: LanguageModel | str | None = None
    model_budget: int | str | None = None
    on_demand: str | float | None = None
    chunker: Chunker | None = None
    tagger: Tagger | None = None
    fallback: Any = None
    budget: int | str | None = None
    reserve: int | str | None = None
    floor: int = 3
    verdict_cache: int = 50_000
    retry_queue: int = 10_000
    ledger: int | None = None
    not_kept: int | None = None
    key: Passphrase | Key | None = field(default=None, repr=False)
    must_exist: bool = False
    read_only: bool = False
    reencode: bool = False

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        """Have pydantic take settings as they are: they have checked themselves."""
        return core_schema.is_instance_schema(cls)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of(self.key))
        checked_text(self.namespace, "The namespace")
        one_of("language", ENGLISH if self.language is None else self.language, LANGUAGES)
        one_of("aspects", self.aspects, get_args(Reading))
        one_of("expansions", self.expansions, get_args(Expanding))
        for name in ("coarse", "fine", "must_exist", "read_only", "reencode"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"{name} must be True or False, not {getattr(self, name)!r}.")
        for name in ("verdict_cache", "retry_queue", "floor"):
            checked_whole(getattr(self, name), name, 0)
        checked_mode(self.steering)
        checked_budget(self.budget)
        checked_reserve(self.reserve)
        if not isinstance(self.verifier, (str, NoneType)):
            checked_part("verifier", self.verifier, "verify")
        if self.fallback is not None:
            optional("epic_rerank.fallback", "checked_fallback")(self.fallback)
        for name, check in _IF_GIVEN.items():
            if (given := getattr(self, name)) is not None:
                check(given)


def checked_settings(settings: Settings | None) -> Settings:
    """Return the settings that a caller gave, or the default ones; anything else is an `InvalidInputError`."""
    if settings is None:
        return Settings()
    if not isinstance(settings, Settings):
        given = type(settings).__name__
        raise InvalidInputError(f'settings are made by epic_memory.Settings(budget="1 MB", ...); {given} is none.')
    return settings


def check_no_file(settings: Settings) -> None:
    """Raise an `InvalidInputError` for settings that are for opening a file."""
    for name in ("must_exist", "read_only", "reencode"):
        if getattr(settings, name):
            raise InvalidInputError(f"Settings({name}=True) is for the file of EpicMemory.open(path, ...).")


def session_of(
    settings: Settings,
    encoder: Encoder,
    llm: Any,
    make: Callable[[], Store],
    begin: Callable[[Session], object],
    *,
    imports: bool = False,
) -> Session:
    """Return the session of a memory with these settings, begun; where that fails, no new file is left behind.

    Args:
        settings, encoder, llm: As for `EpicMemory`.
        make: Makes the store, once all else is checked.
        begin: Brings the session and the file together.
        imports: Whether a new file goes even if something was written into it.
    """
    lm, allowed = asked_model(llm, settings.model_budget)
    verifier = verifier_of(settings.verifier, encoder, lm, settings.language)
    own_reader = base_verifier(verifier).aspect_reader or settings.expander is not None
    expander = checked_expander(settings.expander if own_reader else lm)
    check_reader(settings, verifier, expander)
    waits = ("off" if llm is None else "background") if settings.on_demand is None else settings.on_demand
    store = make()
    try:
        session = Session(
            settings=settings,
            encoder=encoder,
            verifier=verifier,
            expander=expander,
            lm=lm,
            model_budget=allowed,
            on_demand=checked_on_demand(waits),
            store=store,
        )
        set_budget(session, checked_budget(settings.budget), checked_reserve(settings.reserve))
        session.share_model_usage()
        begin(session)
    except BaseException:
        store.discard_if_new(whatever=imports)
        raise
    return session


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
