"""Language models by name: "ollama/qwen3:4b", or "openai/MODEL" with the address of a server."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, TypeVar

from epic_core.errors import InvalidInputError
from epic_core.lm.base import LanguageModel
from epic_core.lm.ollama import OllamaLM
from epic_core.lm.openai_compatible import OpenAICompatibleLM

NAMES = "ollama/MODEL, or openai/MODEL with the server's address"
"""The known names, for messages."""

L = TypeVar("L", bound=LanguageModel)


def _adapter_of(model: object) -> Callable[[Any], Any] | None:
    """Return the adapter that a plugin registered for the framework that a model is of, or None.

    A distribution names it under the entry points `epic_memory.models`, by the framework's package.
    """
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    found = next((point for point in entry_points(group="epic_memory.models") if point.name in packages), None)
    return None if found is None else found.load()


def lm_of(
    model: L | str,
    *,
    url: str | None = None,
    api_key: str | None = None,
    timeout: float | None = None,
    concurrency: int | None = None,
) -> L | OllamaLM | OpenAICompatibleLM:
    """Return the language model with a name; return a model unchanged. Nothing is sent before it is used.

        lm_of("openai/qwen3-4b", url="http://localhost:8000/v1")

    Args:
        model: A model, or one of `NAMES`.
        url: The server. An Ollama server's default is `OLLAMA_HOST`, else Ollama's own.
        api_key: Sent to the server as a bearer token.
        timeout: Seconds for an answer; default: the model's own.
        concurrency: How many calls the server gets at once; default: one.

    Raises:
        InvalidInputError: for any other name, "openai/MODEL" without a url, invalid settings, or an object that is not
            a language model.
    """
    if not isinstance(model, str):
        if not isinstance(model, type) and (adapter := _adapter_of(model)) is not None:
            adapted: L = adapter(model)
            return adapted
        if isinstance(model, type) or not callable(getattr(model, "complete", None)):
            found = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
            raise InvalidInputError(
                f"A language model is an object with a method complete(...), or a name: {NAMES}; not {found}."
            )
        return model
    limits: dict[str, Any] = {"timeout": timeout, "concurrency": concurrency}
    limits = {name: value for name, value in limits.items() if value is not None}
    kind, _, name = model.strip().partition("/")
    if kind == "ollama" and name:
        return OllamaLM(name, host=url, api_key=api_key, **limits)
    if kind == "openai" and name:
        if url is None:
            raise InvalidInputError(
                "openai/MODEL needs the server's address: lm_of('openai/MODEL', url='http://localhost:8000/v1'), or"
                " --llm-url http://localhost:8000/v1 on the command line."
            )
        return OpenAICompatibleLM(url, name, api_key=api_key, **limits)
    raise InvalidInputError(f"There is no model {model!r}. Use {NAMES}.")
