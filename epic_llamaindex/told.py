"""Digest of models' settings for a cache key, computed without asking a server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from epic_core.encoders import Encoder, StaticEncoder
from epic_core.types.digests import digest
from epic_core.verification import EmbeddedVerifier, LMVerifier, Verifier
from epic_llamaindex.adapters import LlamaIndexEncoder, LlamaIndexLM

# Settings of the framework's models that are left out: settings that change no answer, and secrets. A setting included
# needlessly costs a cache entry; a setting left out by mistake returns a stale one.
_NOT_TOLD = re.compile(
    "key|secret|password|credential|auth|header|callback|timeout|retr|worker|concurren|batch|cache|verbose|progress"
    "|rate_limit|url|api_base|host|endpoint|region|client|keep_alive|context_window|log_|proxy|project|organization"
    "|account|session|profile"
)
# Settings of the core's own models, which take a server's settings as a mapping. The fingerprint that a server gives
# is not among them: it is known only after the first use.
_OWN = ("_fingerprint", "_think", "_options", "_extra", "batch_size", "_max_tokens")
_DEEP = 4


def told(*models: Encoder | Verifier | None) -> str:
    """Return a digest of the settings of models."""
    return digest(*(json.dumps(_model(model), sort_keys=True, default=str) for model in models)).hex()


def _model(model: Any) -> list[Any]:
    # Read only stored attributes: a property may ask a server.
    held = vars(model) if hasattr(model, "__dict__") else {}
    named = [getattr(part, "name", None) for part in (model, getattr(model, "rewriter", None))]
    found: list[Any] = [*named, {name: _plain(held[name]) for name in _OWN if name in held}]
    if "fingerprint" in held and not hasattr(type(model), "fingerprint"):
        found.append(_plain(held["fingerprint"]))
    if isinstance(model, StaticEncoder):
        found.append(model.fingerprint)
    if isinstance(model, LlamaIndexEncoder):
        found.append(_plain(model.embed_model))
    elif isinstance(model, LlamaIndexLM):
        found.append(_plain(model.llm))
    elif isinstance(model, LMVerifier):
        found.append(_model(model.lm))
    elif isinstance(model, EmbeddedVerifier):
        found.append(_model(model.encoder))
    return found


def _plain(value: Any, deep: int = 0) -> Any:
    """Return the plain values in a setting; for any other object, the name of its type."""
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, PurePath):
        return str(value)
    if deep < _DEEP:
        if isinstance(value, BaseModel):
            fields = [name for name, field in type(value).model_fields.items() if _says(name, field)]
            return [type(value).__qualname__, {name: _plain(getattr(value, name), deep + 1) for name in fields}]
        if isinstance(value, Mapping):
            return {str(key): _plain(part, deep + 1) for key, part in value.items() if not _NOT_TOLD.search(str(key))}
        if isinstance(value, (list, tuple)):
            return [_plain(part, deep + 1) for part in value]
        if isinstance(value, (set, frozenset)):
            return sorted(str(_plain(part, deep + 1)) for part in value)
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _says(name: str, field: FieldInfo) -> bool:
    return not field.exclude and not _NOT_TOLD.search(name)
