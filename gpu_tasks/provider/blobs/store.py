"""Blobs of a provider on its disk: content-addressed, limited in size, number and life, never executable.

Always: a blob that `put` returned for is on the disk; a name is the hash of the bytes; what strangers store never takes
the room of the provider's own outputs, and goes when its life ends.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from wallet.private_file import sync_folder

FILE_MODE = 0o600
ADDRESS_DIGITS = 64


class StoreFullError(Exception):
    """The quota is used up; room comes back as blobs grow old."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What strangers may store."""

    bytes_max: int = 1024 * 1024 * 1024
    blobs_max: int = 20_000
    life_seconds: int = 24 * 3600
    address_part: int = 8  # one address may use this part of the rest


@dataclass(slots=True)
class Used:
    """What somebody's blobs take."""

    blobs: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """One more."""
        self.blobs, self.bytes = self.blobs + 1, self.bytes + size

    def take(self, size: int) -> None:
        """One less."""
        self.blobs, self.bytes = self.blobs - 1, self.bytes - size

    def has_room(self, size: int, quota: Quota, part: int = 1) -> bool:
        """Whether one more of `size` bytes is within a part of the quota."""
        return self.blobs < quota.blobs_max // part and self.bytes + size <= quota.bytes_max // part


@dataclass(frozen=True, slots=True)
class Stored:
    """One blob on the disk."""

    size: int
    at: float
    is_own: bool
    stranger: str | None = None  # where it came from, if that is known: since the start

    @property
    def suffix(self) -> str:
        """What the name of its file ends with."""
        return ".own" if self.is_own else ".blob"


class BlobStore:
    """A folder of blobs. The clock is an argument: `now` in seconds since the epoch. Any thread may call `put`."""

    def __init__(self, folder: Path, quota: Quota | None = None) -> None:
        """Read which blobs there are; remove what a crash left half-written."""
        self._folder = folder
        self._quota = quota or Quota()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._blobs: dict[str, Stored] = {}
        self._strangers = Used()
        self._by_stranger: defaultdict[str, Used] = defaultdict(Used)
        self._changing = Lock()
        for path in sorted(folder.iterdir()):
            if len(path.stem) != ADDRESS_DIGITS:
                path.unlink()
                continue
            if path.stem in self._blobs:  # a crash: it had become the provider's own, and was about to go here
                self._forget(path.stem)
            found = path.stat()
            self._note(path.stem, Stored(found.st_size, found.st_mtime, path.suffix == ".own"))

    @property
    def bytes_stored(self) -> int:
        """What strangers' blobs take."""
        return self._strangers.bytes

    def put(self, blob: bytes, *, is_own: bool = False, stranger: str | None = None, now: float | None = None) -> bytes:
        """Store a blob, durably; its address. ValueError for one that is too long, StoreFullError for one too many.

        `stranger` is the network address of whoever brings it, which may use only a part of the room.
        """
        if not 0 < len(blob) <= BLOB_BYTES_MAX:
            raise ValueError(f"a blob has 1 to {BLOB_BYTES_MAX:,} bytes")
        address = address_of(blob)
        stored = Stored(len(blob), time.time() if now is None else now, is_own, None if is_own else stranger)
        with self._changing:
            self._put(address.hex(), blob, stored)
        return address

    def get(self, address: bytes) -> bytes | None:
        """The blob of an address; None if it is not here."""
        name = address.hex()
        stored = self._blobs.get(name)
        if stored is None:
            return None
        try:
            return self._path(name, stored).read_bytes()
        except FileNotFoundError:  # somebody made room by hand, or it has just become the provider's own
            return None

    def sweep(self, now: float) -> None:
        """Remove what has outlived its life."""
        with self._changing:
            self._sweep(now)

    def _put(self, name: str, blob: bytes, stored: Stored) -> None:
        known = self._blobs.get(name)
        if known is not None and not stored.is_own:
            return
        if known is not None and known.is_own:
            self._renew(name, replace(known, at=max(known.at, stored.at)))
            return
        if not stored.is_own:
            self._require_room(stored)
        self._write(name + stored.suffix, blob)
        if known is not None:  # a stranger had stored it
            self._forget(name)
        self._note(name, stored)

    def _renew(self, name: str, stored: Stored) -> None:
        """What is needed again lives from now on: its owner's work hangs on it."""
        with suppress(FileNotFoundError):  # somebody made room by hand
            os.utime(self._path(name, stored), (stored.at, stored.at))
        self._blobs[name] = stored

    def _require_room(self, stored: Stored) -> None:
        if not self._strangers.has_room(stored.size, self._quota):
            self._sweep(stored.at)  # only now: to look at 20,000 for each that comes takes milliseconds
        used = self._strangers
        if not used.has_room(stored.size, self._quota):
            raise StoreFullError(f"full: {used.blobs:,} blobs, {used.bytes:,} bytes; try another provider")
        if stored.stranger is None:
            return
        share = self._by_stranger.get(stored.stranger, Used())
        if not share.has_room(stored.size, self._quota, self._quota.address_part):
            raise StoreFullError(f"full for {stored.stranger}: {share.blobs:,} blobs; try another provider")

    def _sweep(self, now: float) -> None:
        limit = now - self._quota.life_seconds
        for name in [name for name, stored in self._blobs.items() if stored.at < limit]:
            self._forget(name)

    def _write(self, name: str, blob: bytes) -> None:
        draft = self._folder / "draft"
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            with os.fdopen(file, "wb", closefd=False) as stream:
                stream.write(blob)
            os.fsync(file)
        finally:
            os.close(file)
        draft.rename(self._folder / name)
        sync_folder(self._folder)

    def _note(self, name: str, stored: Stored) -> None:
        self._blobs[name] = stored
        if not stored.is_own:
            self._strangers.add(stored.size)
        if stored.stranger is not None:
            self._by_stranger[stored.stranger].add(stored.size)

    def _forget(self, name: str) -> None:
        stored = self._blobs.pop(name)
        self._path(name, stored).unlink(missing_ok=True)
        if not stored.is_own:
            self._strangers.take(stored.size)
        if stored.stranger is not None:
            share = self._by_stranger[stored.stranger]
            share.take(stored.size)
            if not share.blobs:
                del self._by_stranger[stored.stranger]

    def _path(self, name: str, stored: Stored) -> Path:
        return self._folder / f"{name}{stored.suffix}"
