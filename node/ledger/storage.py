"""The database of one node: the state of the last final block, every final block, and the blocks above it.

Invariants:

* One `sync=True` batch makes one or more blocks final. Bodies, headers, height index, state, reverse diffs and the head
  marker change together or not at all, and are on disk when `commit_final` returns. Every write is synced, because
  LevelDB can lose an older unsynced write behind a newer synced one.
* Every read checks checksums. With LevelDB's defaults a flipped bit reads as a wrong value in two of three cases.
* Single values of the state come from its trie, if there is one. The trie holds the whole state in memory, and its root
  matched the final header.
* The state is flat, by Substrate storage key, so a prefix is a range in key order.

Keys: one byte of kind, then the block id, the height (u64, big-endian) or the storage key.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import plyvel

from node.durable import require_folder
from node.errors import BadInputError, DatabaseError, DiskSpaceError
from runtime.state.overlay import Changes
from runtime.state.trie import Trie
from wallet.errors import unquoted

SCHEMA = 1
FREE_BYTES_FLOOR = 1024**3  # LevelDB cannot open a full disk's database before space is freed, so stop well before
NOT_ALLOWED = ("Permission denied", "Operation not permitted", "Read-only file system")
RECENT_MAX = 100_000  # cached state values: a block's are read to execute it, and again for its reverse diff
REVERSE_KEPT = 256  # final blocks whose state can still be read
META = b"m"
STATE = b"s"
HEADER = b"h"
BODY = b"b"
BY_HEIGHT = b"n"
CERTIFICATE = b"c"
REVERSE = b"r"
PENDING = b"u"
HANDOFF = b"e"
_SCHEMA_KEY = META + b"schema"
_GENESIS_KEY = META + b"genesis"
_NOTED_KEY = META + b"genesis-digest"
_HEAD_KEY = META + b"head"
_HEIGHT = struct.Struct(">Q")
_HEAD = struct.Struct(">Q32s")
_LENGTH = struct.Struct("<I")
_GENESIS_PROOF_KEY = META + b"genesis-keys-proof"


_SIZE = struct.Struct("<I")
_ABSENT = 0xFFFF_FFFF


def pack_changes(changes: Changes) -> bytes:
    """Return the encoded changes, in the order of the keys."""
    packed = bytearray()
    for key, value in sorted(changes.items()):
        packed += _SIZE.pack(len(key)) + key + _SIZE.pack(_ABSENT if value is None else len(value)) + (value or b"")
    return bytes(packed)


def unpack_changes(packed: bytes) -> dict[bytes, bytes | None]:
    """Return the changes that `pack_changes` encoded."""
    changes: dict[bytes, bytes | None] = {}
    start = 0
    while start < len(packed):
        key_end = start + 4 + _SIZE.unpack_from(packed, start)[0]
        key, value_bytes = packed[start + 4 : key_end], _SIZE.unpack_from(packed, key_end)[0]
        start = key_end + 4 + (0 if value_bytes == _ABSENT else value_bytes)
        changes[key] = None if value_bytes == _ABSENT else packed[key_end + 4 : start]
    return changes


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block in the database: sealed header and body are opaque bytes."""

    height: int
    block_id: bytes
    header: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class FinalEntry:
    """A block that becomes final, its changes to the parent's state, and its certificate, if it has one."""

    block: StoredBlock
    changes: Changes
    certificate: bytes | None
    handoff: tuple[int, bytes] | None = None
    """For an epoch's last block: the epoch, and the handoff that proves the next active set. Kept for ever."""


class _Batch(Protocol):
    def put(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...
    def write(self) -> None: ...


class Storage:
    """An open database, and a `runtime` state reader over the last final state (`get`, `keys`)."""

    def __init__(self, path: Path, *, free_bytes_floor: int = FREE_BYTES_FLOOR) -> None:
        self.path = path
        self._free_bytes_floor = free_bytes_floor
        require_folder(path)
        self.check_free_space()
        try:
            self._database = plyvel.DB(str(path), create_if_missing=True, paranoid_checks=True)
        except plyvel.Error as error:
            raise _open_error(path, error) from error
        self._recent_changes: dict[bytes, bytes | None] = {}  # state values as on the disk
        self._state_trie: Trie | None = None  # of the same state
        self.head_height = -1
        self.head_id = bytes(32)
        try:
            self._read_head()
        except DatabaseError:
            self._database.close()
            raise

    def close(self) -> None:
        """Release the lock; a second call does nothing."""
        self._database.close()

    @property
    def is_empty(self) -> bool:
        """True until `initialise`."""
        return self.head_height < 0

    def check_chain(self, genesis_id: bytes) -> None:
        """Raise `DatabaseError` if the database belongs to another chain."""
        stored_genesis = self._read_value(_GENESIS_KEY)
        if stored_genesis is not None and stored_genesis != genesis_id:
            raise DatabaseError(
                f"{self.path} holds the chain with genesis 0x{stored_genesis.hex()}, but the spec's genesis is "
                f"0x{genesis_id.hex()}. Choose another --base-path, or remove the old chain with `ogpu-node "
                "purge-chain`"
            )

    def genesis_noted_for(self, digest: bytes) -> bytes | None:
        """Return the genesis of the stored chain, if it was noted for this digest."""
        return self._read_value(_GENESIS_KEY) if self._read_value(_NOTED_KEY) == digest else None

    def note_genesis_for(self, digest: bytes) -> None:
        """Note that the stored chain's genesis follows from the specification with this digest."""
        with self._atomic_batch() as batch:
            batch.put(_NOTED_KEY, digest)

    def initialise(self, block: StoredBlock, state: Mapping[bytes, bytes]) -> None:
        """Write the genesis block and its state into an empty database."""
        with self._atomic_batch() as batch:
            batch.put(_SCHEMA_KEY, _HEIGHT.pack(SCHEMA))
            batch.put(_GENESIS_KEY, block.block_id)
            for key, value in state.items():
                batch.put(STATE + key, value)
            self._put_final(batch, block)
        self.head_height = block.height
        self.head_id = block.block_id

    def rest_on(self, trie: Trie) -> None:
        """Read single values from this trie of the state on disk, until the next commit."""
        # A read from LevelDB costs as much as executing a transfer, a read from the trie a few microseconds.
        self._state_trie = trie

    def commit_final(self, blocks: list[FinalEntry], abandoned: Iterable[bytes] = ()) -> None:
        """Make `blocks` final (parents first, the first one a child of the head), and delete the `abandoned` ones.

        Raise `DiskSpaceError` before any write if too little space is free.
        """
        for height, entry in enumerate(blocks, self.head_height + 1):
            assert entry.block.height == height, "each new final block is one higher than the last one"
        self.check_free_space()
        merged: dict[bytes, bytes | None] = {}
        with self._atomic_batch() as batch:
            for entry in blocks:
                batch.put(
                    REVERSE + _HEIGHT.pack(entry.block.height),
                    pack_changes(self._undo_changes(entry.changes, merged)),
                )
                batch.delete(REVERSE + _HEIGHT.pack(max(0, entry.block.height - REVERSE_KEPT)))
                merged.update(entry.changes)
                self._put_final(batch, entry.block)
                if entry.certificate is not None:
                    batch.put(CERTIFICATE + _HEIGHT.pack(entry.block.height), entry.certificate)
                if entry.handoff is not None:
                    batch.put(HANDOFF + _HEIGHT.pack(entry.handoff[0]), entry.handoff[1])
            for key in sorted(merged):
                _put_or_delete(batch, STATE + key, merged[key])
            for block_id in abandoned:
                batch.delete(PENDING + block_id)
        self._recent_changes.update(merged)
        self._bound_recent()
        if blocks:
            # It is the trie of the state before this commit.
            self._state_trie = None
            head = blocks[-1].block
            self.head_height = head.height
            self.head_id = head.block_id

    def put_pending(self, blocks: Iterable[StoredBlock]) -> None:
        """Write and sync blocks that are not final; called before this node votes for one of them."""
        with self._atomic_batch() as batch:
            for block in blocks:
                batch.put(PENDING + block.block_id, _pack_block(block))

    def pending(self) -> list[StoredBlock]:
        """Return the blocks of `put_pending` that are not final yet, lowest first."""
        pending_blocks = [_unpack_block(key[1:], value) for key, value in self._entries_in_range(PENDING)]
        return sorted(pending_blocks, key=lambda block: (block.height, block.block_id))

    # --- reads

    def get(self, key: bytes) -> bytes | None:
        """Return the value under a storage key in the last final state."""
        if key in self._recent_changes:
            return self._recent_changes[key]
        value = self._recent_changes[key] = (
            self._read_value(STATE + key) if self._state_trie is None else self._state_trie.get(key)
        )
        self._bound_recent()
        return value

    def keys(self, prefix: bytes = b"", start: bytes = b"") -> Iterator[bytes]:
        """Yield the storage keys of the last final state that begin with `prefix` and come after `start`, in order."""
        for key, _ in self._entries_in_range(STATE + prefix, STATE + start):
            if key[1:] > start or not start:
                yield key[1:]

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys that begin with `prefix`, with their values."""
        for key, value in self._entries_in_range(STATE + prefix):
            yield key[1:], value

    def pages(self, page_bytes: int) -> Iterator[list[tuple[bytes, bytes]]]:
        """Return the whole final state in key order, in pages. Later commits do not change the pages."""
        return self._pages(self._database.snapshot(), page_bytes)

    def id_at(self, height: int) -> bytes | None:
        """Return the id of the final block at `height`."""
        return self._read_value(BY_HEIGHT + _HEIGHT.pack(height)) if height >= 0 else None

    def block(self, block_id: bytes) -> StoredBlock | None:
        """Return a final block."""
        header, body = self._read_value(HEADER + block_id), self._read_value(BODY + block_id)
        if header is None or body is None:
            return None
        return StoredBlock(_HEIGHT.unpack(header[:8])[0], block_id, header[8:], body)

    def header(self, block_id: bytes) -> bytes | None:
        """Return the sealed header of a final block."""
        stored_header = self._read_value(HEADER + block_id)
        return stored_header[8:] if stored_header is not None else None

    def certificate_at(self, height: int) -> tuple[int, bytes] | None:
        """Return the certificate of the lowest certified block at or above `height`, with that block's height."""
        lowest_key, end_key = CERTIFICATE + _HEIGHT.pack(max(0, height)), _key_after(CERTIFICATE)
        try:
            with self._database.iterator(start=lowest_key, stop=end_key, verify_checksums=True) as entries:
                for key, value in entries:
                    return _HEIGHT.unpack(key[1:])[0], value
        except plyvel.Error as error:
            raise _read_error(self.path, error) from error
        return None

    def handoff(self, epoch: int) -> bytes | None:
        """Return the encoded handoff of an epoch's last block; None if it is not final or was never stored."""
        return self._read_value(HANDOFF + _HEIGHT.pack(epoch)) if epoch >= 0 else None

    def reverse_at(self, height: int) -> dict[bytes, bytes | None] | None:
        """Return the changes from the state after final block `height` to the state before; None if no longer kept."""
        packed = self._read_value(REVERSE + _HEIGHT.pack(height)) if height > 0 else None
        return unpack_changes(packed) if packed is not None else None

    def genesis_proof(self) -> bytes | None:
        """Return the proof of `GENESIS_KEYS` from `keep_genesis_proof`."""
        return self._read_value(_GENESIS_PROOF_KEY)

    def keep_genesis_proof(self, proof: bytes) -> None:
        """Store the proof of `GENESIS_KEYS` for ever: the genesis state itself is overwritten."""
        with self._atomic_batch() as batch:
            batch.put(_GENESIS_PROOF_KEY, proof)

    def check_free_space(self) -> None:
        """Raise `DiskSpaceError` if less space than the floor is free."""
        free_bytes = shutil.disk_usage(self.path).free
        if free_bytes < self._free_bytes_floor:
            raise DiskSpaceError(
                f"only {free_bytes // 2**20:,} MiB are free at {self.path}, and the node needs "
                f"{self._free_bytes_floor // 2**20:,} MiB. It stopped, and nothing is lost. Free some space and start "
                "it again"
            )

    # --- inside

    def _pages(self, snapshot: Any, page_bytes: int) -> Iterator[list[tuple[bytes, bytes]]]:
        page_pairs: list[tuple[bytes, bytes]] = []
        size = 0
        try:
            with snapshot.iterator(start=STATE, stop=_key_after(STATE), verify_checksums=True) as entries:
                for key, value in entries:
                    page_pairs.append((key[1:], value))
                    size += len(key) + len(value)
                    if size >= page_bytes:
                        yield page_pairs
                        page_pairs, size = [], 0
        except plyvel.Error as error:
            raise _read_error(self.path, error) from error
        finally:
            snapshot.close()
        yield page_pairs

    def _read_head(self) -> None:
        schema, head = self._read_value(_SCHEMA_KEY), self._read_value(_HEAD_KEY)
        if schema is None:
            return
        if _HEIGHT.unpack(schema)[0] != SCHEMA or head is None:
            raise DatabaseError(
                f"{self.path} has schema {_HEIGHT.unpack(schema)[0]}, and this program reads schema {SCHEMA}. "
                "Use the ogpu version that wrote it, or run `ogpu-node purge-chain` and sync again"
            )
        self.head_height, self.head_id = _HEAD.unpack(head)

    def _bound_recent(self) -> None:
        # Clear everything: a search for the dictionary's oldest entry passes the places of all deleted ones before it.
        # With single deletions, a block of 9,000 transfers took two to five times as long.
        if len(self._recent_changes) > RECENT_MAX:
            self._recent_changes.clear()

    def _undo_changes(self, changes: Changes, merged: Changes) -> dict[bytes, bytes | None]:
        # An earlier block of the same batch may have written the value before.
        return {key: merged[key] if key in merged else self.get(key) for key in changes}

    @staticmethod
    def _put_final(batch: _Batch, block: StoredBlock) -> None:
        height_key = _HEIGHT.pack(block.height)
        batch.put(HEADER + block.block_id, height_key + block.header)
        batch.put(BODY + block.block_id, block.body)
        batch.put(BY_HEIGHT + height_key, block.block_id)
        batch.put(_HEAD_KEY, _HEAD.pack(block.height, block.block_id))
        batch.delete(PENDING + block.block_id)

    def _atomic_batch(self) -> _SyncedBatch:
        return _SyncedBatch(self._database, self.path)

    def _read_value(self, key: bytes) -> bytes | None:
        try:
            return self._database.get(key, verify_checksums=True)
        except plyvel.Error as error:
            raise _read_error(self.path, error) from error

    def _entries_in_range(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        try:
            with self._database.iterator(
                start=max(prefix, start), stop=_key_after(prefix), verify_checksums=True
            ) as entries:
                yield from entries
        except plyvel.Error as error:
            raise _read_error(self.path, error) from error


class _SyncedBatch:
    """A context manager: writes and syncs all entries at its end, or nothing after an exception."""

    def __init__(self, database: plyvel.DB, path: Path) -> None:
        self._write_batch = database.write_batch(transaction=True, sync=True)
        self._database_path = path

    def __enter__(self) -> _Batch:
        return cast("_Batch", self._write_batch)

    def __exit__(self, error_type: object, *_: object) -> None:
        if error_type is not None:
            return
        try:
            self._write_batch.write()
        except plyvel.Error as error:
            raise DatabaseError(
                f"a write to {self._database_path} failed ({error}). Check the disk, then start the node again"
            ) from error


def _open_error(path: Path, error: Exception) -> Exception:
    error_text = unquoted(str(error))
    if any(reason in error_text for reason in NOT_ALLOWED):
        return BadInputError(
            f"this user cannot use the database {path} ({error_text}). Run the node as its owner, or give "
            "another --base-path"
        )
    if "lock" in error_text.lower():
        return BadInputError(
            f"{path} is in use by another process. Stop that process, or give each node its own --base-path",
            code="database_in_use",
        )
    return DatabaseError(
        f"the database {path} cannot be opened ({error_text}): its files are damaged. Keep the sign-state "
        "file, run `ogpu-node purge-chain`, and let the node sync again"
    )


def _read_error(path: Path, error: Exception) -> DatabaseError:
    return DatabaseError(
        f"the database {path} is damaged ({error}). Keep the sign-state file, run `ogpu-node purge-chain`, "
        "and let the node sync again"
    )


def _put_or_delete(batch: _Batch, key: bytes, value: bytes | None) -> None:
    if value is None:
        batch.delete(key)
    else:
        batch.put(key, value)


def _key_after(prefix: bytes) -> bytes | None:
    """Return the least key above every key that begins with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def _pack_block(block: StoredBlock) -> bytes:
    return _HEIGHT.pack(block.height) + _LENGTH.pack(len(block.header)) + block.header + block.body


def _unpack_block(block_id: bytes, packed: bytes) -> StoredBlock:
    header_end = 12 + _LENGTH.unpack_from(packed, 8)[0]
    return StoredBlock(_HEIGHT.unpack_from(packed)[0], block_id, packed[12:header_end], packed[header_end:])
