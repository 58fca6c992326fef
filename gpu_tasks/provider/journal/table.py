"""Journal entries by key. Each is a `@struct` whose fields are written one by one as they become known.

Invariants: a change is on the disk before it is in memory and before its method returns, or within a step of the
journal, before that step ends. A field's row replaces its earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

from runtime.encoding.codec import Codec, DecodeError, codec

K = TypeVar("K")
E = TypeVar("E")


class FieldRow(NamedTuple):
    """A field of an entry, as in the file."""

    kind: str
    key: bytes
    field: str
    value: bytes


class UnknownFieldError(Exception):
    """A field that this release does not have."""


class JournalTable(Mapping[K, E], Generic[K, E]):
    """Entries of one kind, in the order of their creation."""

    def __init__(
        self,
        kind: str,
        key: Any,
        entry_class: type[E],
        write: Callable[[Collection[FieldRow]], None],
        delete: Callable[[str, Collection[bytes]], None],
    ) -> None:
        """Empty. `key` is the type of the keys. `write` and `delete` change the file before they return."""
        self.kind = kind
        self._write = write
        self._delete = delete
        self._key_codec: Codec[K] = codec(key)
        self._entry_class = entry_class
        any_class: Any = entry_class
        self._fields = _field_codecs(any_class)
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
        self._set(key, entry, self._fields)

    def change(self, key: K, **changes: Any) -> None:
        """Set fields of an entry. Raise JournalError if they cannot be written."""
        self._set(key, replace(self._entries[key], **changes), changes)  # type: ignore[type-var]  # a `@struct`

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

    def remove(self, keys: Iterable[K]) -> None:
        """Delete some entries. Raise JournalError if that cannot be written."""
        gone = list(keys)
        self._delete(self.kind, [self._key_codec.encode(key) for key in gone])
        for key in gone:
            self._entries.pop(key, None)

    def load(self, rows: Iterable[FieldRow]) -> None:
        """Replace all entries by those of the file.

        Raise UnknownFieldError for a field of a later release, and DecodeError for an invalid row.
        """
        found: dict[bytes, dict[str, Any]] = {}
        for row in rows:
            # A later release may have added fields. Ignoring them could forget a promise.
            if row.field not in self._fields:
                raise UnknownFieldError(row.field)
            found.setdefault(row.key, {})[row.field] = self._fields[row.field].decode(row.value)
        if any(len(values) < len(self._fields) for values in found.values()):
            raise DecodeError("an entry without all its fields", 0)
        self._entries = {self._key_codec.decode(key): self._entry_class(**values) for key, values in found.items()}

    def _set(self, key: K, entry: E, names: Iterable[str]) -> None:
        key_bytes = self._key_codec.encode(key)
        # Disk before memory: if the write fails, memory must not have the change.
        self._write(
            [FieldRow(self.kind, key_bytes, name, self._fields[name].encode(getattr(entry, name))) for name in names]
        )
        self._entries[key] = entry


@cache
def _field_codecs(entry_class: type[Any]) -> dict[str, Codec[Any]]:
    """Return the codec of each field of a `@struct`, in their order. To make them takes milliseconds."""
    hints = get_type_hints(entry_class, include_extras=True)
    return {entry_field.name: codec(hints[entry_field.name]) for entry_field in fields(entry_class)}
