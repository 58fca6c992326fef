"""Blobs of a provider on its disk: content-addressed, limited in size, number and life, never executable.

Always: a blob that `put` returned for is on the disk; a name is the hash of the bytes; what strangers store never takes
the room of the provider's own outputs, and goes when its life ends.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

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


class BlobStore:
    """A folder of blobs. The clock is an argument: `now` in seconds since the epoch."""

    def __init__(self, folder: Path, quota: Quota | None = None) -> None:
        """Read which blobs there are; remove what a crash left half-written."""
        self._folder = folder
        self._quota = quota or Quota()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sizes: dict[str, int] = {}
        self._stored_at: dict[str, float] = {}
        self._own: set[str] = set()
        self._strangers: dict[str, str] = {}  # the addresses that blobs came from, since the start
        for path in sorted(folder.iterdir()):
            if len(path.stem) != ADDRESS_DIGITS:
                path.unlink()
                continue
            found = path.stat()
            self._note(path.stem, found.st_size, found.st_mtime, is_own=path.suffix == ".own")

    @property
    def bytes_stored(self) -> int:
        """What strangers' blobs take."""
        return sum(size for name, size in self._sizes.items() if name not in self._own)

    def put(self, blob: bytes, *, is_own: bool = False, stranger: str | None = None, now: float | None = None) -> bytes:
        """Store a blob, durably; its address. ValueError for one that is too long, StoreFullError for one too many.

        `stranger` is the network address of whoever brings it, which may use only a part of the room.
        """
        if not 0 < len(blob) <= BLOB_BYTES_MAX:
            raise ValueError(f"a blob has 1 to {BLOB_BYTES_MAX:,} bytes")
        now = time.time() if now is None else now
        address = address_of(blob)
        name = address.hex()
        if name in self._sizes and (name in self._own or not is_own):
            return address
        self.sweep(now)
        if not is_own:
            self._check_room(len(blob))
            self._check_share(stranger, len(blob))
        self._write(name + (".own" if is_own else ".blob"), blob)
        if name in self._sizes:  # a stranger had stored it
            self._path(name).unlink()
        self._note(name, len(blob), now, is_own=is_own)
        if stranger is not None and not is_own:
            self._strangers[name] = stranger
        return address

    def get(self, address: bytes) -> bytes | None:
        """The blob of an address; None if it is not here."""
        name = address.hex()
        if name not in self._sizes:
            return None
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:  # somebody made room by hand
            return None

    def sweep(self, now: float) -> None:
        """Remove what has outlived its life."""
        limit = now - self._quota.life_seconds
        for name in [name for name, at in self._stored_at.items() if at < limit]:
            self._path(name).unlink(missing_ok=True)
            del self._sizes[name], self._stored_at[name]
            self._own.discard(name)
            self._strangers.pop(name, None)

    def _check_room(self, size: int) -> None:
        strangers = len(self._sizes) - len(self._own)
        if strangers >= self._quota.blobs_max or self.bytes_stored + size > self._quota.bytes_max:
            raise StoreFullError(f"full: {strangers:,} blobs, {self.bytes_stored:,} bytes; try another provider")

    def _check_share(self, stranger: str | None, size: int) -> None:
        if stranger is None:
            return
        sizes = [self._sizes[name] for name, who in self._strangers.items() if who == stranger]
        part = self._quota.address_part
        if len(sizes) >= self._quota.blobs_max // part or sum(sizes) + size > self._quota.bytes_max // part:
            raise StoreFullError(f"full for {stranger}: {len(sizes):,} blobs; try another provider")

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

    def _note(self, name: str, size: int, at: float, *, is_own: bool) -> None:
        self._sizes[name], self._stored_at[name] = size, at
        if is_own:
            self._own.add(name)
            self._strangers.pop(name, None)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{'.own' if name in self._own else '.blob'}"
