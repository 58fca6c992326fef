"""A provider's blobs on its disk: content-addressed, with limits on size, number and life, and never executable.

Invariants:

* A blob is on the disk when `put` returns.
* A blob's name is the hash of its bytes.
* Strangers' blobs and kept inputs never use the space of the provider's own outputs.
* Every blob is removed at the end of its life, if not before.
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

from durable.folders import sync_folder
from gpu_tasks.data.sealing import BLOB_BYTES_MAX, address_of

FILE_MODE = 0o600
ADDRESS_DIGITS = 64


class StoreFullError(Exception):
    """The quota is used up. Space becomes free as blobs expire."""


class BlobKind(IntEnum):
    """The owner of a blob."""

    STRANGERS = 0
    INPUT = 1
    """Fetched for work on a unit or task. A limit applies, because strangers can create such inputs at almost no cost.
    """
    OWN = 2
    """Made by this provider."""


SUFFIXES = {BlobKind.STRANGERS: ".blob", BlobKind.INPUT: ".input", BlobKind.OWN: ".own"}
"""The suffixes of their files."""
_KINDS = {suffix: kind for kind, suffix in SUFFIXES.items()}


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits for strangers' blobs and, separately, for the inputs of work."""

    bytes_max: int = 1024 * 1024 * 1024
    blobs_max: int = 20_000
    life_seconds: int = 24 * 3600
    address_part: int = 8  # one address may use 1/8 of the quota
    input_bytes_max: int = 1024 * 1024 * 1024
    input_blobs_max: int = 20_000


@dataclass(slots=True)
class Used:
    """The space that blobs of one kind or address use."""

    blobs: int = 0
    bytes: int = 0

    def add(self, size_bytes: int) -> None:
        """Add a blob."""
        self.blobs, self.bytes = self.blobs + 1, self.bytes + size_bytes

    def take(self, size: int) -> None:
        """Remove a blob."""
        self.blobs, self.bytes = self.blobs - 1, self.bytes - size

    def has_room(self, size_bytes: int, bytes_max: int, blobs_max: int) -> bool:
        """Return True if a blob of `size_bytes` bytes fits within the limits."""
        return self.blobs < blobs_max and self.bytes + size_bytes <= bytes_max


@dataclass(frozen=True, slots=True)
class Stored:
    """One blob on the disk."""

    size: int
    at: float
    kind: BlobKind
    stranger: str | None = None  # its origin, if known since the start

    @property
    def suffix(self) -> str:
        """The suffix of its file."""
        return SUFFIXES[self.kind]


class BlobStore:
    """A folder of blobs. `now` is in seconds since the epoch. Any thread may call `put`."""

    def __init__(self, folder: Path, quota: Quota | None = None) -> None:
        """Read the names of the blobs, and remove the remains of a crash."""
        self._folder = folder
        self._disk_quota = quota or Quota()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._blobs: dict[str, Stored] = {}
        self._used_room = {kind: Used() for kind in BlobKind}
        self._by_stranger: defaultdict[str, Used] = defaultdict(Used)
        self._changing = Lock()
        for blob_path in sorted(folder.iterdir()):
            kind = _KINDS.get(blob_path.suffix)
            if len(blob_path.stem) != ADDRESS_DIGITS or kind is None:
                blob_path.unlink()
                continue
            file_status = blob_path.stat()
            self._found(blob_path.stem, Stored(file_status.st_size, file_status.st_mtime, kind))

    @property
    def bytes_stored(self) -> int:
        """Bytes of strangers' blobs."""
        return self._used_room[BlobKind.STRANGERS].bytes

    @property
    def input_bytes(self) -> int:
        """Bytes of the inputs of this provider's work."""
        return self._used_room[BlobKind.INPUT].bytes

    @property
    def inputs(self) -> dict[bytes, float]:
        """The blobs of these inputs, with the last use of each."""
        known_blobs = list(self._blobs.items())
        return {bytes.fromhex(name): stored.at for name, stored in known_blobs if stored.kind is BlobKind.INPUT}

    def put(
        self, blob: bytes, *, is_own: bool = False, stranger: str | None = None, now_seconds: float | None = None
    ) -> bytes:
        """Store a blob durably and return its address.

        Raise ValueError if it is too long, or StoreFullError if there is no space. `stranger` is the uploader's network
        address, which may use only a part of the space.
        """
        kind = BlobKind.OWN if is_own else BlobKind.STRANGERS
        return self._stored(blob, kind, None if is_own else stranger, now_seconds)

    def keep(self, blob: bytes, *, now_seconds: float | None = None) -> bytes:
        """Store a blob of an input that is worked on, and return its address. It raises the errors of `put`.

        The life of an existing blob, even a stranger's, starts again, so that it does not end during the work.
        """
        return self._stored(blob, BlobKind.INPUT, None, now_seconds)

    def drop_input(self, address: bytes) -> None:
        """Remove a blob that is kept only as an input of work."""
        with self._changing:
            stored = self._blobs.get(address.hex())
            if stored is not None and stored.kind is BlobKind.INPUT:
                self._forget_blob(address.hex())

    def get(self, address: bytes) -> bytes | None:
        """Return the blob of an address, or None if it is not here."""
        name = address.hex()
        stored = self._blobs.get(name)
        if stored is None:
            return None
        try:
            return self._path(name, stored).read_bytes()
        except FileNotFoundError:  # deleted by the operator, or just renamed as the provider's own
            return None

    def sweep(self, now_seconds: float) -> None:
        """Remove expired blobs."""
        with self._changing:
            self._sweep(now_seconds)

    def _stored(self, sealed_blob: bytes, kind: BlobKind, stranger: str | None, now_seconds: float | None) -> bytes:
        if not 0 < len(sealed_blob) <= BLOB_BYTES_MAX:
            raise ValueError(f"a blob has 1 to {BLOB_BYTES_MAX:,} bytes")
        address = address_of(sealed_blob)
        stored = Stored(len(sealed_blob), time.time() if now_seconds is None else now_seconds, kind, stranger)
        with self._changing:
            self._put(address.hex(), sealed_blob, stored)
        return address

    def _put(self, name: str, sealed_blob: bytes, stored: Stored) -> None:
        known_blob = self._blobs.get(name)
        # Blobs are named by their hash, so a second copy needs no write. It may only need a longer life.
        if known_blob is not None and not _becomes(known_blob.kind, stored.kind):
            if stored.kind is not BlobKind.STRANGERS:
                self._renew_file(name, replace(known_blob, at=max(known_blob.at, stored.at)))
            return
        self._require_room(stored)
        self._write(name + stored.suffix, sealed_blob)
        if known_blob is not None:  # it existed as another kind
            self._forget_blob(name)
        self._note(name, stored)

    def _found(self, name: str, stored: Stored) -> None:
        """Note a file at the start. If a crash left two files of one name, remove the less important one."""
        known_blob = self._blobs.get(name)
        if known_blob is not None and known_blob.kind > stored.kind:
            (self._folder / f"{name}{stored.suffix}").unlink()
            return
        if known_blob is not None:
            self._forget_blob(name)
        self._note(name, stored)

    def _renew_file(self, name: str, stored: Stored) -> None:
        """Restart the life of a blob that is needed again, because its owner's work depends on it."""
        with suppress(FileNotFoundError):  # deleted by the operator
            os.utime(self._path(name, stored), (stored.at, stored.at))
        self._blobs[name] = stored

    def _require_room(self, stored: Stored) -> None:
        if stored.kind is BlobKind.INPUT:
            self._require_input_room(stored)
        elif stored.kind is BlobKind.STRANGERS:
            self._require_strangers_room(stored)

    def _require_input_room(self, stored: Stored) -> None:
        used_room, bytes_limit = self._used_room[BlobKind.INPUT], self._disk_quota.input_bytes_max
        if not used_room.has_room(stored.size, bytes_limit, self._disk_quota.input_blobs_max):
            usage_text = f"the inputs take {used_room.bytes:,} of {bytes_limit:,} bytes, in {used_room.blobs:,} blobs"
            raise StoreFullError(f"{usage_text}; no room for {stored.size:,} more")

    def _require_strangers_room(self, stored: Stored) -> None:
        disk_quota, used_room = self._disk_quota, self._used_room[BlobKind.STRANGERS]
        if not used_room.has_room(stored.size, disk_quota.bytes_max, disk_quota.blobs_max):
            self._sweep(stored.at)  # not earlier: scanning 20,000 blobs for each upload would take milliseconds
        if not used_room.has_room(stored.size, disk_quota.bytes_max, disk_quota.blobs_max):
            raise StoreFullError(f"full: {used_room.blobs:,} blobs, {used_room.bytes:,} bytes; try another provider")
        if stored.stranger is None:
            return
        stranger_share, stranger_divisor = self._by_stranger.get(stored.stranger, Used()), disk_quota.address_part
        if not stranger_share.has_room(
            stored.size, disk_quota.bytes_max // stranger_divisor, disk_quota.blobs_max // stranger_divisor
        ):
            raise StoreFullError(f"full for {stored.stranger}: {stranger_share.blobs:,} blobs; try another provider")

    def _sweep(self, now_seconds: float) -> None:
        oldest_seconds = now_seconds - self._disk_quota.life_seconds
        for name in [name for name, stored in self._blobs.items() if stored.at < oldest_seconds]:
            self._forget_blob(name)

    def _write(self, name: str, sealed_blob: bytes) -> None:
        draft_path = self._folder / "draft"
        # A crash may have left a draft, and O_EXCL below would then fail.
        draft_path.unlink(missing_ok=True)
        descriptor = os.open(draft_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            # Written and synced under another name first, so that a crash never leaves half a blob under an address.
            with os.fdopen(descriptor, "wb", closefd=False) as draft_stream:
                draft_stream.write(sealed_blob)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft_path.rename(self._folder / name)
        sync_folder(self._folder)

    def _note(self, name: str, stored: Stored) -> None:
        self._blobs[name] = stored
        self._used_room[stored.kind].add(stored.size)
        if stored.stranger is not None:
            self._by_stranger[stored.stranger].add(stored.size)

    def _forget_blob(self, name: str) -> None:
        stored = self._blobs.pop(name)
        self._path(name, stored).unlink(missing_ok=True)
        self._used_room[stored.kind].take(stored.size)
        if stored.stranger is not None:
            stranger_share = self._by_stranger[stored.stranger]
            stranger_share.take(stored.size)
            # Without this, every address that ever stored a blob would stay in memory.
            if not stranger_share.blobs:
                del self._by_stranger[stored.stranger]

    def _path(self, name: str, stored: Stored) -> Path:
        return self._folder / f"{name}{stored.suffix}"


def _becomes(known: BlobKind, kind: BlobKind) -> bool:
    """Return True if an existing blob changes its kind.

    A stranger's blob keeps its kind while it is worked on. An input that a stranger also uploads becomes the
    stranger's, and stays when the work ends.
    """
    return known not in (kind, BlobKind.OWN) and kind is not BlobKind.INPUT
