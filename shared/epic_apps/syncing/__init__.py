"""Sync of folders: the memory holds what a folder holds, and forgets what was deleted there."""

from epic_apps.syncing.report import SyncReport
from epic_apps.syncing.run import sync
from epic_apps.syncing.state import files_without_room, forget_folder, synced_folders
from epic_apps.syncing.watching import watch

__all__ = [
    "SyncReport",
    "files_without_room",
    "forget_folder",
    "sync",
    "synced_folders",
    "watch",
]
