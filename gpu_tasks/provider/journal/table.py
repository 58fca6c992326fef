"""Entries by key in a journal, each a `@struct` whose fields are written one by one as they become known.

    body = table u8 || key || (field u8 || value)*

Always: a change is on the disk when the method that makes it returns, and in memory only then; a field that a later
body of a key has again replaces the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar, get_type_hints

from runtime.encoding.codec import Codec, DecodeError, codec

K = TypeVar("K")
E = TypeVar("E")


class JournalTable(Mapping[K, E], Generic[K, E]):
    """Entries of one kind, in the order in which they began."""

    def __init__(self, number: int, key: Any, kind: type[E], write: Callable[[bytes], None]) -> None:
        """Empty. `key` is the type of the keys, `write` appends a body to the journal's file."""
        self.number = number
        self._key: Codec[K] = codec(key)
        self._kind = kind
        hints = get_type_hints(kind, include_extras=True)
        names = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # a `@struct`
        self._fields = [(name, codec(hints[name])) for name in names]
        self._numbers = {name: place for place, name in enumerate(names)}
        self.write = write
        self._entries: dict[K, E] = {}

    def __getitem__(self, key: K) -> E:
        """KeyError for an unknown key."""
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        """Over a copy: entries may begin meanwhile."""
        return iter(list(self._entries))

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def put(self, key: K, entry: E) -> None:
        """Begin an entry, in place of any earlier one. JournalError if it cannot be written."""
        self.write(self._body(key, entry, self._numbers))
        self._entries[key] = entry

    def change(self, key: K, **changes: Any) -> None:
        """Set fields of an entry. JournalError if they cannot be written."""
        entry = replace(self._entries[key], **changes)  # type: ignore[type-var]  # a `@struct`
        self.write(self._body(key, entry, changes))
        self._entries[key] = entry

    def add(self, key: K, **added: Any) -> None:
        """Append a value to each named list of an entry, unless the list has it. JournalError as `change`."""
        lists = {name: getattr(self._entries[key], name) for name in added}
        changes = {name: (*held, added[name]) for name, held in lists.items() if added[name] not in held}
        if changes:
            self.change(key, **changes)

    def take(self, body: bytes) -> bool:
        """Read a body without its table; DecodeError. False for a field that only a later release knows."""
        key, at = self._key.decode_from(body, 0)
        changes = {}
        while at < len(body):
            if body[at] >= len(self._fields):
                return False
            name, value = self._fields[body[at]]
            changes[name], at = value.decode_from(body, at + 1)
        known = self._entries.get(key)
        if known is None and len(changes) < len(self._fields):
            raise DecodeError("an entry without its beginning", at)
        self._entries[key] = self._kind(**changes) if known is None else replace(known, **changes)  # type: ignore[type-var]
        return True

    def bodies(self) -> Iterator[bytes]:
        """Bodies that `take` reads as these entries."""
        return (self._body(key, entry, self._numbers) for key, entry in self._entries.items())

    def keep(self, entries: Mapping[K, E]) -> None:
        """Have these entries alone, in memory: the journal's file is written anew next."""
        self._entries = dict(entries)

    def _body(self, key: K, entry: E, names: Mapping[str, Any]) -> bytes:
        numbered = ((self._numbers[name], name) for name in names)
        values = (bytes((place,)) + self._fields[place][1].encode(getattr(entry, name)) for place, name in numbered)
        return bytes((self.number,)) + self._key.encode(key) + b"".join(values)
