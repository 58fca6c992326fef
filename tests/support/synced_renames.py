"""Renames as a power cut sees them: the bytes of a file on the disk when it took another's name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Renames:
    """The renamed files, and whether each was synced before, and its folder after."""

    def __init__(self) -> None:
        self.done: list[Path] = []
        self.unsynced: list[Path] = []
        self._sizes: dict[int, int] = {}  # of inodes, as they were synced
        self._folders: dict[int, Path] = {}  # with new names that are not on the disk

    @property
    def unsynced_folders(self) -> list[Path]:
        return list(self._folders.values())

    def note_sync(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        self._sizes[found.st_ino] = found.st_size
        self._folders.pop(found.st_ino, None)

    def note_rename(self, source: Path, target: Path) -> None:
        found = source.stat()
        self.done.append(target)
        if self._sizes.get(found.st_ino) != found.st_size:
            self.unsynced.append(target)
        self._folders[target.parent.stat().st_ino] = target.parent


@contextmanager
def watched_renames() -> Iterator[Renames]:
    """Record every rename and hard link by `pathlib`, and every sync by `os.fsync`."""
    renames = Renames()
    sync = os.fsync

    def synced(descriptor: Any) -> None:
        sync(descriptor)
        renames.note_sync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", synced)
        for name in ("rename", "replace"):
            patch.setattr(Path, name, _noting(renames, getattr(Path, name)))
        link = Path.hardlink_to

        def linked(name: Path, source: Any) -> None:
            renames.note_rename(Path(source), name)
            link(name, source)

        patch.setattr(Path, "hardlink_to", linked)
        yield renames


def _noting(renames: Renames, rename: Any) -> Any:
    def noted(source: Path, target: Path) -> Path:
        renames.note_rename(source, Path(target))
        renamed: Path = rename(source, target)
        return renamed

    return noted
