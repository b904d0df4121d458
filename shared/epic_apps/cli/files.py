"""Commands about a memory's file: stats, list, show, explain, verify, compact, backup, export, forget and others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import RenderableType
from rich.text import Text
from typer import Argument, Option

from epic_apps.cli.options import InFile, suggesting
from epic_apps.cli.printing import one_line, plain, table
from epic_memory.errors import InvalidInputError

ItemId = Annotated[str, Argument(metavar="ID", help="the item's id, as `epic ask` and `epic list` show it")]
To = Annotated[str, Argument(metavar="TO", help="the file to write")]
Overwrite = Annotated[bool, Option("--overwrite", help="replace a file that is there")]
_PREVIEW = 80


def stats(file: InFile) -> None:
    """Show counts and sizes."""
    with file.open() as memory:
        file.show(memory.stats())


def list_(
    file: InFile,
    limit: Annotated[int, Option("--limit", "-n", help="how many, the newest last; 0 for all")] = 50,
) -> None:
    """List the items that are held, with the preferences they are held for."""
    with file.open() as memory:
        held = memory.items()
        shown = held[-limit:] if limit > 0 else held
        entries = {item.id: memory.explain(item.id).entries for item in shown}
    kept: list[dict[str, Any]] = [
        {"id": item.id, "text": item.text, "kept_for": [entry.preference for entry in entries[item.id]]}
        for item in shown
    ]
    rows = [(one["id"], _preview(one["text"]), _preview("; ".join(one["kept_for"]) or "its text only")) for one in kept]
    more = f"The newest {len(shown)} of {len(held)} items; --limit 0 lists all." if len(shown) < len(held) else ""
    nothing = "" if held else "Nothing in this memory yet."
    file.show(kept, table(("id", "text", "kept for"), rows), *filter(None, (more, nothing)))


def _preview(text: str) -> Text:
    """Return the beginning of a text, which a narrow terminal cuts once more."""
    cell = one_line(text, _PREVIEW)
    cell.no_wrap, cell.overflow = True, "ellipsis"
    return cell


def explain(file: InFile, item_id: ItemId) -> None:
    """Show an item, and why it was kept or was not; `epic why-not` says it of a text."""
    from epic_apps.cli.reasons import marked, reason, turned_away_now
    from epic_memory.types.validation import moment

    with file.open() as memory, suggesting(memory, item_id):
        explained = memory.explain(item_id)
        if explained.note.endswith("kept for its text only."):  # it is not on record why
            now = turned_away_now(memory, explained.item)
            why = f"by {memory.verifier.name} it would be kept now" if now is None else now.why
            explained = replace(explained, note=f"{explained.note[:-1]}: {why}.")
    if file.verbose:
        file.show(explained)
        return
    item, entries = explained.item, explained.entries
    rows: list[tuple[str, Any]] = [*item.metadata.items()]
    rows += [("until", item.expires_at)] if item.expires_at is not None else []
    rows += [("added", f"{moment(entries[0].added):%Y-%m-%d %H:%M} UTC")] if entries else []
    parts: list[RenderableType] = [plain(item.id, "bold cyan"), item.text, *([table(("", ""), rows)] if rows else [])]
    for entry in entries:
        parts += ["", marked(reason(entry, item.text), entry.stance)]
        if entry.instruction:
            parts.append(f"a model is told: {entry.instruction}")
    parts += [f"\n{explained.note}"] if explained.note else []
    file.show(explained, *parts)


def not_kept(file: InFile) -> None:
    """Show what is on record of items that were not kept, and why."""
    with file.open(read_only=True) as memory:
        records = memory.file.not_kept()
    file.show(records, *(map(str, records) if records else ["Nothing is on record of what was not kept."]))


def namespaces(file: InFile) -> None:
    """List the users of a file."""
    with file.open(read_only=True) as memory:
        names = memory.file.namespaces
    file.show(names, "\n".join(names))


def verify(file: InFile) -> None:
    """Check that a memory's file is as it was written."""
    with file.open(read_only=True) as memory:
        rows = memory.file.verify()
    size = Path(file.memory).stat().st_size
    file.show({"rows": rows, "bytes": size}, f"{file.memory}: sound, {rows} rows, {size} bytes")


def compact(file: InFile) -> None:
    """Write a memory's file anew without gaps."""
    with file.open() as memory:
        saved = max(0, memory.file.compact())
    size = Path(file.memory).stat().st_size
    file.show({"bytes": size, "saved": saved}, f"{file.memory}: {size} bytes, {saved} fewer than before")


def backup(file: InFile, to: To, overwrite: Overwrite = False) -> None:
    """Copy a memory, also while it is in use."""
    with file.open(read_only=True) as memory:
        memory.file.backup(to, overwrite=overwrite)
    size = Path(to).stat().st_size
    file.show({"bytes": size}, f"{to}: {size} bytes")


def lock(
    file: InFile,
    keyring: Annotated[
        bool, Option("--keyring", help="keep the key in the system's keyring, for this machine (extra: keyring)")
    ] = False,
) -> None:
    """Lock a memory's file, or change its key: asked for, or read from EPIC_KEY (a locked file's: EPIC_NEW_KEY)."""
    from epic_apps.keys import keep_key, new_key

    with file.open() as memory:
        key = new_key(file.memory)
        keep_key(file.memory, key if keyring else None)
        memory.file.rekey(key)
    file.show({"locked": True}, f"{file.memory} is locked. Without its key nobody can read it, you neither.")


def unlock(file: InFile) -> None:
    """Unlock a memory's file for good."""
    from epic_apps.keys import keep_key

    with file.open() as memory:
        memory.file.rekey(None)
    keep_key(file.memory, None)
    file.show({"locked": False}, f"{file.memory} is not locked any more.")


def merge(
    file: InFile, other: Annotated[str, Argument(metavar="OTHER", help="a copy of the other device's file")]
) -> None:
    """Merge another device's file of the same memory into this one; OTHER stays as it is."""
    from epic_apps.keys import key_for
    from epic_learn.merging import merge as merge_files

    with file.open() as memory:
        report = merge_files(memory, other, key=key_for(other))
    file.show(report, f"{file.memory}: {report}")


def export(
    file: InFile,
    to: To,
    overwrite: Overwrite = False,
    markdown: Annotated[
        bool, Option("--markdown", help="a folder to read, whose preferences.md can be edited and given to epic sync")
    ] = False,
    unlocked: Annotated[bool, Option("--unlocked", help="a locked file's texts may be written as they are")] = False,
) -> None:
    """Write a memory as lines of JSON, or as Markdown."""
    from epic_memory.groups.file import is_locked

    if is_locked(file.memory) and not unlocked:
        raise InvalidInputError(f"{file.memory} is locked, and an export is not: add --unlocked if that is meant.")
    if markdown:
        from epic_apps.markdown import export_markdown

        with file.open(read_only=True) as memory:
            made = export_markdown(memory, to, overwrite=overwrite)
        file.show({"files": list(map(str, made))}, *map(str, made))
        return
    with file.open(read_only=True) as memory:
        items = memory.file.export(to, overwrite=overwrite)
    file.show({"items": items}, f"{to}: {items} items")


def forget(
    file: InFile,
    item_ids: Annotated[list[str], Argument(metavar="ID...", help="their ids, as `epic list` shows them")],
) -> None:
    """Forget items for good."""
    with file.open() as memory, suggesting(memory, *item_ids):
        memory.forget(*item_ids)
        file.show({"items": len(memory)}, f"forgotten; {len(memory)} items are left")


COMMANDS = (stats, list_, explain, not_kept, namespaces, verify, compact, backup, lock, unlock, merge, export, forget)
