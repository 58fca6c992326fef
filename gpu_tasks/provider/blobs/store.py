"""Blobs of a provider on its disk: content-addressed, limited in size, number and life, never executable.

Always: a blob that `put` returned for is on the disk; a name is the hash of the bytes; what strangers store never takes
the room of the provider's own outputs, nor do the inputs that it keeps; each goes when its life ends, if not before.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from threading import Lock

from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of
from wallet.private_file import sync_folder

FILE_MODE = 0o600
ADDRESS_DIGITS = 64


class StoreFullError(Exception):
    """The quota is used up; room comes back as blobs grow old."""


class BlobKind(IntEnum):
    """Whose a blob is."""

    STRANGERS = 0
    INPUT = 1
    """Fetched for work on a unit or a task: strangers make such, at next to no price, so they have a limit."""
    OWN = 2
    """What this provider made."""


SUFFIXES = {BlobKind.STRANGERS: ".blob", BlobKind.INPUT: ".input", BlobKind.OWN: ".own"}
"""Of their files."""
_KINDS = {suffix: kind for kind, suffix in SUFFIXES.items()}


@dataclass(frozen=True, slots=True)
class Quota:
    """What strangers may store, and what the inputs that are worked on may take beside."""

    bytes_max: int = 1024 * 1024 * 1024
    blobs_max: int = 20_000
    life_seconds: int = 24 * 3600
    address_part: int = 8  # one address may use this part of the rest
    input_bytes_max: int = 1024 * 1024 * 1024
    input_blobs_max: int = 20_000


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

    def has_room(self, size: int, bytes_max: int, blobs_max: int) -> bool:
        """Whether one more of `size` bytes is within so many bytes and blobs."""
        return self.blobs < blobs_max and self.bytes + size <= bytes_max


@dataclass(frozen=True, slots=True)
class Stored:
    """One blob on the disk."""

    size: int
    at: float
    kind: BlobKind
    stranger: str | None = None  # where it came from, if that is known: since the start

    @property
    def suffix(self) -> str:
        """What the name of its file ends with."""
        return SUFFIXES[self.kind]


class BlobStore:
    """A folder of blobs. The clock is an argument: `now` in seconds since the epoch. Any thread may call `put`."""

    def __init__(self, folder: Path, quota: Quota | None = None) -> None:
        """Read which blobs there are; remove what a crash left half-written."""
        self._folder = folder
        self._quota = quota or Quota()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._blobs: dict[str, Stored] = {}
        self._used = {kind: Used() for kind in BlobKind}
        self._by_stranger: defaultdict[str, Used] = defaultdict(Used)
        self._changing = Lock()
        for path in sorted(folder.iterdir()):
            kind = _KINDS.get(path.suffix)
            if len(path.stem) != ADDRESS_DIGITS or kind is None:
                path.unlink()
                continue
            found = path.stat()
            self._found(path.stem, Stored(found.st_size, found.st_mtime, kind))

    @property
    def bytes_stored(self) -> int:
        """What strangers' blobs take."""
        return self._used[BlobKind.STRANGERS].bytes

    @property
    def input_bytes(self) -> int:
        """What the inputs take that this provider works on."""
        return self._used[BlobKind.INPUT].bytes

    @property
    def inputs(self) -> dict[bytes, float]:
        """The blobs of these inputs, with when each was last used."""
        kept = list(self._blobs.items())
        return {bytes.fromhex(name): stored.at for name, stored in kept if stored.kind is BlobKind.INPUT}

    def put(self, blob: bytes, *, is_own: bool = False, stranger: str | None = None, now: float | None = None) -> bytes:
        """Store a blob, durably; its address. ValueError for one that is too long, StoreFullError for one too many.

        `stranger` is the network address of whoever brings it, which may use only a part of the room.
        """
        kind = BlobKind.OWN if is_own else BlobKind.STRANGERS
        return self._stored(blob, kind, None if is_own else stranger, now)

    def keep(self, blob: bytes, *, now: float | None = None) -> bytes:
        """Store a blob of an input that is worked on; its address. Errors as `put`.

        What is here already, also as a stranger's, lives from now on: its life must not end amid the work on it.
        """
        return self._stored(blob, BlobKind.INPUT, None, now)

    def drop_input(self, address: bytes) -> None:
        """Remove a blob that is here only because an input that it is of was worked on."""
        with self._changing:
            stored = self._blobs.get(address.hex())
            if stored is not None and stored.kind is BlobKind.INPUT:
                self._forget(address.hex())

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

    def _stored(self, blob: bytes, kind: BlobKind, stranger: str | None, now: float | None) -> bytes:
        if not 0 < len(blob) <= BLOB_BYTES_MAX:
            raise ValueError(f"a blob has 1 to {BLOB_BYTES_MAX:,} bytes")
        address = address_of(blob)
        stored = Stored(len(blob), time.time() if now is None else now, kind, stranger)
        with self._changing:
            self._put(address.hex(), blob, stored)
        return address

    def _put(self, name: str, blob: bytes, stored: Stored) -> None:
        known = self._blobs.get(name)
        if known is not None and not _becomes(known.kind, stored.kind):
            if stored.kind is not BlobKind.STRANGERS:
                self._renew(name, replace(known, at=max(known.at, stored.at)))
            return
        self._require_room(stored)
        self._write(name + stored.suffix, blob)
        if known is not None:  # it was here as another kind
            self._forget(name)
        self._note(name, stored)

    def _found(self, name: str, stored: Stored) -> None:
        """A file at the start. Two of a name are left by a crash while one became another; one of them goes."""
        known = self._blobs.get(name)
        if known is not None and known.kind > stored.kind:
            (self._folder / f"{name}{stored.suffix}").unlink()
            return
        if known is not None:
            self._forget(name)
        self._note(name, stored)

    def _renew(self, name: str, stored: Stored) -> None:
        """What is needed again lives from now on: its owner's work hangs on it."""
        with suppress(FileNotFoundError):  # somebody made room by hand
            os.utime(self._path(name, stored), (stored.at, stored.at))
        self._blobs[name] = stored

    def _require_room(self, stored: Stored) -> None:
        if stored.kind is BlobKind.INPUT:
            self._require_input_room(stored)
        elif stored.kind is BlobKind.STRANGERS:
            self._require_strangers_room(stored)

    def _require_input_room(self, stored: Stored) -> None:
        used, limit = self._used[BlobKind.INPUT], self._quota.input_bytes_max
        if not used.has_room(stored.size, limit, self._quota.input_blobs_max):
            text = f"the inputs of work take {used.bytes:,} of {limit:,} bytes, in {used.blobs:,} blobs"
            raise StoreFullError(f"{text}: there is no room for {stored.size:,} more")

    def _require_strangers_room(self, stored: Stored) -> None:
        quota, used = self._quota, self._used[BlobKind.STRANGERS]
        if not used.has_room(stored.size, quota.bytes_max, quota.blobs_max):
            self._sweep(stored.at)  # only now: to look at 20,000 for each that comes takes milliseconds
        if not used.has_room(stored.size, quota.bytes_max, quota.blobs_max):
            raise StoreFullError(f"full: {used.blobs:,} blobs, {used.bytes:,} bytes; try another provider")
        if stored.stranger is None:
            return
        share, part = self._by_stranger.get(stored.stranger, Used()), quota.address_part
        if not share.has_room(stored.size, quota.bytes_max // part, quota.blobs_max // part):
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
        self._used[stored.kind].add(stored.size)
        if stored.stranger is not None:
            self._by_stranger[stored.stranger].add(stored.size)

    def _forget(self, name: str) -> None:
        stored = self._blobs.pop(name)
        self._path(name, stored).unlink(missing_ok=True)
        self._used[stored.kind].take(stored.size)
        if stored.stranger is not None:
            share = self._by_stranger[stored.stranger]
            share.take(stored.size)
            if not share.blobs:
                del self._by_stranger[stored.stranger]

    def _path(self, name: str, stored: Stored) -> Path:
        return self._folder / f"{name}{stored.suffix}"


def _becomes(known: BlobKind, kind: BlobKind) -> bool:
    """Whether a blob that is here as one kind is one of another kind from now on.

    What a stranger brought stays its own, also while it is worked on; what is brought while it is worked on stays here
    when that ends.
    """
    return known not in (kind, BlobKind.OWN) and kind is not BlobKind.INPUT
