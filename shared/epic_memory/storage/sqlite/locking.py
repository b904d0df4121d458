"""Locked files: keys, the pages that SQLCipher encrypts under them, and the connections that read these.

Page by page a locked file is encrypted (AES-256) and authenticated (HMAC-SHA512); so is its journal. The key comes
from the passphrase as SQLCipher itself derives it, so that its other tools open the file, too; it is derived here,
because then it is done once for a file and its copies, which share their salt: the first bytes of the file.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from epic_memory.errors import DamagedError, InvalidInputError, LockedError, MissingExtraError, StoreError

Passphrase: TypeAlias = "str | bytes | Callable[[], str | bytes]"
"""Key of a file: a passphrase, or a callable that returns it when it is needed."""

PAGE = 1024
"""Bytes of a locked file's page: the least in which SQLCipher's 80 bytes of each leave SQLite enough."""
_ROUNDS = 256_000
_SALT = 16
_PLAIN = b"SQLite format 3\x00"
# Of 1,024 random bytes about 251 values differ; text has fewer than 120, and a first page many zeros.
_RANDOM = 200
_HOW = "Settings(key=...), or on the command line EPIC_KEY"


class Key:
    """A passphrase and the keys derived from it, neither of which is shown or pickled.

    Args:
        given: The passphrase, or what returns it: that is asked once for each file.

    Attributes:
        raw: Returns the key for a file with some salt, in hexadecimal.
    """

    def __init__(self, given: Passphrase) -> None:
        if not callable(given):
            _checked(given)
        self.raw: Callable[[bytes], str] = lru_cache(partial(_derived, given))


def key_of(given: Passphrase | Key | None) -> Key | None:
    """Return the key that a caller gave; None for none."""
    return given if given is None or isinstance(given, Key) else Key(given)


def _derived(given: Passphrase, salt: bytes) -> str:
    passphrase = _checked(given() if callable(given) else given)
    return hashlib.pbkdf2_hmac("sha512", passphrase, salt, _ROUNDS, 32).hex()


def _checked(passphrase: object) -> bytes:
    if not isinstance(passphrase, (str, bytes)) or not passphrase:
        raise InvalidInputError("A key is a text or bytes, of one character at least, or a callable that returns it.")
    # Keyboards spell an accent in one character or in two.
    return unicodedata.normalize("NFC", passphrase).encode() if isinstance(passphrase, str) else passphrase


def sqlite_errors() -> tuple[type[Exception], ...]:
    """Return the classes of SQLite's errors, of locked files and others."""
    cipher = sys.modules.get("sqlcipher3.dbapi2")
    return (sqlite3.Error,) if cipher is None else (sqlite3.Error, cipher.Error)


def connect(target: str, key: Key | None, salt: bytes | None = None, **options: Any) -> sqlite3.Connection:
    """Connect to a database, locked or not; without a salt to one that is empty, which then has a new one.

    Raises:
        MissingExtraError: for a key without SQLCipher.
    """
    connection: sqlite3.Connection
    if key is None:
        connection = sqlite3.connect(target, isolation_level=None, **options)
        return connection
    try:
        from sqlcipher3 import dbapi2
    except ImportError:
        raise MissingExtraError("sqlcipher3", "encryption") from None
    salt = salt or os.urandom(_SALT)
    raw = key.raw(salt)
    connection = dbapi2.connect(target, isolation_level=None, **options)
    # It would write to stderr.
    connection.execute("PRAGMA cipher_log_level = NONE")
    connection.execute(f"""PRAGMA key = "x'{raw}{salt.hex()}'" """)
    connection.execute(f"PRAGMA cipher_page_size = {PAGE}")
    return connection


def salt_in(path: Path, key: Key | None) -> bytes | None:
    """Return the salt of a locked file; None for one that is not.

    Raises:
        StoreError: for a locked file without a key, which is a LockedError, or one that is not locked and has a key.
    """
    with path.open("rb") as file:
        start = file.read(PAGE)
    if key is None:
        if not start.startswith(_PLAIN) and len(start) == PAGE and len(set(start)) > _RANDOM:
            raise LockedError(f"{path} is locked, or is no memory of epic-memory. Open it with its key: {_HOW}.")
        return None
    if start and len(start) < PAGE:
        raise StoreError(f"{path} is no memory of epic-memory, or it was cut. Go back to a copy.")
    if start.startswith(_PLAIN):
        raise StoreError(f"{path} is not locked. Open it without a key; memory.file.rekey(key) locks it.")
    return start[:_SALT]


def check_key(connection: sqlite3.Connection, path: Path) -> None:
    """Raise a LockedError for the wrong key, a DamagedError if it is right and the first page is damaged."""
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite_errors() as error:
        if "not a database" not in str(error):
            raise
        pages = path.stat().st_size // PAGE
        wrong = len(connection.execute("PRAGMA cipher_integrity_check").fetchall())
        if 0 < wrong < pages:
            raise DamagedError(path, f"{wrong} of its {pages} pages are not as they were written") from None
        raise LockedError(
            f"{path} is locked with another key, or is no memory of epic-memory. Give its key: {_HOW}."
        ) from None
