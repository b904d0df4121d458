"""Errors for arguments that a component of a framework does not take, which say what it takes in their place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from pydantic import BaseModel

from epic_memory import SearchOptions, Settings
from epic_memory.errors import InvalidInputError

C = TypeVar("C", bound=type)

# Names that other libraries have for the same thing.
_SAME = (
    {"path", "memory", "graph", "persist_directory", "persist_dir", "persist_path", "folder_path", "db_path", "uri",
     "file", "filename", "collection_name", "client"},
    {"embedding", "embeddings", "embed_model", "embedding_function", "embedding_model", "encoder"},
    {"k", "similarity_top_k", "top_k", "top_n", "n_results", "limit"},
    {"min_score", "similarity_cutoff", "score_threshold", "similarity_threshold", "threshold"},
    {"filter", "filters", "where"},
    {"llm", "verifier", "lm", "model", "chat_model"},
    {"vectorstore", "store", "vector_store", "retriever", "base_retriever"},
)  # fmt: skip


# What holds arguments that a component once took, or another one takes, by themselves.
_HOLDERS: Mapping[str, type[Any]] = {"options": SearchOptions, "settings": Settings}


class WrongArgumentError(InvalidInputError, TypeError):
    """Error for an argument that a component does not take."""


def explained(**elsewhere: str) -> Callable[[C], C]:
    """Return a decorator for a component, whose constructor explains arguments that it does not take.

    `elsewhere` says what to do with those that something else takes.
    """

    def decorated(kind: C) -> C:
        plain: Callable[..., None] = kind.__init__  # type: ignore[misc]
        written = list(inspect.signature(plain).parameters.values())[1:]
        # A constructor that pydantic makes of the fields names none of them.
        made = all(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in written)
        open_ended = not made and any(one.kind is one.VAR_KEYWORD for one in written)
        unnamed = [one.name for one in written if one.kind is one.POSITIONAL_OR_KEYWORD]

        @wraps(plain)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            name = type(self).__name__
            known = list(type(self).model_fields) if made else [one.name for one in written]
            if len(args) > len(unnamed):
                before = f", but for {', '.join(unnamed)}" if unnamed else f": {name}({_first(type(self))}=...)"
                raise WrongArgumentError(f"{name} takes its arguments by name{before}.")
            if not open_ended:
                check_known(name, kwargs, known, elsewhere)
            plain(self, *args, **kwargs)

        kind.__init__ = init  # type: ignore[misc]
        return kind

    return decorated


def check_known(
    name: str, given: Iterable[str], known: Sequence[str], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Refuse arguments that something of this name does not take, by a `WrongArgumentError` for the first of them."""
    for one in given:
        if one not in known:
            raise WrongArgumentError(f"{name} takes no {one}=. {(elsewhere or {}).get(one) or _advice(one, known)}")


def check_options(given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse a keyword argument of a call that is none of the known ones, as Python does: by a `TypeError`."""
    for one in given:
        if one not in known:
            takes = ", ".join(f"{name}=" for name in known) or "no options"
            raise TypeError(f"A call takes {takes} here; not {one!r}.")


def _first(kind: type[BaseModel]) -> str:
    """Return the field that is given most: a required one, else the preferences."""
    required = [name for name, field in kind.model_fields.items() if field.is_required()]
    return next(iter([*required, "preferences"]))


def _advice(name: str, known: Sequence[str]) -> str:
    same = [one for group in _SAME if name in group for one in known if one in group]
    for holder, kind in _HOLDERS.items():
        inside = [one.name for one in fields(kind) if one.name == name or any({one.name, name} <= g for g in _SAME)]
        if holder in known and inside and not same:
            return f"Give {holder}={kind.__name__}({inside[0]}=...)."
    meant = same or get_close_matches(name, known, n=1, cutoff=0.75)
    if meant:
        return f"Give {' or '.join(f'{one}=' for one in meant)}."
    return f"It takes {', '.join(f'{one}=' for one in known)}."
