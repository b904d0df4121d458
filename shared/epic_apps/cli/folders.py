"""Folders: the files below them, without hidden ones and what is behind links that lead out; digests of files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple


class Listing(NamedTuple):
    """Contents of one folder.

    Attributes:
        within: Where it is below the one that was asked for: empty, or a path that ends with a slash.
        files: Its files in the order of their names, and the links to files of the same folders.
        out: The paths below the one that was asked for of links that lead out of that.
    """

    within: str
    files: list[os.DirEntry[str]]
    out: list[str]


def folders_in(
    top: str | Path,
    failed: Callable[[OSError], object],
    enters: Callable[[os.DirEntry[str], str], bool] = lambda entry, within: True,
) -> Iterator[Listing]:
    """Yield a folder and those below it, the upper ones first. Links to folders are not followed.

    Args:
        top: The folder.
        failed: Called for a folder that cannot be read.
        enters: Tells of a folder below, and its path there, whether it is looked into.
    """
    whole = os.path.realpath(top)
    waiting = [(str(top), "")]
    while waiting:
        path, within = waiting.pop()
        try:
            with os.scandir(path) as entries:
                listed = sorted(entries, key=attrgetter("name"))
        except OSError as error:
            # What has gone since it was listed is not there, unless the whole disk has gone.
            if not (isinstance(error, FileNotFoundError) and any(Path(top).glob("*"))):
                failed(error)
            continue
        listing, inner = Listing(within, [], []), []
        for entry in listed:
            if entry.name[0] == ".":
                continue
            if entry.is_symlink():
                if not Path(os.path.realpath(entry.path)).is_relative_to(whole):
                    listing.out.append(f"{within}{entry.name}")
                elif not os.path.isdir(entry.path):  # noqa: PTH112 - the other raises what may not be looked at
                    listing.files.append(entry)
            elif not entry.is_dir():
                listing.files.append(entry)
            elif enters(entry, below := f"{within}{entry.name}/"):
                inner.append((entry.path, below))
        waiting += reversed(inner)
        yield listing


def digest_of(path: str | Path) -> str:
    """Return a digest of what a file holds."""
    made = hashlib.blake2b(digest_size=8)
    with Path(path).open("rb") as content:
        while piece := content.read(1 << 20):
            made.update(piece)
    return made.hexdigest()
