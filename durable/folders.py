"""Folders for their owner only, and their names on the disk."""

import os
from pathlib import Path

OWNER_ONLY, FOLDER_OWNER_ONLY = 0o600, 0o700


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, mode 0700; `parents=True` would open the parents to other users."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=FOLDER_OWNER_ONLY, exist_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that its file names are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
