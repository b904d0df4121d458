"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from epic_core.errors import AlreadyThereError, StoreError

SIDE_FILES = ("-journal", "-wal", "-shm")


@contextmanager
def new_file(path: Path, *, overwrite: bool) -> Iterator[str]:
    """The name of a file to be written, which takes its place when it is complete.

    Raises:
        AlreadyThereError: if there is a file at its place, and `overwrite` is off.
    """
    if path.exists() and not overwrite:
        raise AlreadyThereError(f"{path} is there already. Give another name, or remove it first.")
    handle, made = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".new", dir=path.absolute().parent)
    os.close(handle)
    try:
        yield made
        mask = os.umask(0)
        os.umask(mask)
        Path(made).chmod(0o666 & ~mask)
        with Path(made).open("rb+") as written:
            os.fsync(written.fileno())
        if overwrite:
            Path(made).replace(path)
        else:
            _put(made, path)
    except FileExistsError:
        raise AlreadyThereError(f"{path} is there already. Give another name, or remove it first.") from None
    finally:
        for suffix in ("", *SIDE_FILES):
            Path(f"{made}{suffix}").unlink(missing_ok=True)


def _put(made: str, path: Path) -> None:
    """Give a file its name, unless there is one of that name."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems know no links.
        if path.exists():
            raise FileExistsError(path) from None
        Path(made).replace(path)


def check_path(path: Path, must_exist: bool) -> None:
    """Refuse a place where no file can be.

    Args:
        path: The file.
        must_exist: Refuse one that is not there, or is empty.

    Raises:
        StoreError: saying why.
    """
    if path.is_dir():
        raise StoreError(f"{path} is a folder. Give the name of a file, for instance {path / 'me.epic'}.")
    if must_exist and (not path.exists() or path.stat().st_size == 0):
        what = f"{path} is empty" if path.exists() else f"There is no memory at {path}"
        raise StoreError(f"{what}. Make one first: epic build --out {path} ...")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise StoreError(f"There is no folder {folder}. Make it first.")
    if path.exists():
        if not os.access(path, os.R_OK):
            raise StoreError(f"No permission to read {path}. Change its permissions.")
    elif not os.access(folder, os.W_OK):
        raise StoreError(f"No permission to write in {folder}. Choose another place, or change its permissions.")
