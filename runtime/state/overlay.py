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

    def _note(self, key: bytes) -> None:
        self.noted[key] = None
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
        values, added, removed = self.values.copy(), [], set()
        for key, value in changes.items():
            if value is not None:
                if key not in values:
                    added.append(key)
                values[key] = value
            elif values.pop(key, None) is not None:
                removed.add(key)
        next_memory = Memory(values)
        if self._sorted is not None:  # almost in order: Python's sort needs one pass
            kept = [key for key in self._sorted if key not in removed] if removed else self._sorted
            next_memory._sorted = sorted([*kept, *added])
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

    def load(self, key: bytes, decode: Callable[[bytes], Any]) -> Any:
        """Return the decoded value under `key`, None if there is none."""
        value = self._values.get(key, _NOTHING)
        if value is _NOTHING:
            value_bytes = self.raw(key)
            value = self._values[key] = None if value_bytes is None else decode(value_bytes)
            if key not in self._written:
                # Only an unwritten key still has its value from before the block.
                self._before[key] = value
        return value

    def before(self, key: bytes, decode: Callable[[bytes], Any]) -> Any:
        """Return the decoded value under `key` in the state below, None if there is none."""
        value = self._before.get(key, _NOTHING)
        if value is _NOTHING:
            value_bytes = self.reader.get(key)
            value = self._before[key] = None if value_bytes is None else decode(value_bytes)
        return value

    def store(self, key: bytes, new_bytes: bytes | EncodeValue | None, value: Any) -> None:
        """Write a value with its encoding, or with the function that encodes it when the block ends. None removes."""
        if self._depth:
            # Outside of layers nothing is ever undone.
            self._journal.append((key, self._written.get(key, _NOTHING), self._values.get(key, _NOTHING)))
        if key not in self._written:
            self._new.append(key)
        if self._listings:
            self._keep_for_listings(key)
        self._written[key] = new_bytes
        self._values[key] = value

    def store_raw(self, key: bytes, value_bytes: bytes) -> None:
        """Write bytes that no code in this block reads as a cached value.

        They are not undone, so this is for the start and the end of a block only.
        """
        if self._depth:
            raise RuntimeError("raw write inside a transaction")
        if key not in self._written:
            self._new.append(key)
        if self._listings:
            self._keep_for_listings(key)
        self._written[key] = value_bytes
        # A cached value would hide the raw bytes from later reads.
        self._values.pop(key, None)

    def raw(self, key: bytes) -> bytes | None:
        """Return the bytes under `key`."""
        entry = self._written.get(key, _NOTHING)
        if entry is _NOTHING:
            return self.reader.get(key)
        return self._bytes(key, entry)

    def _bytes(self, key: bytes, entry: bytes | EncodeValue | None) -> bytes | None:
        return entry if entry is None or isinstance(entry, bytes) else entry(self._values[key])

    def keys(self, prefix: bytes, start: bytes = b"") -> Iterator[bytes]:
        """Yield the keys present now that begin with `prefix` and come after `start`, ascending.

        Writes during the iteration do not change the result. The work is proportional to the keys taken, plus a step
        for each key that this block removed in front of them.
        """
        self._listed += 1
        listing_number = self._listed
        replaced = self._listings[listing_number] = {}
        try:
            own_keys = self._own_keys(prefix, start, replaced)
            first_key = next(own_keys, None)
            if first_key is None:  # the usual case: the block wrote nothing there
                yield from self.reader.keys(prefix, start)
                return
            last_key = None
            for key in merge(self.reader.keys(prefix, start), chain((first_key,), own_keys)):
                if key != last_key and self._entry(key, replaced) is not None:
                    yield key
                last_key = key
        finally:
            self._listings.pop(listing_number, None)

    def _own_keys(self, prefix: bytes, start: bytes, replaced: Mapping[bytes, Any]) -> Iterator[bytes]:
        return (key for key in self._keys.under(prefix, start) if self._entry(key, replaced) is not _NOTHING)

    def _entry(self, key: bytes, replaced: Mapping[bytes, Any]) -> Any:
        """Return the entry written under a key when a listing began, `_NOTHING` if there was none, or it was undone."""
        if key in replaced:
            return replaced[key]
        return self._written.get(key, _NOTHING)

    def _keep_for_listings(self, key: bytes) -> None:
        entry = self._written.get(key, _NOTHING)
        for replaced in self._listings.values():
            replaced.setdefault(key, entry)

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
        return (key for key, _, _ in self._journal)

    def leave_layer(self, marks: tuple[int, int], *, undo: bool) -> None:
        """End a layer. Undo its writes and events if `undo` is True."""
        if undo:
            self._undo(marks[0])
            # A failed call must leave no events either.
            del self.events[marks[1] :]
        self._depth -= 1
        if not self._depth:
            self._journal.clear()

    def _undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            key, written, previous = self._journal.pop()
            if self._listings:
                self._keep_for_listings(key)
            _put_back(self._written, key, written)
            _put_back(self._values, key, previous)

    def changes(self) -> Changes:
        """Return the writes, by ascending key."""
        written = self._written
        return {key: self._bytes(key, written[key]) for key in sorted(written)}

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
        for key in self._written:
            if key.startswith(prefix):
                yield key, self._values[key]


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


def _put_back(entries: dict[bytes, Any], key: bytes, previous: Any) -> None:
    if previous is _NOTHING:
        entries.pop(key, None)
    else:
        entries[key] = previous
