"""Digest of models' settings for a cache key, computed without asking a server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from epic_llamaindex.models.chat_model import LlamaIndexLM
from epic_llamaindex.models.encoder import LlamaIndexEncoder
from epic_memory.encoders import Encoder, StaticEncoder
from epic_memory.types.digests import digest
from epic_memory.verification import EmbeddedVerifier, LMVerifier, Verifier

# Settings of the framework's models that are left out: settings that change no answer, and secrets. A setting included
# needlessly costs a cache entry; a setting left out by mistake returns a stale one.
_LEFT_OUT = re.compile(
    "key|secret|password|credential|auth|header|callback|timeout|retr|worker|concurren|batch|cache|verbose|progress"
    "|rate_limit|url|api_base|host|endpoint|region|client|keep_alive|context_window|log_|proxy|project|organization"
    "|account|session|profile"
)
# Settings of the core's own models, which take a server's settings as a mapping. The fingerprint that a server gives
# is not among them: it is known only after the first use.
_OWN = ("_fingerprint", "_think", "_options", "_extra", "batch_size", "_max_tokens")


def settings_digest(*models: Encoder | Verifier | None) -> str:
    """Return a digest of the settings of models."""
    return digest(*(json.dumps(_settings(model), sort_keys=True, default=_name) for model in models)).hex()


def _settings(model: Any) -> list[Any]:
    # Read only stored attributes: a property may ask a server.
    held = vars(model) if hasattr(model, "__dict__") else {}
    found: list[Any] = [getattr(model, "name", None), {name: _plain(held[name]) for name in _OWN if name in held}]
    if "fingerprint" in held and not hasattr(type(model), "fingerprint"):
        found.append(held["fingerprint"])
    if isinstance(model, StaticEncoder):
        found.append(model.fingerprint)
    if isinstance(model, LlamaIndexEncoder):
        found.append(_plain(model.embed_model.model_dump()))
    elif isinstance(model, LlamaIndexLM):
        found.append(_plain(model.llm.model_dump()))
    elif isinstance(model, LMVerifier):
        found.append(_settings(model.lm))
    elif isinstance(model, EmbeddedVerifier):
        found.append(_settings(model.encoder))
    return found


def _plain(value: Any) -> Any:
    """Return a setting without what is left out, and with its sets in order."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items() if not _LEFT_OUT.search(str(key))}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return sorted(map(str, value)) if isinstance(value, (set, frozenset)) else value


def _name(value: Any) -> str:
    """Return a path as text; for any other object, the name of its type, as its own text may hold an address."""
    return str(value) if isinstance(value, PurePath) else str(getattr(value, "__qualname__", type(value).__qualname__))
