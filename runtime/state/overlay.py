"""State under execution: what a block reads, and what it has written so far.

A `StateReader` is the state before the block; an `Overlay` lies over it and records writes and events.
Nested transactions undo both, exactly. Values are kept decoded beside their bytes, so that an
account touched by a hundred transactions is decoded once. Bytes are made at once, so that a value
out of range fails in the call that wrote it, except for items that ask to be encoded once a block.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import chain
from types import TracebackType
from typing import Any, Protocol

from runtime.state.written_keys import WrittenKeys

Changes = Mapping[bytes, bytes | None]
"""Storage keys with their new values; None removes the key."""

TRANSACTION_DEPTH_MAX = 64


class StateReader(Protocol):
    """A state to read from. It never changes while something lies over it."""

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""


class TooManyReads(Exception):
    """The computation reads more keys than it may."""


class RecordedReads:
    """A `StateReader` over another one, that notes each key it was asked for; TooManyReads beyond `keys_max`."""

    def __init__(self, reader: StateReader, keys_max: int) -> None:
        """Nothing is read yet."""
        self._reader = reader
        self._keys_max = keys_max
        self.noted: dict[bytes, None] = {}

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""
        self._note(key)
        return self._reader.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending.

        The paths to both ends and to each key are all the nodes that a walk over these keys meets.
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
        """The value under `key`."""
        return self.values.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""
        if self._sorted is None:
            self._sorted = sorted(self.values)
        for position in range(bisect_left(self._sorted, max(prefix, start)), len(self._sorted)):
            key = self._sorted[position]
            if not key.startswith(prefix):
                return
            if key > start:
                yield key

    def updated(self, changes: Changes) -> "Memory":
        """The state after `changes`."""
        values, new, gone = self.values.copy(), [], set()
        for key, value in changes.items():
            if value is not None:
                if key not in values:
                    new.append(key)
                values[key] = value
            elif values.pop(key, None) is not None:
                gone.add(key)
        made = Memory(values)
        if self._sorted is not None:  # almost in order: sorted in one pass
            kept = [key for key in self._sorted if key not in gone] if gone else self._sorted
            made._sorted = sorted([*kept, *new])
        return made


_NOTHING: Any = object()
EncodeValue = Callable[[Any], bytes]


class Overlay:
    """Writes and events over a reader, with undo.

    `_values` holds decoded values, read or written (None: no entry). `_written` holds what was written: bytes, None for
    a removal, or the function that will encode the value at the end. The journal holds what each write replaced,
    `_before` the values that were read from below. `_keys` holds the keys that were ever written, undone or not.
    `_listings` holds, for each listing that is under way, what was written under the keys that were written since.
    """

    def __init__(self, reader: StateReader) -> None:
        """Lie over `reader`."""
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
        """The decoded value under `key`; None where there is none."""
        value = self._values.get(key, _NOTHING)
        if value is _NOTHING:
            raw = self.raw(key)
            value = self._values[key] = None if raw is None else decode(raw)
            if key not in self._written:
                self._before[key] = value
        return value

    def before(self, key: bytes, decode: Callable[[bytes], Any]) -> Any:
        """The decoded value under `key` in the state that this lies over; None where there was none."""
        value = self._before.get(key, _NOTHING)
        if value is _NOTHING:
            raw = self.reader.get(key)
            value = self._before[key] = None if raw is None else decode(raw)
        return value

    def store(self, key: bytes, raw: bytes | EncodeValue | None, value: Any) -> None:
        """Write `value`, encoded as `raw`, or by the function `raw` when the block ends; None removes."""
        if self._depth:
            self._journal.append((key, self._written.get(key, _NOTHING), self._values.get(key, _NOTHING)))
        if key not in self._written:
            self._new.append(key)
        if self._listings:
            self._keep_for_listings(key)
        self._written[key] = raw
        self._values[key] = value

    def store_raw(self, key: bytes, raw: bytes) -> None:
        """Write bytes that nothing in this block reads decoded (or decodes anew). Not undone: for the block's ends."""
        if self._depth:
            raise RuntimeError("raw writes belong to the beginning and the end of a block")
        if key not in self._written:
            self._new.append(key)
        if self._listings:
            self._keep_for_listings(key)
        self._written[key] = raw
        self._values.pop(key, None)

    def raw(self, key: bytes) -> bytes | None:
        """The bytes under `key`."""
        entry = self._written.get(key, _NOTHING)
        if entry is _NOTHING:
            return self.reader.get(key)
        return self._bytes(key, entry)

    def _bytes(self, key: bytes, entry: bytes | EncodeValue | None) -> bytes | None:
        return entry if entry is None or isinstance(entry, bytes) else entry(self._values[key])

    def keys(self, prefix: bytes, start: bytes = b"") -> Iterator[bytes]:
        """The keys present now that begin with `prefix` and come after `start`, ascending.

        What is written during the iteration does not change what it yields. No more is done than is taken: a key costs
        a few steps, and so does one in front of it that this block has removed.
        """
        self._listed += 1
        number = self._listed
        since = self._listings[number] = {}
        try:
            own = self._own_keys(prefix, start, since)
            first = next(own, None)
            if first is None:  # as in most listings: nothing of the block's lies there
                yield from self.reader.keys(prefix, start)
                return
            last = None
            for key in merge(self.reader.keys(prefix, start), chain((first,), own)):
                if key != last and self._entry(key, since) is not None:
                    yield key
                last = key
        finally:
            self._listings.pop(number, None)

    def _own_keys(self, prefix: bytes, start: bytes, since: Mapping[bytes, Any]) -> Iterator[bytes]:
        return (key for key in self._keys.under(prefix, start) if self._entry(key, since) is not _NOTHING)

    def _entry(self, key: bytes, since: Mapping[bytes, Any]) -> Any:
        """What was written under `key` when a listing began; `_NOTHING` if nothing was, or it was undone."""
        return since[key] if key in since else self._written.get(key, _NOTHING)

    def _keep_for_listings(self, key: bytes) -> None:
        entry = self._written.get(key, _NOTHING)
        for since in self._listings.values():
            since.setdefault(key, entry)

    def transaction(self) -> "Transaction":
        """Undo every write and event of the body of a `with` if it raises."""
        return Transaction(self)

    def enter_layer(self) -> tuple[int, int]:
        """Begin a layer; the marks are what `leave_layer` needs."""
        if self._depth >= TRANSACTION_DEPTH_MAX:
            raise RuntimeError("nested transactions without end")  # calls are bounded, so this is our mistake
        self._depth += 1
        return len(self._journal), len(self.events)

    def keys_in_layers(self) -> Iterator[bytes]:
        """The keys that the layers which are open have written, each as often as it was: for who audits a step."""
        return (key for key, _, _ in self._journal)

    def leave_layer(self, marks: tuple[int, int], *, undo: bool) -> None:
        """End a layer, and undo what was written in it if asked to."""
        if undo:
            self._undo(marks[0])
            del self.events[marks[1] :]
        self._depth -= 1
        if not self._depth:
            self._journal.clear()

    def _undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            key, written, value = self._journal.pop()
            if self._listings:
                self._keep_for_listings(key)
            _put_back(self._written, key, written)
            _put_back(self._values, key, value)

    def changes(self) -> Changes:
        """What was written, by ascending key."""
        written = self._written
        return {key: self._bytes(key, written[key]) for key in sorted(written)}

    def release(self) -> None:
        """Forget everything, after the last use: whoever executes and its pallets refer to each other.

        What a block of 2,000 transfers reads and tells are 40,000 objects. Left in such a circle they waited for
        Python's search for them, which looked through these and all else that had come: a seventh of an import's time.
        """
        self.reader = Memory()
        for held in (self._values, self._before, self._written, self._listings, self._keys):
            held.clear()
        self.events.clear()
        self._journal.clear()

    def changed_values(self, prefix: bytes) -> Iterator[tuple[bytes, Any]]:
        """Keys with this prefix that were written, with the value they have now, in order of first writing."""
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
        """Begin."""
        self._marks = self._overlay.enter_layer()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End, and undo if the body raised."""
        self._overlay.leave_layer(self._marks, undo=kind is not None)


def _put_back(where: dict[bytes, Any], key: bytes, before: Any) -> None:
    if before is _NOTHING:
        where.pop(key, None)
    else:
        where[key] = before
