"""Agent middleware that searches a memory before the model is called, and offers it the turn afterwards."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, cast

from langchain.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    PrivateStateAttr,
)
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from typing_extensions import NotRequired

from epic_langchain.agents.consent import Asked, ask, asked_of, can_ask
from epic_langchain.agents.conversation_turns import (
    answered,
    hashed,
    id_of,
    latest_place,
    latest_question,
    place_of,
    text_of,
    turn_of,
)
from epic_langchain.agents.notes import NoteRetriever, TurnCache, note_of, with_note, without_notes
from epic_langchain.agents.options import (
    OPTIONS,
    CallOptions,
    MemoryOf,
    Remembered,
    call_options,
    checked_remember,
    chosen_memory,
    chosen_of,
)
from epic_langchain.models import lm_of, memory_of
from epic_learn import aadd_conversation, add_conversation
from epic_learn.cues import only_asks
from epic_memory import BuildReport, EpicMemory, Preference
from epic_memory.errors import InvalidInputError, NoPreferencesError
from epic_memory.lm import LanguageModel
from epic_memory.preferences.foreign import language_for
from epic_memory.runtime.effects import Attempt, Call, Effects, arun, run
from epic_memory.settings import Settings
from epic_memory.types import checked_k
from epic_plugins.copies import Open
from epic_plugins.metadata import PREFIX
from epic_plugins.models import check_open
from epic_plugins.proposing import AUTO, Proposing, checked_proposing, warn_of_failures
from epic_plugins.wrong_arguments import explained

_logger = logging.getLogger(__name__)


class TurnState(AgentState[Any]):
    """The state of an agent with a memory.

    Attributes:
        epic_turn: The id and the text of the user's message that is being answered, which a summary may replace before
            the turn ends; and a hash of the user whose run it is. The turn is offered to this user's memory only,
            whoever continues the thread. And what each of these middlewares, by name, found to propose.
    """

    epic_turn: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]]


@explained()
class EpicMemoryMiddleware(Open, AgentMiddleware[AgentState[Any], Any]):
    """Middleware that gives an agent a memory which follows the user's preferences.

        agent = create_agent(model, tools, middleware=[EpicMemoryMiddleware(memory, k=5)])
        agent.invoke({"messages": [("user", "Where should I stay?")]})

    Before the model is called, the memory is searched for the user's latest message, once for each turn. The call's
    system message ends with the preferences, and the user's latest message begins with the hits, each with how it fits
    them: a provider can keep what it has read of the conversation. Nothing is told that the messages show already, and
    the agent's state is not changed. After the turn, the user's message is offered to the memory, which
    keeps it once if it matters to a preference; a sentence with a password, a key or a PIN never is.

    A turn is the latest message of the user and the answers to it, also where a `SummarizationMiddleware`, before or
    after this one, replaces the message while the turn lasts. It belongs to the user whose run began with it:
    where a thread is shared, or another user resumes a run, one user's words are never offered to another's memory;
    neither is a message that no run answered. The retrieved text is cached in RAM while a turn lasts, for ten minutes
    at most, and as long as the memory does not change.

    One agent can serve many users: `namespace`, `k`, `filter` and `preferences`, as `EpicRetriever.invoke` takes
    them, are read from the runtime context (`context={"namespace": ...}`, or attributes of these names, not methods)
    or else from `config={"configurable": {"epic_namespace": ...}}`. On Python 3.10 an asynchronous agent can only use
    the context.

    Args:
        memory: The memory, or the name of its file, which has to exist; or, to serve many users, a function from a
            namespace to the user's memory, such as a dictionary's `__getitem__`. The function is called for each turn,
            from several threads, and every call must then name a namespace. With one memory, a call that names another
            namespace is answered from the memory, but not remembered: a memory writes for its own namespace only. The
            caller closes the memories.
        k: How many items are retrieved, at least 1.
        remember: "user" offers the user's messages to the memory, but for those that only ask; "both", or True, the
            assistant's as well, much of which only repeats what the memory holds; False offers nothing.
            The memory decides within the run, which
            delays the end of the run: hardly with the embedded verifier; by its calls with a language model; by a few
            seconds of retries if the model's server is down (`LMVerifier(retries=0)` waits least). With False, offer
            turns yourself when there is time: `epic_learn.add_conversation(memory, ...)`.
        propose: Whether what the user says of themselves, read from the user's message alone, is proposed as
            preferences and facts (`MemoryProposals.propose`). True asks the human: the run is interrupted after the
            turn, as by `HumanInTheLoopMiddleware`, with an action for each proposal, named by its kind. It goes on with
            `Command(resume={"decisions": [...]})`: `{"type": "approve"}`, `{"type": "reject"}`, or an edit of the
            argument `text`. Without a checkpointer, or an answer, proposals stay open: `memory.proposals`. "auto"
            accepts what is said plainly, with a confidence of at least 0.9, and leaves the rest open, without asking.
        llm: A chat model, such as that of the agent, a LanguageModel of epic_memory or the name of one,
            "ollama:qwen3:4b". A memory given by its file is opened with it, for all that a model can do
            (`EpicMemory.open(path, llm=...)`). Beside a memory that is open, which has its own, it reads the user's
            message for proposals, too, in one call a turn; a call that fails is logged.
        settings: Of a memory given by its file, as for `EpicMemory`.

    An error on remembering is logged as a warning, and the user gets the answer; an error on retrieving, of a closed
    memory for example, is raised. Where one agent has several of these middlewares, make a subclass of each: LangChain
    tells them apart by the names of their classes.

    Raises:
        InvalidInputError: if an argument is invalid.
    """

    state_schema = TurnState

    def __init__(
        self,
        memory: EpicMemory | str | Path | MemoryOf,
        *,
        k: int = 5,
        remember: bool | Remembered = "user",
        propose: Proposing = False,
        llm: Any = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__()
        self.k = checked_k(k)
        self.remember = checked_remember(remember)
        opens = isinstance(memory, (str, Path))
        self.propose = checked_proposing(propose, None if opens else llm)
        self.llm = None if llm is None else lm_of(llm)
        # The memory's own reads as well, within its budget.
        self._reader: LanguageModel | None = None if opens else self.llm
        self._report: BuildReport | None = None
        self._warned = False
        self._cache = TurnCache()
        # Last, so that an invalid argument leaves no file open.
        if callable(memory):
            check_open(None, settings)
            self.memory: EpicMemory | MemoryOf = memory
        else:
            self.memory = memory_of(memory, llm=self.llm if opens else None, settings=settings)

    @property
    def report(self) -> BuildReport | None:
        """The memory's report on the turn it was offered last, whichever user's; None before the first."""
        return self._report

    # before the model, and after it

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with the preferences and the memory's hits for the user's latest message.

        Raises:
            InvalidInputError: if the call names no namespace where one is needed, or an option is invalid.
            EpicError: as `EpicMemory.search` raises it.
        """
        return run(self._call(request, handler))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Do the same as `wrap_model_call` without blocking the event loop."""
        return await arun(self._call(request, handler))

    def _call(self, request: ModelRequest[Any], handler: Callable[..., Any]) -> Effects[ModelResponse[Any]]:
        options = self._options(request.runtime)
        question = latest_question(without_notes(request.messages), _begun_turn(request.state))
        key = options.key(question)
        memory = self._memory_of(options)
        revision = memory.file.revision
        note = self._cache.known(key, revision)
        if note is None:
            found: list[Document] = []
            if question.text:
                # Unlike a plain search, a retriever shows in traces.
                retriever = NoteRetriever(memory=memory)
                found = yield Call(retriever.invoke, retriever.ainvoke, question.text, **options.for_memory(memory))
            language = memory.settings.language or language_for(memory.preferences)
            note = note_of(request, self._preferences(memory, options), found, language)
            self._cache.keep(key, revision, note)
        try:
            response: ModelResponse[Any] = yield Call(handler, handler, with_note(request, note))
        except BaseException:
            # A turn that fails (which closes this generator) may never end.
            self._cache.drop(key)
            raise
        return response

    def _preferences(self, memory: EpicMemory, options: CallOptions) -> list[Preference]:
        """Return the preferences that the model is told."""
        # A memory gives the preferences of its own namespace only.
        own = options.for_memory(memory)["namespace"] == memory.namespace
        return chosen_of(memory.preferences, options.preferences) if own else []

    def after_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record in the state how the model was given the turn's message, and what it gives cause to propose."""
        return run(self._answered(state, runtime))

    async def aafter_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do the same as `after_model` without blocking the event loop."""
        return await arun(self._answered(state, runtime))

    def _answered(self, state: AgentState[Any], runtime: Runtime[Any]) -> Effects[dict[str, Any] | None]:
        begun, messages, options = _begun_turn(state), state["messages"], self._options(runtime)
        if begun is None:
            return None
        # Another middleware may have changed the message, or a summary replaced it.
        place = place_of(messages, begun["asked"])
        turn = begun if place is None else {**begun, "text": text_of(messages[place])}
        known = turn.get("proposed", {})
        if self.propose and self.name not in known and turn["by"] == self._user(options):
            words, memory = turn_of(messages, turn, both=False), self._own_memory(options)
            if words and memory is not None:
                auto = AUTO if self.propose == "auto" else None
                attempt = Attempt(
                    memory.proposals.propose, memory.proposals.apropose, words, lm=self._reader, auto=auto
                )
                found = self._result((yield attempt))
                if found is not None:
                    warn_of_failures(found, _logger)
                turn = {**turn, "proposed": {**known, self.name: list(map(asked_of, found or ()))}}
        return None if turn == begun else {"epic_turn": turn}

    # after the turn

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Offer the turn to the memory, and ask the human about its proposals.

        Raises:
            GraphInterrupt: to ask.
        """
        run(self._end(state, runtime))

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Do the same as `after_agent` without blocking the event loop."""
        await arun(self._end(state, runtime))

    def _end(self, state: AgentState[Any], runtime: Runtime[Any]) -> Effects[None]:
        options, said = self._ended(state, runtime)
        asked = self._asked(_begun_turn(state), options)
        memory = self._own_memory(options) if said or asked else None
        if memory is None:
            return
        if said:
            report = self._result((yield Attempt(add_conversation, aadd_conversation, memory, said, light=False)))
            self._report = report or self._report
        proposals = memory.proposals
        for consent in ask(asked) if asked else ():
            if consent.id not in {proposal.id for proposal in proposals}:
                continue  # it was decided elsewhere while the human was asked
            if consent.accepted:
                self._result((yield Attempt(proposals.accept, proposals.aaccept, consent.id, consent.text)))
            else:
                self._result((yield Attempt(proposals.reject, proposals.areject, consent.id)))

    def _asked(self, turn: dict[str, Any] | None, options: CallOptions) -> list[Asked]:
        """Return the proposals of the turn that the human is asked about."""
        if self.propose is not True or turn is None or turn["by"] != self._user(options) or not can_ask():
            return []
        asked: list[Asked] = turn.get("proposed", {}).get(self.name, [])
        return asked

    def _ended(self, state: AgentState[Any], runtime: Runtime[Any]) -> tuple[CallOptions, list[dict[str, str]]]:
        """Return the options of the call and the messages of its turn to offer; drop the turn's cached note."""
        options, messages, turn = self._options(runtime), state["messages"], _begun_turn(state)
        self._cache.drop(options.key(latest_question(messages, turn)))
        if not self.remember or turn is None or turn["by"] != self._user(options):
            return options, []
        said = turn_of(messages, turn, both=self.remember == "both")
        # A question without its answer holds nothing, but would be found before what answers it.
        return options, [] if len(said) == 1 and only_asks(said[0]["content"]) else said

    def _own_memory(self, options: CallOptions) -> EpicMemory | None:
        """Return the memory that can write for the user; None if it belongs to another namespace, or there is none."""
        try:
            memory = self._memory_of(options)
        except Exception as error:
            self._failed(error)
            return None
        if options.for_memory(memory)["namespace"] == memory.namespace:
            return memory
        _logger.warning(
            "The turn of namespace %r is not remembered: the memory writes for %r only. Give EpicMemoryMiddleware a"
            " function from a namespace to a memory, or remember=False.",
            options.namespace,
            memory.namespace,
        )
        return None

    def _result(self, result: Any) -> Any:
        """Return the result of an attempt; None for one that failed."""
        if isinstance(result, Exception):
            self._failed(result)
            return None
        return result

    def _failed(self, error: Exception) -> None:
        if isinstance(error, NoPreferencesError):
            if not self._warned:
                _logger.warning("Turns are not remembered while a memory has no preferences to keep them by: %s", error)
            self._warned = True
        else:
            _logger.warning("The turn could not be remembered: %s", error, exc_info=error)

    # options of a call

    def _options(self, runtime: Runtime[Any] | None) -> CallOptions:
        many = not isinstance(self.memory, EpicMemory)
        return call_options(getattr(runtime, "context", None), k=self.k, many=many)

    def _memory_of(self, options: CallOptions) -> EpicMemory:
        return self.memory if isinstance(self.memory, EpicMemory) else chosen_memory(self.memory, options.namespace)

    def _user(self, options: CallOptions) -> str:
        """Return a hash of the namespace whose run it is."""
        own = self.memory.namespace if isinstance(self.memory, EpicMemory) else ""
        return hashed(own if options.namespace is None else options.namespace)

    # the owner of a turn

    def _begun(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Return the state update that assigns an unanswered message to the caller, unless it already has an owner."""
        known, messages = _begun_turn(state), state["messages"]
        place = latest_place(messages)
        if place is not None and known is not None and known["asked"] == id_of(messages[place]):
            return None
        if place is None or answered(messages, place):
            return None if known is None else {"epic_turn": None}
        asked = messages[place]
        by = self._user(self._options(runtime))
        return {"epic_turn": {"asked": id_of(asked), "text": text_of(asked), "by": by}}

    # LangGraph gives the config to hooks that name it.

    def before_agent(  # type: ignore[override]
        self, state: AgentState[Any], runtime: Runtime[Any], config: RunnableConfig
    ) -> dict[str, Any] | None:
        """Record in the state whose turn it is.

        Raises:
            InvalidInputError: if an option is invalid.
        """
        return self._begun(state, runtime)

    async def abefore_agent(  # type: ignore[override]
        self, state: AgentState[Any], runtime: Runtime[Any], config: RunnableConfig
    ) -> dict[str, Any] | None:
        """Do the same as `before_agent`.

        Raises:
            InvalidInputError: if an option is invalid; on Python 3.10, where later hooks could not read them, for
                options in the config.
        """
        found = [option for option in OPTIONS if config.get("configurable", {}).get(f"{PREFIX}{option}") is not None]
        if found and sys.version_info < (3, 11):
            raise InvalidInputError(
                f"On Python 3.10 an asynchronous agent cannot read {found[0]!r} from the config. Give it in the"
                f" runtime context: ainvoke(..., context={{{found[0]!r}: ...}})."
            )
        return self._begun(state, runtime)


def _begun_turn(state: AgentState[Any]) -> dict[str, Any] | None:
    return cast(TurnState, state).get("epic_turn")
