"""Commands about a memory's file: stats, list, show, explain, verify, compact, backup, export, forget and others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from rich.text import Text
from typer import Argument, Option, Typer

from epic_apps.cli.options import InFile, command, suggesting
from epic_apps.cli.printing import one_line, plain, table
from epic_memory.errors import InvalidInputError

ItemId = Annotated[str, Argument(metavar="ID", help="the item's id, as `epic ask` and `epic list` show it")]
To = Annotated[str, Argument(metavar="TO", help="the file to write")]
Overwrite = Annotated[bool, Option("--overwrite", help="replace a file that is there")]
_PREVIEW = 80


def add_commands(app: Typer) -> None:
    """Add the commands."""
    looking = (list_, show, explain, stats, namespaces, not_kept, verify)
    for function in (*looking, compact, backup, export, forget, lock, unlock, merge):
        command(app)(function)


def stats(file: InFile) -> None:
    """Show counts and sizes."""
    with file.open() as memory:
        made = memory.stats()
    counts = [(name, count) for name, count in made.counts.items() if count or name in ("items", "entries")]
    sizes = [(name, size, f"{size / 1e6:.4f} MB") for name, size in made.bytes.items()]
    if made.budget is not None:
        sizes.append(("budget", made.budget, f"{made.budget / 1e6:.4f} MB"))
    others = [("encoder", made.encoder), ("verifier", made.verifier), ("tau", f"{made.tau:.3f}")]
    told = (("verified by", made.verified_by), ("model", made.model_use), ("waiting", made.waiting))
    others += [(name, value) for name, value in told if value]
    file.show(
        made,
        table(("count", "rows>"), counts),
        "",
        table(("part", "bytes>", ">"), sizes),
        "",
        table(("", ""), others),
    )


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


def show(file: InFile, item_id: ItemId) -> None:
    """Show an item as it is held."""
    from epic_memory.types.validation import moment

    with file.open() as memory, suggesting(memory, item_id):
        explained = memory.explain(item_id)
    item = explained.item
    rows = [*item.metadata.items()]
    if item.expires_at is not None:
        rows.append(("until", item.expires_at))
    if explained.entries:
        rows.append(("added", f"{moment(explained.entries[0].added):%Y-%m-%d %H:%M} UTC"))
    file.show(item, plain(item.id, "bold cyan"), item.text, *([table(("", ""), rows)] if rows else []))


def explain(
    file: InFile, item_id: Annotated[str, Argument(metavar="ID", help="the item's id, or a text that is not held")]
) -> None:
    """Say why an item was kept, or why a text was not."""
    from epic_apps.cli.reasons import explained_in, marked, reason

    with file.open() as memory:
        explained = explained_in(memory, item_id)
    if file.verbose:
        file.show(explained)
        return
    parts: list[str | Text] = [plain(explained.item.id, "bold cyan"), explained.item.text]
    for entry in explained.entries:
        parts += ["", marked(reason(entry, explained.item.text), entry.stance)]
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
