"""State under execution: what a block reads, and what it has written so far.

A `StateReader` is the state before the block; an `Overlay` lies over it and records writes and events.
Nested transactions undo both, exactly. Values are kept decoded beside their bytes, so that an
account touched by a hundred transactions is decoded once. Bytes are made at once, so that a value
out of range fails in the call that wrote it, except for items that ask to be encoded once a block.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol

Changes = Mapping[bytes, bytes | None]
"""Storage keys with their new values; None removes the key."""

TRANSACTION_DEPTH_MAX = 64
ITEM_PREFIX_BYTES = 32
"""What all keys of one storage item begin with."""


class StateReader(Protocol):
    """A state to read from. It never changes while something lies over it."""

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""


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
        values = {**self.values, **changes}
        return Memory({key: value for key, value in values.items() if value is not None})


_NOTHING: Any = object()
EncodeValue = Callable[[Any], bytes]


class Overlay:
    """Writes and events over a reader, with undo.

    `_values` holds decoded values, read or written (None: no entry). `_written` holds what was written: bytes, None for
    a removal, or the function that will encode the value at the end. The journal holds what each write replaced,
    `_before` the values that were read from below. `_by_item` holds the keys that were ever written, undone or not, by
    their first bytes, except for those in `_new`, which no listing has met yet.
    """

    def __init__(self, reader: StateReader) -> None:
        """Lie over `reader`."""
        self.reader = reader
        self.events: list[Any] = []
        self._values: dict[bytes, Any] = {}
        self._before: dict[bytes, Any] = {}
        self._written: dict[bytes, bytes | EncodeValue | None] = {}
        self._new: list[bytes] = []
        self._by_item: dict[bytes, dict[bytes, None]] = {}
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
        self._written[key] = raw
        self._values[key] = value

    def store_raw(self, key: bytes, raw: bytes) -> None:
        """Write bytes that nothing in this block reads decoded (or decodes anew). Not undone: for the block's ends."""
        if self._depth:
            raise RuntimeError("raw writes belong to the beginning and the end of a block")
        if key not in self._written:
            self._new.append(key)
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

        What is written during the iteration does not change what it yields.
        """
        mine = {key: self._written[key] for key in self._written_under(prefix) if key > start}
        added = sorted(key for key, entry in mine.items() if entry is not None)
        position = 0
        for key in self.reader.keys(prefix, start):
            while position < len(added) and added[position] < key:
                yield added[position]
                position += 1
            if key not in mine:
                yield key
        yield from added[position:]

    def _written_under(self, prefix: bytes) -> list[bytes]:
        # by storage item: a hook that lists a few entries of many items must not go through all that was written
        for key in self._new:
            self._by_item.setdefault(key[:ITEM_PREFIX_BYTES], {})[key] = None
        self._new.clear()
        if len(prefix) < ITEM_PREFIX_BYTES:
            candidates = list(self._written)
        else:
            candidates = list(self._by_item.get(prefix[:ITEM_PREFIX_BYTES], ()))
        return [key for key in candidates if key.startswith(prefix) and key in self._written]

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
        for held in (self._values, self._before, self._written, self._by_item):
            held.clear()
        for listed in (self.events, self._new, self._journal):
            listed.clear()

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
