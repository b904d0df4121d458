"""Files that are written completely or not at all, and what a file says of its encoder."""

from __future__ import annotations

import glob
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from epic_memory.errors import AlreadyThereError, StoreError
from epic_memory.storage.sqlite.locking import Key, connect, salt_in, sqlite_errors
from epic_memory.storage.sqlite.tables import Schema

# What a memory holds is nobody else's business.
_OWNER_ONLY = 0o600
# Seconds after which an unfinished file counts as abandoned.
_STALE = 3600.0
SIDE_FILES = ("-journal", "-wal", "-shm")


@contextmanager
def new_file(path: Path, *, overwrite: bool, mode: int = _OWNER_ONLY) -> Iterator[str]:
    """Yield the name of a file to write, which replaces the one at the path when it is complete.

    A new file has the permissions `mode`, by default for its owner only; one that replaces another has the other's.

    Raises:
        AlreadyThereError: if there is a file at the path, and `overwrite` is off.
        StoreError: if it cannot be written, for instance because the disk is full.
    """
    if path.exists() and not overwrite:
        raise AlreadyThereError(f"{path} is there already. Give another name, or remove it first.")
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no ordinary file. Give another name.")
    _sweep(path)
    made = str(path.absolute().parent / f".{path.name[:100]}.{secrets.token_hex(6)}.new")
    try:
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY))
        Path(made).chmod(path.stat().st_mode & 0o777 if path.exists() else mode)
        yield made
        with Path(made).open("rb+") as written:
            os.fsync(written.fileno())
        if overwrite:
            Path(made).replace(path)
        else:
            _put(made, path)
    except FileExistsError:
        raise AlreadyThereError(f"{path} is there already. Give another name, or remove it first.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{path} cannot be written: {reason}. What was there is unchanged.") from error
    finally:
        for suffix in ("", *SIDE_FILES):
            Path(f"{made}{suffix}").unlink(missing_ok=True)


def encoder_in(path: Path, key: Key | None = None) -> object:
    """Return the description of the encoder that a file was made with; None for a file that does not say, or for none.

    Whether the file is damaged or locked, or no file can have such a name, is found out when it is opened.
    """
    try:
        if not path.is_file():
            return None
        with closing(connect(f"{path.absolute().as_uri()}?mode=ro", key, salt_in(path, key), uri=True)) as connection:
            found = connection.execute("SELECT value FROM meta WHERE key = 'encoder'").fetchone()
        return json.loads(found[0]) if found else None
    except (OSError, ValueError, TypeError, StoreError):
        return None
    except sqlite_errors():
        return None


def _sweep(path: Path) -> None:
    """Remove files that earlier attempts left when they were killed."""
    for left in path.absolute().parent.glob(f".{glob.escape(path.name[:100])}.*.new*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE:
                left.unlink()


def _put(made: str, path: Path) -> None:
    """Give a file its name, unless the name is taken."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems do not support links.
        if path.exists():
            raise FileExistsError(path) from None
        Path(made).replace(path)


def check_name(path: Path) -> None:
    """Raise a `StoreError` for a name that no file can have."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except (OSError, ValueError) as error:
        raise StoreError(f"No file can have the name {ascii(str(path))[:200]}: {error}. Give another one.") from None


def check_path(path: Path, must_exist: Schema | None = None) -> None:
    """Raise an error if there can be no file at a path.

    Args:
        path: The file.
        must_exist: The kind of file that has to exist, and not be empty.

    Raises:
        StoreError: with the reason.
    """
    check_name(path)
    if path.is_dir():
        raise StoreError(f"{path} is a folder. Give the name of a file, for instance {path / 'me.epic'}.")
    if must_exist is not None and (not path.exists() or path.stat().st_size == 0):
        what = f"{path} is empty" if path.exists() else f"There is no {must_exist.noun} at {path}"
        raise StoreError(f"{what}. Make one first: {must_exist.made_by}")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StoreError(f"There is no folder {folder}. Make it first.")
    if path.exists():
        if not os.access(path, os.R_OK):
            raise StoreError(f"No permission to read {path}. Change its permissions.")
    elif not os.access(folder, os.W_OK):
        raise StoreError(f"No permission to write in {folder}. Choose another place, or change its permissions.")
