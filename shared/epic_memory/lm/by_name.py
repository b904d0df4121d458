"""Language models by name: "ollama:qwen3:4b", "openai:MODEL@URL", or "auto"."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, TypeVar

from epic_memory.errors import InvalidInputError
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.local import local_lm
from epic_memory.lm.ollama import OllamaLM
from epic_memory.lm.openai_compatible import OpenAICompatibleLM

NAMES = "ollama:MODEL, openai:MODEL@URL, or auto"
"""The known names, for messages."""

_EXAMPLES = {"ollama": "qwen3:4b", "openai": "MODEL@http://localhost:8000/v1"}

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
    """Return the language model with a name; return a model unchanged.

        lm_of("ollama:qwen3:4b")
        lm_of("openai:qwen3-4b@http://localhost:8000/v1")

    "auto" asks the servers of this machine at once, and takes a model that one of them has (`local_lm`). For all other
    names nothing is sent before the model is used.

    Args:
        model: A model, or one of `NAMES`.
        url: The server, if the name does not hold it. An Ollama server's default is `OLLAMA_HOST`, else Ollama's own.
        api_key: Sent to a named server as a bearer token.
        timeout: Seconds for an answer; default: the model's own.
        concurrency: How many calls the server gets at once; default: one.

    Raises:
        InvalidInputError: for any other name, "openai:MODEL" without a url, invalid settings, or an object that is not
            a language model.
        LMSetupError: for "auto" if nothing answers.
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
    kind, _, rest = model.strip().partition(":")
    name, address = _split(kind, rest)
    if address is not None and url is not None:
        raise InvalidInputError(f"The server of {model!r} was given twice: in the name, and as url={url!r}.")
    if kind == "ollama" and name:
        return OllamaLM(name, host=address or url, api_key=api_key, **limits)
    if kind == "openai" and name:
        if (server := address or url) is None:
            raise InvalidInputError(
                "openai:MODEL needs the server's address: openai:MODEL@http://localhost:8000/v1, or url= (--llm-url on"
                " the command line)."
            )
        return OpenAICompatibleLM(server, name, api_key=api_key, **limits)
    if model.strip() == "auto":
        if url is not None:
            raise InvalidInputError('"auto" takes no address of a server (url=).')
        return local_lm(**limits)
    raise InvalidInputError(f"There is no model {model!r}. Use {NAMES}{_hint(model.strip())}.")


def _hint(wrong: str) -> str:
    """Return how a name may have been meant."""
    kind = wrong.partition(":")[0]
    if kind in _EXAMPLES:
        return f"; {kind!r} is followed by a colon and a model: '{kind}:{_EXAMPLES[kind]}'"
    if wrong.lower().endswith(".gguf"):
        return "; a file is served by llama.cpp (llama-server -m FILE) or Ollama, and named by its server"
    return f"; one of an Ollama server is 'ollama:{wrong}'" if wrong else ""


def _split(kind: str, rest: str) -> tuple[str, str | None]:
    """Return a model's own name, and the address behind it, if there is one."""
    if found := re.fullmatch(r"(.+)@(https?://\S+)", rest):
        return found[1], found[2]
    if re.search({"ollama": r"@(?!sha256:)", "openai": r"@\S+:\d"}.get(kind, r"(?!)"), rest):
        raise InvalidInputError(f"The address in '{kind}:{rest}' must be whole, such as http://localhost:8000/v1.")
    return rest, None
