"""State under execution: what a block reads, and what it has written so far.

A `Reader` is the state before the block; an `Overlay` lies over it and records writes and events.
Nested transactions undo both, exactly. Values are kept decoded beside their bytes, so that an
account touched by a hundred transactions is decoded once; bytes are made at once, so that a value
out of range fails in the call that wrote it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

Changes = dict[bytes, bytes | None]
"""Storage keys with their new values; None removes the key."""

TRANSACTION_DEPTH_MAX = 64


class Reader(Protocol):
    """A state to read from. It never changes while something lies over it."""

    def get(self, key: bytes, /) -> bytes | None:
        """The value under `key`."""

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        """The keys that begin with `prefix` and come after `start`, ascending."""


class Memory:
    """A `Reader` over a dictionary: genesis, tests, small simulations."""

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


class Overlay:
    """Writes and events over a reader, with undo.

    `_written` maps a key to (bytes or None, decoded value); the journal holds what each write replaced.
    """

    def __init__(self, reader: Reader) -> None:
        """Lie over `reader`."""
        self.reader = reader
        self.events: list[Any] = []
        self._written: dict[bytes, tuple[bytes | None, Any]] = {}
        self._read: dict[bytes, Any] = {}
        self._journal: list[tuple[bytes, tuple[bytes | None, Any] | None]] = []
        self._depth = 0

    def load(self, key: bytes, decode: Callable[[bytes], Any]) -> Any:
        """The decoded value under `key`; None where there is none."""
        entry = self._written.get(key)
        if entry is not None:
            return entry[1]
        if key in self._read:
            return self._read[key]
        raw = self.reader.get(key)
        value = self._read[key] = None if raw is None else decode(raw)
        return value

    def store(self, key: bytes, raw: bytes | None, value: Any) -> None:
        """Write `value`, encoded as `raw`; None removes."""
        if self._depth:
            self._journal.append((key, self._written.get(key)))
        self._written[key] = (raw, value)

    def raw(self, key: bytes) -> bytes | None:
        """The bytes under `key`."""
        entry = self._written.get(key)
        return self.reader.get(key) if entry is None else entry[0]

    def keys(self, prefix: bytes, start: bytes = b"") -> Iterator[bytes]:
        """The keys present now that begin with `prefix` and come after `start`, ascending.

        What is written during the iteration does not change what it yields.
        """
        mine = {key: entry[0] for key, entry in self._written.items() if key.startswith(prefix) and key > start}
        added = sorted(key for key, raw in mine.items() if raw is not None)
        position = 0
        for key in self.reader.keys(prefix, start):
            while position < len(added) and added[position] < key:
                yield added[position]
                position += 1
            if key not in mine:
                yield key
        yield from added[position:]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo every write and event of the body if it raises."""
        if self._depth >= TRANSACTION_DEPTH_MAX:
            raise RuntimeError("nested transactions without end")  # calls are bounded, so this is our mistake
        journal_mark, event_mark = len(self._journal), len(self.events)
        self._depth += 1
        try:
            yield
        except BaseException:
            self._undo(journal_mark)
            del self.events[event_mark:]
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                self._journal.clear()

    def _undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            key, before = self._journal.pop()
            if before is None:
                del self._written[key]
            else:
                self._written[key] = before

    def changes(self) -> Changes:
        """What was written, by ascending key."""
        return {key: self._written[key][0] for key in sorted(self._written)}

    def changed_values(self, prefix: bytes) -> Iterator[tuple[bytes, Any]]:
        """Keys with this prefix that were written, with the value they have now, in order of first writing."""
        for key, (_, value) in self._written.items():
            if key.startswith(prefix):
                yield key, value
