"""Search for a language model on this machine: an Ollama server, or one of OpenAI's protocol at a usual port."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from epic_memory.errors import LMSetupError
from epic_memory.lm.http import client_settings, is_this_machine, within
from epic_memory.lm.ollama import OllamaLM, server_address
from epic_memory.lm.openai_compatible import OpenAICompatibleLM

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

    settings = client_settings(httpx.URL(url), timeout=_SECONDS, concurrency=1)
    try:
        with httpx.Client(**settings) as client:
            answer = within(_SECONDS, lambda: client.get(url))
        body = answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, OSError, ValueError):
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
