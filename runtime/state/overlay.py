"""The state under execution: a block's reads, and its writes so far.

A `StateReader` is the state before the block. An `Overlay` over it records writes and events. Nested transactions undo
both exactly. Values are kept decoded beside their bytes, so that an account that a hundred transactions touch is
decoded once. Values are encoded at once, so that a value out of range fails in the call that wrote it. Items that ask
for it are encoded once a block instead.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import chain
from types import TracebackType
from typing import Any, Protocol

from runtime.state.written_keys import WrittenKeys

Changes = Mapping[bytes, bytes | None]
"""Storage keys with their new values. None removes the key."""

TRANSACTION_DEPTH_MAX = 64


class StateReader(Protocol):
    """A readable state. It never changes while an overlay lies over it."""

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending."""


class TooManyReads(Exception):
    """The computation reads more keys than allowed."""


class RecordedReads:
    """A `StateReader` over another one that records every key read. Raises TooManyReads beyond `keys_max`."""

    def __init__(self, reader: StateReader, keys_max: int) -> None:
        """Start without recorded keys."""
        self._reader = reader
        self._keys_max = keys_max
        self.noted: dict[bytes, None] = {}

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        self._note(key)
        return self._reader.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending.

        The recorded keys suffice for a proof: a walk over the range meets only nodes on their paths.
        """
        self._note(max(prefix, start))
        for key in self._reader.keys(prefix, start):
            self._note(key)
            yield key

    def _note(self, storage_key: bytes) -> None:
        self.noted[storage_key] = None
        if len(self.noted) > self._keys_max:
            raise TooManyReads(f"more than {self._keys_max} keys")


class Memory:
    """A `StateReader` over a dictionary: genesis, tests, small simulations."""

    def __init__(self, values: dict[bytes, bytes] | None = None) -> None:
        """Hold `values`, which must not change afterwards."""
        self.values = values or {}
        self._sorted: list[bytes] | None = None

    def get(self, key: bytes, /) -> bytes | None:
        """Return the value under `key`."""
        return self.values.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix` and come after `start`, ascending."""
        if self._sorted is None:
            self._sorted = sorted(self.values)
        for position in range(bisect_left(self._sorted, max(prefix, start)), len(self._sorted)):
            key = self._sorted[position]
            if not key.startswith(prefix):
                return
            if key > start:
                yield key

    def updated(self, changes: Changes) -> "Memory":
        """Return the state after `changes`."""
        new_values, added_keys, removed_keys = self.values.copy(), [], set()
        for key, value in changes.items():
            if value is not None:
                if key not in new_values:
                    added_keys.append(key)
                new_values[key] = value
            elif new_values.pop(key, None) is not None:
                removed_keys.add(key)
        next_memory = Memory(new_values)
        if self._sorted is not None:  # almost in order: Python's sort needs one pass
            kept_keys = [key for key in self._sorted if key not in removed_keys] if removed_keys else self._sorted
            next_memory._sorted = sorted([*kept_keys, *added_keys])
        return next_memory


_NOTHING: Any = object()
EncodeValue = Callable[[Any], bytes]


class Overlay:
    """Writes and events over a reader, with undo.

    * `_values` holds decoded values, read or written (None: no entry).
    * `_written` holds the writes: bytes, None for a removal, or the function that encodes the value at the end.
    * The journal holds the entry that each write replaced, `_before` the values read from below.
    * `_keys` holds the keys that were ever written, undone or not.
    * `_listings` holds, for each open listing, the earlier entry of every key written since it began.
    """

    def __init__(self, reader: StateReader) -> None:
        """Create an empty overlay over `reader`."""
        self.reader = reader
        self.events: list[Any] = []
        self._values: dict[bytes, Any] = {}
        self._before: dict[bytes, Any] = {}
        self._written: dict[bytes, bytes | EncodeValue | None] = {}
        self._keys = WrittenKeys()
        self._new = self._keys.noted
        self._listings: dict[int, dict[bytes, Any]] = {}
        self._listed = 0
        self._journal: list[tuple[bytes, Any, Any]] = []
        self._depth = 0

    def load(self, storage_key: bytes, decode: Callable[[bytes], Any]) -> Any:
        """Return the decoded value under `storage_key`, None if there is none."""
        loaded_value = self._values.get(storage_key, _NOTHING)
        if loaded_value is _NOTHING:
            value_bytes = self.raw(storage_key)
            loaded_value = self._values[storage_key] = None if value_bytes is None else decode(value_bytes)
            if storage_key not in self._written:
                # Only an unwritten key still has its value from before the block.
                self._before[storage_key] = loaded_value
        return loaded_value

    def before(self, key: bytes, decode: Callable[[bytes], Any]) -> Any:
        """Return the decoded value under `key` in the state below, None if there is none."""
        loaded_value = self._before.get(key, _NOTHING)
        if loaded_value is _NOTHING:
            value_bytes = self.reader.get(key)
            loaded_value = self._before[key] = None if value_bytes is None else decode(value_bytes)
        return loaded_value

    def store(self, key: bytes, new_bytes: bytes | EncodeValue | None, new_value: Any) -> None:
        """Write a value with its encoding, or with the function that encodes it when the block ends. None removes."""
        if self._depth:
            # Outside of layers nothing is ever undone.
            self._journal.append((key, self._written.get(key, _NOTHING), self._values.get(key, _NOTHING)))
        if key not in self._written:
            self._new.append(key)
        if self._listings:
            self._keep_for_listings(key)
        self._written[key] = new_bytes
        self._values[key] = new_value

    def store_raw(self, storage_key: bytes, value_bytes: bytes) -> None:
        """Write bytes that no code in this block reads as a cached value.

        They are not undone, so this is for the start and the end of a block only.
        """
        if self._depth:
            raise RuntimeError("raw write inside a transaction")
        if storage_key not in self._written:
            self._new.append(storage_key)
        if self._listings:
            self._keep_for_listings(storage_key)
        self._written[storage_key] = value_bytes
        # A cached value would hide the raw bytes from later reads.
        self._values.pop(storage_key, None)

    def raw(self, key: bytes) -> bytes | None:
        """Return the bytes under `key`."""
        written_entry = self._written.get(key, _NOTHING)
        if written_entry is _NOTHING:
            return self.reader.get(key)
        return self._bytes(key, written_entry)

    def _bytes(self, storage_key: bytes, written_entry: bytes | EncodeValue | None) -> bytes | None:
        return (
            written_entry
            if written_entry is None or isinstance(written_entry, bytes)
            else written_entry(self._values[storage_key])
        )

    def keys(self, prefix: bytes, start: bytes = b"") -> Iterator[bytes]:
        """Yield the keys present now that begin with `prefix` and come after `start`, ascending.

        Writes during the iteration do not change the result. The work is proportional to the keys taken, plus a step
        for each key that this block removed in front of them.
        """
        self._listed += 1
        listing_number = self._listed
        replaced_entries = self._listings[listing_number] = {}
        try:
            own_keys = self._own_keys(prefix, start, replaced_entries)
            first_key = next(own_keys, None)
            if first_key is None:  # the usual case: the block wrote nothing there
                yield from self.reader.keys(prefix, start)
                return
            last_key = None
            for listed_key in merge(self.reader.keys(prefix, start), chain((first_key,), own_keys)):
                if listed_key != last_key and self._entry(listed_key, replaced_entries) is not None:
                    yield listed_key
                last_key = listed_key
        finally:
            self._listings.pop(listing_number, None)

    def _own_keys(self, prefix: bytes, start: bytes, replaced_entries: Mapping[bytes, Any]) -> Iterator[bytes]:
        return (
            written_key
            for written_key in self._keys.under(prefix, start)
            if self._entry(written_key, replaced_entries) is not _NOTHING
        )

    def _entry(self, written_key: bytes, replaced_entries: Mapping[bytes, Any]) -> Any:
        """Return the entry written under a key when a listing began, `_NOTHING` if there was none, or it was undone."""
        if written_key in replaced_entries:
            return replaced_entries[written_key]
        return self._written.get(written_key, _NOTHING)

    def _keep_for_listings(self, written_key: bytes) -> None:
        written_entry = self._written.get(written_key, _NOTHING)
        for replaced_entries in self._listings.values():
            replaced_entries.setdefault(written_key, written_entry)

    def transaction(self) -> "Transaction":
        """Return a context manager that undoes every write and event of its body if the body raises."""
        return Transaction(self)

    def enter_layer(self) -> tuple[int, int]:
        """Begin a layer. Return the marks that `leave_layer` needs."""
        if self._depth >= TRANSACTION_DEPTH_MAX:
            raise RuntimeError("transactions nested too deep")  # calls are bounded, so this is a bug
        self._depth += 1
        return len(self._journal), len(self.events)

    def keys_in_layers(self) -> Iterator[bytes]:
        """Return the keys that the open layers have written, with repetitions, for the audit of a step."""
        return (written_key for written_key, _, _ in self._journal)

    def leave_layer(self, layer_marks: tuple[int, int], *, undo: bool) -> None:
        """End a layer. Undo its writes and events if `undo` is True."""
        if undo:
            self._undo(layer_marks[0])
            # A failed call must leave no events either.
            del self.events[layer_marks[1] :]
        self._depth -= 1
        if not self._depth:
            self._journal.clear()

    def _undo(self, journal_mark: int) -> None:
        while len(self._journal) > journal_mark:
            written_key, previous_write, previous_value = self._journal.pop()
            if self._listings:
                self._keep_for_listings(written_key)
            _put_back(self._written, written_key, previous_write)
            _put_back(self._values, written_key, previous_value)

    def changes(self) -> Changes:
        """Return the writes, by ascending key."""
        written_entries = self._written
        return {
            written_key: self._bytes(written_key, written_entries[written_key])
            for written_key in sorted(written_entries)
        }

    def release(self) -> None:
        """Drop everything after the last use, because an execution and its pallets refer to each other.

        A block of 2,000 transfers creates 40,000 objects. In such a reference cycle they wait for Python's garbage
        collector, which took a seventh of an import's time to scan them together with everything else.
        """
        self.reader = Memory()
        for container in (self._values, self._before, self._written, self._listings, self._keys):
            container.clear()
        self.events.clear()
        self._journal.clear()

    def changed_values(self, prefix: bytes) -> Iterator[tuple[bytes, Any]]:
        """Yield the written keys with this prefix and their current values, in order of first writing."""
        for written_key in self._written:
            if written_key.startswith(prefix):
                yield written_key, self._values[written_key]


class Transaction:
    """One nested transaction, as a context manager (a plain class: a generator would take four times as long)."""

    __slots__ = ("_marks", "_overlay")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._marks = (0, 0)

    def __enter__(self) -> None:
        """Begin a layer."""
        self._marks = self._overlay.enter_layer()

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the layer, and undo it if the body raised."""
        self._overlay.leave_layer(self._marks, undo=error_type is not None)


def _put_back(entries: dict[bytes, Any], entry_key: bytes, previous: Any) -> None:
    if previous is _NOTHING:
        entries.pop(entry_key, None)
    else:
        entries[entry_key] = previous
