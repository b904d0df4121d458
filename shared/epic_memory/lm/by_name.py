"""Language models by name: "ollama:qwen3:4b", "openai:MODEL@URL", or "auto", which looks on this machine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple, TypeVar

from epic_memory.errors import InvalidInputError, LMError, LMSetupError
from epic_memory.lm.base import LanguageModel
from epic_memory.lm.failures import kind_of
from epic_memory.lm.http import HttpServer, is_this_machine
from epic_memory.lm.ollama import OllamaLM, server_address
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
            raise InvalidInputError(
                f"A language model is an object with a method complete(...), or a name: {NAMES}; not {kind_of(model)}."
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


OLLAMA = "http://127.0.0.1:11434"
SERVERS = {
    "llama.cpp": "http://127.0.0.1:8080/v1",
    "LM Studio": "http://127.0.0.1:1234/v1",
    "vLLM": "http://127.0.0.1:8000/v1",
}
"""Where servers of OpenAI's protocol listen, unless they are told otherwise."""

# How long a server may take to list its models.
_SECONDS = 1.0

# Models that cannot converse, and models that a server on this machine has another machine run.
_NO_CHAT = re.compile(r"embed|rerank|bert|minilm|whisper|(?<![a-z])(?:bge|gte|e5|base|text|tts)(?![a-z])", re.I)
_ELSEWHERE = re.compile(r"[-:]cloud$", re.I)
_BILLIONS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z])", re.I)

# Billions of parameters: small models judge badly, large ones answer slowly.
_WANTED = 4.0
_UNKNOWN = 32.0


class _Model(NamedTuple):
    name: str
    billions: float | None


def local_lm(**limits: Any) -> OllamaLM | OpenAICompatibleLM:
    """Return a language model that a server on this machine has: of the first that answers, the one nearest to 4B.

    Asked are an Ollama server (at `OLLAMA_HOST` if that is this machine, else at its default), and the addresses in
    `SERVERS`. No key is sent, and no other machine is asked, nor a model of Ollama's cloud chosen.

    Args:
        limits: `timeout` and `concurrency`, as both models take them.

    Raises:
        LMSetupError: if no server answers, or none has a model that converses.
    """
    configured = server_address(None)
    ollama = str(configured).rstrip("/") if is_this_machine(configured.host) else OLLAMA
    silent: list[str] = []
    empty: list[str] = []
    for name, address in {"Ollama": ollama, **SERVERS}.items():
        models = _listed(f"{address}/api/tags" if name == "Ollama" else f"{address}/models")
        if models is None:
            silent.append(f"{name} at {address}")
        elif (chosen := _chosen(models)) is None:
            empty.append(f"{name} at {address}")
        elif name == "Ollama":
            return OllamaLM(chosen, host=address, **limits)
        else:
            return OpenAICompatibleLM(address, chosen, **limits)
    found = f"{' and '.join(empty)}: no model that converses. " if empty else ""
    asked = f"No answer from {', '.join(silent)}. " if silent else ""
    raise LMSetupError(
        f"No language model was found on this machine. {found}{asked}Install Ollama (https://ollama.com/download),"
        " which then runs as a server, and pull a model once: ollama pull qwen3:4b. Or name a model of another server,"
        " openai:MODEL@URL."
    )


def _listed(url: str) -> list[_Model] | None:
    """Return the models that a server lists, or None if it is no server of models."""
    import httpx

    server = HttpServer(httpx.URL(url), url, silent=url, unknown=url, timeout=_SECONDS, concurrency=1, key=None)
    try:
        body = server.json_of(server.send("GET", ""))
    except LMError:
        return None
    listed = body.get("models" if url.endswith("/api/tags") else "data") if isinstance(body, Mapping) else None
    return list(_models(listed)) if isinstance(listed, list) else None


def _models(listed: Iterable[object]) -> Iterable[_Model]:
    """Yield the models of a list of Ollama's or OpenAI's form that run on the machine of the server."""
    for entry in listed:
        if not isinstance(entry, Mapping):
            continue
        name = entry.get("name") or entry.get("id")
        if isinstance(name, str) and not entry.get("remote_host") and not _ELSEWHERE.search(name):
            yield _Model(name, _billions(entry, name))


def _billions(entry: Mapping[str, Any], name: str) -> float | None:
    """Return a model's size in billions of parameters, as the server says or the name tells; None if neither does."""
    details, meta = entry.get("details"), entry.get("meta")
    if isinstance(meta, Mapping) and isinstance(meta.get("n_params"), (int, float)) and meta["n_params"] > 0:
        return float(meta["n_params"]) / 1e9
    stated = str(details.get("parameter_size", "")) if isinstance(details, Mapping) else ""
    found = _BILLIONS.search(stated) or _BILLIONS.search(name.rpartition("/")[2])
    if found is None or not float(found[1]):
        return None
    return float(found[1]) / (1.0 if found[2].lower() == "b" else 1000.0)


def _chosen(models: Iterable[_Model]) -> str | None:
    """Return the name of the model that is nearest in size to what is wanted, or None if none converses."""

    def distance(model: _Model) -> tuple[float, str]:
        return (_UNKNOWN if model.billions is None else abs(math.log2(model.billions / _WANTED)), model.name)

    usable = [model for model in models if not _NO_CHAT.search(model.name)]
    return min(usable, key=distance).name if usable else None
