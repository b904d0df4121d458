"""Keys of locked files for the command line: from the environment, from the system's keyring, or typed."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from epic_memory.errors import InvalidInputError, LockedError, MissingExtraError, StoreError
from epic_memory.groups.file import is_locked

VARIABLE, NEW = "EPIC_KEY", "EPIC_NEW_KEY"
_SERVICE = "epic-memory"


def key_for(path: str | Path) -> Callable[[], str] | None:
    """Return what gives the key of a file that is locked, or is new and has a key in the environment; else None."""
    new = bool(os.environ.get(VARIABLE)) and not Path(path).exists()
    return partial(_key, str(path)) if new or is_locked(path) else None


def _key(path: str) -> str:
    return os.environ.get(VARIABLE) or _kept(path) or _typed(f"Key of {path}: ", VARIABLE)


def new_key(path: str | Path) -> str:
    """Return the key that a file is to be locked with, from the environment or typed twice.

    Raises:
        InvalidInputError: if it is empty, or was typed in two ways.
    """
    variable = NEW if is_locked(path) else VARIABLE
    if given := os.environ.get(variable):
        return given
    typed = _typed(f"New key of {path}: ", variable)
    if not typed or typed != _typed("Once more: ", variable):
        raise InvalidInputError("The two keys differ, or are empty. Nothing was changed.")
    return typed


def _typed(prompt: str, variable: str) -> str:
    if not sys.stdin.isatty():
        raise LockedError(f"A key is needed, and nobody is there to type it: set {variable}.")
    return getpass.getpass(prompt)


def _account(path: str | Path) -> str:
    return str(Path(path).resolve())


def _kept(path: str) -> str | None:
    """Return the key that the keyring has for a file; None without one, or without a keyring."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        found: str | None = keyring.get_password(_SERVICE, _account(path))
    except KeyringError:
        return None
    return found


def keep_key(path: str | Path, key: str | None) -> None:
    """Keep the key of a file in the system's keyring; None removes it.

    Raises:
        MissingExtraError: without the extra "keyring".
        StoreError: if the system has no keyring that can be used.
    """
    try:
        import keyring
        from keyring.errors import KeyringError, PasswordDeleteError
    except ImportError:
        if key is None:
            return
        raise MissingExtraError("keyring", "keyring") from None
    try:
        if key is not None:
            keyring.set_password(_SERVICE, _account(path), key)
        elif _kept(str(path)) is not None:
            keyring.delete_password(_SERVICE, _account(path))
    except PasswordDeleteError:
        return
    except KeyringError as error:
        raise StoreError(f"The system's keyring cannot be used ({error}). Use {VARIABLE}, or type the key.") from None
