"""Journal entries by key. Each is a `@struct` whose fields are written one by one as they become known.

    body = table u8 || key || (field u8 || value)*

Invariants: a change is on the disk before it is in memory and before its method returns. A later value of a field
replaces the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Generic, TypeVar, get_type_hints

from runtime.encoding.codec import Codec, DecodeError, codec

K = TypeVar("K")
E = TypeVar("E")


class JournalTable(Mapping[K, E], Generic[K, E]):
    """Entries of one kind, in the order of their creation."""

    def __init__(self, number: int, key: Any, kind: type[E], write: Callable[[bytes], None]) -> None:
        """Empty. `key` is the type of the keys. `write` appends a body to the journal's file."""
        self.number = number
        self._key_codec: Codec[K] = codec(key)
        self._entry_class = kind
        entry_class: Any = kind
        self._fields = _field_codecs(entry_class)
        self._numbers = {name: index for index, (name, _) in enumerate(self._fields)}
        self.write = write
        self._entries: dict[K, E] = {}

    def __getitem__(self, key: K) -> E:
        """Return an entry. Raise KeyError for an unknown key."""
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        """Iterate over a copy, because entries may be added meanwhile."""
        return iter(list(self._entries))

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def put(self, key: K, entry: E) -> None:
        """Create an entry, replacing any earlier one. Raise JournalError if it cannot be written."""
        # Disk before memory: if the write fails, memory must not have the change.
        self.write(self._body(key, entry, self._numbers))
        self._entries[key] = entry

    def change(self, key: K, **changes: Any) -> None:
        """Set fields of an entry. Raise JournalError if they cannot be written."""
        changed = replace(self._entries[key], **changes)  # type: ignore[type-var]  # a `@struct`
        self.write(self._body(key, changed, changes))
        self._entries[key] = changed

    def add(self, key: K, **added: Any) -> None:
        """Append a value to each named list of an entry, unless the list has it. It raises the errors of `change`."""
        held_lists = {name: getattr(self._entries[key], name) for name in added}
        changes = {
            name: (*held_values, added[name])
            for name, held_values in held_lists.items()
            if added[name] not in held_values
        }
        if changes:
            self.change(key, **changes)

    def take(self, body: bytes) -> bool:
        """Read a body without its table number. Return False for a field of a later release.

        Raise DecodeError if the body is invalid.
        """
        key, position = self._key_codec.decode_from(body, 0)
        changed_fields = {}
        while position < len(body):
            # A later release may have added fields. Ignoring them could forget a promise, so the caller refuses the
            # file.
            if body[position] >= len(self._fields):
                return False
            name, field_codec = self._fields[body[position]]
            changed_fields[name], position = field_codec.decode_from(body, position + 1)
        known = self._entries.get(key)
        if known is None and len(changed_fields) < len(self._fields):
            raise DecodeError("an entry without its start", position)
        if known is None:
            self._entries[key] = self._entry_class(**changed_fields)
        else:
            self._entries[key] = replace(known, **changed_fields)  # type: ignore[type-var]
        return True

    def bodies(self) -> Iterator[bytes]:
        """Return bodies from which `take` restores these entries."""
        return (self._body(key, entry, self._numbers) for key, entry in self._entries.items())

    def keep(self, entries: Mapping[K, E]) -> None:
        """Keep only these entries in memory. The caller rewrites the journal's file next."""
        self._entries = dict(entries)

    def _body(self, key: K, entry: E, changed_fields: Mapping[str, Any]) -> bytes:
        numbered = ((self._numbers[name], name) for name in changed_fields)
        encoded = (bytes((index,)) + self._fields[index][1].encode(getattr(entry, name)) for index, name in numbered)
        return bytes((self.number,)) + self._key_codec.encode(key) + b"".join(encoded)


@cache
def _field_codecs(kind: type[Any]) -> list[tuple[str, Codec[Any]]]:
    """Return the fields of a `@struct` in their order, each with its codec. To make them takes milliseconds."""
    hints = get_type_hints(kind, include_extras=True)
    return [(entry_field.name, codec(hints[entry_field.name])) for entry_field in fields(kind)]
