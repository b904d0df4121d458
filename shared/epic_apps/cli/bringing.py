"""Commands that bring in what people have elsewhere, and keep it in step: import, sync."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from epic_apps.cli.options import InFile, Model
from epic_apps.cli.printing import first, show, warn
from epic_memory.errors import InvalidInputError

if TYPE_CHECKING:
    from epic_apps.syncing import SyncReport


def import_(
    file: InFile,
    model: Model,
    sources: Annotated[
        list[str], Argument(metavar="SOURCE...", help="exports, files, or folders and zip archives of them")
    ],
    user: Annotated[
        list[str], Option(metavar="NAME", help="you, in chats between people and in mails; repeatable")
    ] = [],  # noqa: B006
    dry_run: Annotated[bool, Option("--dry-run", help="only say what there is")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="no progress bar, which only a terminal gets")] = False,
) -> None:
    """Take in chats, notes, mails, contacts and more: ChatGPT, Claude, WhatsApp, Obsidian, Evernote, mbox ..."""
    from epic_apps.imports.importing import import_from
    from epic_memory import EpicMemory

    failed, looks = 0, dry_run and not Path(file.memory).exists()
    with EpicMemory() if looks else file.open(model, must_exist=False) as memory:
        reports = {}
        for source in sources:
            report = import_from(memory, source, user=user, dry_run=dry_run, progress=not quiet and sys.stderr.isatty())
            reports[source] = report
            failed += len(report.failures)
            _warn_of(report.skipped, report.failures)
        waiting = len(memory.proposals)
        made = any(report.proposed for report in reports.values())
        then = [f"{waiting} proposals wait for you: epic proposals {file.memory}"] if made else []
        file.show(reports, *(f"{source}\n{report}" for source, report in reports.items()), *then)
    if failed:
        raise InvalidInputError(f"{failed} parts could not be read; the rest was imported.")


def sync(
    file: InFile,
    model: Model,
    folders: Annotated[
        list[str], Argument(metavar="[FOLDER...]", help="default: those that it was synced with before")
    ] = [],  # noqa: B006
    watch: Annotated[bool, Option("--watch", help="go on, and sync whenever something changes (extra: watch)")] = False,
    ignore: Annotated[
        list[str], Option(metavar="PATTERN", help="leave these out, as in a .gitignore; remembered; repeatable")
    ] = [],  # noqa: B006
    user: Annotated[list[str], Option(metavar="NAME", help="you, in mails; repeatable")] = [],  # noqa: B006
    forget: Annotated[
        bool, Option("--forget", help="sync with these folders no longer; their texts leave the memory")
    ] = False,
    reserve: Annotated[
        str | None, Option(metavar="SIZE", help="up to which size the file keeps texts that no preference asks for")
    ] = None,
    empty: Annotated[bool, Option("--empty", help="an empty folder is meant: everything in it was deleted")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="no progress bar, which only a terminal gets")] = False,
    with_: Annotated[
        str | None, Option("--with", metavar="PATH", help="first merge a copy of another device's file of this memory")
    ] = None,
) -> None:
    """Make a memory hold what folders hold: added, changed, renamed and deleted files."""
    from epic_apps import syncing
    from epic_apps.keys import key_for
    from epic_learn.merging import merge

    with file.open(model, must_exist=False, reserve=reserve) as memory:
        chosen = [Path(each) for each in folders] or syncing.synced_folders(memory)
        if with_ is not None:
            merged = merge(memory, with_, key=key_for(with_))
            if not chosen:
                file.show(merged, f"{with_}: {merged}")
                return
            warn(merged, with_)
        if not chosen:
            raise InvalidInputError(f"Say which folder: epic sync {file.memory} FOLDER. It was synced with none yet.")
        if forget:
            if not folders:
                raise InvalidInputError(f"Say which folder: epic sync {file.memory} FOLDER --forget.")
            forgotten = {str(folder): syncing.forget_folder(memory, folder) for folder in chosen}
            told = (f"{folder}: no longer synced, {count} files forgotten" for folder, count in forgotten.items())
            file.show(forgotten, *told)
            return
        reports, failed = {}, []
        for folder in chosen:
            try:
                reports[str(folder)] = report = syncing.sync(
                    memory, folder, ignore=ignore or None, user=user, empty=empty,
                    progress=not quiet and sys.stderr.isatty(),
                )  # fmt: skip
            except InvalidInputError as error:  # of this folder only
                failed.append(folder)
                warn(str(error), "skipped")
                continue
            _warn_of(report.skipped, report.failures)
        file.show(reports, *(part for folder, report in reports.items() for part in _changes(folder, report)))
        if watch:
            there = [folder for folder in chosen if folder not in failed]
            syncing.watch(memory, there, lambda folder, report: show(*_changes(str(folder), report)), user=user)
    if failed:
        gone = next((each for each in failed if not each.exists()), None)
        then = f" If it is gone for good: epic sync {file.memory} {gone} --forget." if gone else ""
        raise InvalidInputError(f"{len(failed)} of {len(chosen)} folders could not be synced.{then}")
    if any(report.failures for report in reports.values()):
        raise InvalidInputError("What could not be read stays as it was in the memory.")


def never(
    file: InFile,
    action: Annotated[Literal["list", "add", "remove"], Argument(help="what to do")] = "list",
    topics: Annotated[list[str], Argument(metavar="TOPIC...", help='such as "my health"')] = [],  # noqa: B006
    folder: Annotated[list[str], Option(metavar="FOLDER", help="a folder of which nothing is kept; repeatable")] = [],  # noqa: B006
) -> None:
    """List, add or lift rules about what is never kept. Passwords, keys and card numbers never are."""
    with file.open(read_only=action == "list") as memory:
        if action != "list" and not (topics or folder):
            raise InvalidInputError(f'Say what: epic never {file.memory} {action} "my health", or --folder FOLDER.')
        for topic in topics:
            memory.never.add(topic) if action == "add" else memory.never.remove(topic)
        for each in folder:
            memory.never.add_folder(each) if action == "add" else memory.never.remove(Path(each))
        counts, folders = memory.never.counts, list(map(str, memory.never.folders))
        rules = {topic: counts.get(topic, 0) for topic in memory.never}
    lines = [f"{topic}: {count} kept out" for topic, count in rules.items()] + [f"folder {each}" for each in folders]
    file.show({"topics": rules, "folders": folders}, *(lines or ["Nothing is ruled out."]))


def why_not(
    file: InFile,
    text: Annotated[str, Argument(metavar="TEXT", help="what you miss, or a few words about it")],
) -> None:
    """Say at which stage a text was lost: never said, turned away, replaced, ruled out, below a threshold ..."""
    from epic_apps.losses import why_not as asked

    with file.open(read_only=True) as memory:
        found = asked(memory, text)
    file.show(found, str(found).replace(" FILE", f" {file.memory}"))


def _changes(folder: str, report: SyncReport) -> list[str]:
    """Return what a sync changed, the first files of each kind by name."""
    lines = [f"{folder}: {report}"]
    for sign, names in (("+", report.added), ("~", report.changed), ("-", report.deleted)):
        lines += [f"  {sign} {each}" for each in first(names)]
    lines += [f"  proposed  {each}" for each in report.proposed]
    return lines + [f"  {each}" for each in first([f"{old} -> {new}" for old, new in report.renamed])]


def _warn_of(*lists: Sequence[str]) -> None:
    for each in (each for told in lists for each in first(told)):
        warn(each, "skipped")


COMMANDS = (import_, sync, never, why_not)
