"""Storage items: a pallet's annotated class attributes, read and written under Substrate's storage keys.

    class Balances(Pallet, index=2):
        total_issuance: StorageValue[Balance] = StorageValue(default=0, doc="Every grain there is.")
        locks: StorageMap[AccountId, Locks] = StorageMap(default=())
        owner: StorageMap[Hash, AccountId | None] = StorageMap()       # None where there is no entry

An item with None in its annotation is absent until written ("Optional" in metadata). Any other item needs a default,
which reads return while nothing is stored. Writing always stores, even the default. Only `remove` and `del` remove.
Values are immutable: to change one, write another.
"""

from collections.abc import Callable, Iterator
from copy import copy
from enum import Enum
from types import NoneType
from typing import Any, Generic, Self, TypeVar, get_args, overload

from runtime.cryptography.hashing import blake2_128_concat, identity, twox_64_concat, twox_128
from runtime.encoding.codec import Codec, Codecs
from runtime.encoding.scale import DecodeError
from runtime.state.overlay import Overlay

T = TypeVar("T")
K = TypeVar("K")
K1 = TypeVar("K1")
K2 = TypeVar("K2")
K3 = TypeVar("K3")
V = TypeVar("V")
_ABSENT: Any = object()


class Hasher(Enum):
    """The hash of a key in the trie: (number in metadata, bytes before the key, function)."""

    BLAKE2_128_CONCAT = (2, 16, blake2_128_concat)
    TWOX_64_CONCAT = (5, 8, twox_64_concat)
    IDENTITY = (6, 0, identity)

    def __init__(self, number: int, prefix_bytes: int, function: Callable[[bytes], bytes]) -> None:
        self.number = number
        self.prefix_bytes = prefix_bytes
        self.function = function


class StateCorrupted(Exception):
    """A stored value that does not decode. The database or a migration is at fault, never a peer."""


class StorageItem:
    """The base of all items: their storage keys, and the encoding of their values.

    The same object is first a declaration (class attribute), then compiled for a runtime, then bound to an overlay.
    Each step makes a copy.
    """

    hashers: tuple[Hasher, ...] = ()

    def __init__(self, default: Any, name: str, doc: str) -> None:
        self.default = default
        self.name = name
        self.doc = doc
        self.prefix = b""
        self.attribute = ""
        self.value_codec: Codec[Any]
        self.key_codecs: tuple[Codec[Any], ...] = ()
        self.is_optional = False
        self.encode_late = False
        self._overlay: Overlay

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = self.name or camel_case(attribute)

    def lie_under(self, pallet_name: str) -> None:
        """Set the pallet that owns the item, for good. Raise TypeError if it has one already."""
        if self.prefix:
            raise TypeError(f"{self.attribute} already belongs to another pallet")
        self.prefix = storage_prefix(pallet_name, self.name)

    def __get__(self, pallet: Any, owner: type) -> Self:
        """Return the declaration on the class, the item bound to its state on an instance, made once."""
        if pallet is None:
            return self
        bound = pallet.__dict__[self.attribute] = pallet.bound_item(self.attribute)
        return bound  # type: ignore[no-any-return]

    def bound(self, overlay: Overlay) -> Self:
        """Return a copy of a compiled item that reads and writes through `overlay`."""
        bound_copy = object.__new__(
            type(self)
        )  # a block binds over a hundred items, and `copy` takes five times as long
        bound_copy.__dict__.update(self.__dict__)
        bound_copy.prepare(overlay)
        return bound_copy

    def prepare(self, overlay: Overlay) -> None:
        """Set the overlay for reads and writes."""
        self._overlay = overlay

    def compiled(self, annotation: Any, codecs: Codecs) -> Self:
        """Return this declaration with the codecs of its annotation, such as `StorageMap[K, V]`.

        Raise TypeError unless it has either a default or None in its annotation.
        """
        *key_types, value_type = get_args(annotation)
        # A copy, because several runtimes may compile one declaration with other codecs.
        compiled_copy = copy(self)
        stored_types = [part for part in get_args(value_type) if part is not NoneType]
        compiled_copy.is_optional = NoneType in get_args(value_type)
        if compiled_copy.is_optional == (self.default is not _ABSENT):
            raise TypeError(f"{self.attribute}: needs either a default or None in the annotation")
        if compiled_copy.is_optional:
            value_type = stored_types[0]
            compiled_copy.default = None
        compiled_copy.value_codec = codecs.of(value_type)
        compiled_copy.key_codecs = tuple(codecs.of(key_type) for key_type in key_types)
        return compiled_copy

    def default_bytes(self) -> bytes:
        """Return the encoded default for metadata, one zero byte for an optional item."""
        return b"\0" if self.is_optional else self.value_codec.encode(self.default)

    def decode(self, encoded: bytes) -> Any:
        """Decode a stored value. Raise StateCorrupted if it does not decode."""
        try:
            return self.value_codec.decode(encoded)
        except DecodeError as failure:
            raise StateCorrupted(f"{self.attribute}: {failure}") from failure

    def put(self, storage_key: bytes, value: Any) -> None:
        """Write `value`, encoded at once unless `encode_late` is set, so that a value out of range fails here."""
        encode = self.value_codec.encode
        self._overlay.store(storage_key, encode if self.encode_late else encode(value), value)

    def _hashed(self, keys: tuple[Any, ...]) -> bytes:
        # Not strict: fewer keys than hashers give the prefix of a listing.
        parts = zip(self.hashers, self.key_codecs, keys, strict=False)
        return self.prefix + b"".join([hasher.function(codec.encode(key)) for hasher, codec, key in parts])

    def _unhashed(self, storage_key: bytes, key_offset: int, index: int) -> tuple[Any, int]:
        """Return the key number `index` at offset `key_offset` of a storage key, and its end."""
        key_offset += self.hashers[index].prefix_bytes
        key, key_end = self.key_codecs[index].decode_prefix(storage_key[key_offset:])
        return key, key_offset + key_end

    def _entries(self, first_keys: tuple[Any, ...], after_key: bytes = b"") -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Yield the entries under `first_keys`: (remaining keys, value), in the order of the storage keys."""
        prefix = self._hashed(first_keys)
        for storage_key in self._overlay.keys(prefix, after_key):
            keys, key_end = [], len(prefix)
            for position in range(len(first_keys), len(self.hashers)):
                key, key_end = self._unhashed(storage_key, key_end, position)
                keys.append(key)
            yield tuple(keys), self._value(storage_key)

    def _value(self, storage_key: bytes) -> Any:
        value = self._overlay.load(storage_key, self.decode)
        return self.default if value is None else value


class StorageValue(StorageItem, Generic[T]):
    """One value."""

    def __init__(self, *, default: T = _ABSENT, name: str = "", doc: str = "") -> None:
        """Declare a value. `name` replaces the CamelCase of the attribute's name."""
        super().__init__(default, name, doc)

    def key(self) -> bytes:
        """Return the storage key."""
        return self.prefix

    def get(self) -> T:
        """Return the value, or the default."""
        value = self._overlay.load(self.prefix, self.decode)
        return self.default if value is None else value  # type: ignore[no-any-return]

    def set(self, value: T) -> None:
        """Store `value`."""
        self.put(self.prefix, value)

    def remove(self) -> None:
        """Remove the value."""
        self._overlay.store(self.prefix, None, None)

    def exists(self) -> bool:
        """Return True if a value is stored."""
        return self._overlay.load(self.prefix, self.decode) is not None


class StorageMap(StorageItem, Generic[K, V]):
    """Values by key: `item[key]`, `item[key] = value`, `del item[key]`, `key in item`."""

    def __init__(
        self,
        *,
        default: V = _ABSENT,
        hasher: Hasher = Hasher.BLAKE2_128_CONCAT,
        name: str = "",
        doc: str = "",
        encode_late: bool = False,
    ) -> None:
        """Declare a map. `hasher` may be TWOX_64_CONCAT if nobody can choose the keys.

        `encode_late` encodes each entry once, at the end of the block. Use it for entries that almost every transaction
        writes, and only if the writer ensures that every value fits its type.
        """
        super().__init__(default, name, doc)
        self.hashers = (hasher,)
        self.encode_late = encode_late
        self._keys: dict[K, bytes]

    def prepare(self, overlay: Overlay) -> None:
        """Set the overlay, and create this binding's own cache of hashed keys."""
        super().prepare(overlay)
        self._keys = {}

    def key(self, key: K) -> bytes:
        """Return the storage key of `key`."""
        return self.prefix + self.hashers[0].function(self.key_codecs[0].encode(key))

    def _at(self, key: K) -> bytes:
        cached_key = self._keys.get(key)
        if cached_key is None:
            cached_key = self._keys[key] = self.key(key)
        return cached_key

    def __getitem__(self, key: K) -> V:
        """Return the value under `key`, or the default."""
        # Every transaction reads the same few accounts several times, so a cached key costs no method call.
        value = self._overlay.load(self._keys.get(key) or self._at(key), self.decode)
        return self.default if value is None else value  # type: ignore[no-any-return]

    def __setitem__(self, key: K, value: V) -> None:
        """Store `value` under `key`."""
        # `put` inlined for cached keys: a transfer writes three times.
        encode = self.value_codec.encode
        self._overlay.store(self._keys.get(key) or self._at(key), encode if self.encode_late else encode(value), value)

    def __delitem__(self, key: K) -> None:
        """Remove the entry of `key`, if there is one."""
        self._overlay.store(self._at(key), None, None)

    def __contains__(self, key: K) -> bool:
        """Return True if an entry is stored under `key`."""
        return self._overlay.load(self._at(key), self.decode) is not None

    def keys(self, *, behind: K | None = None) -> Iterator[K]:
        """Yield every key, in the order of the storage keys (which looks random, and is the same on every node).

        With `behind`, yield only the keys after it. `behind` need not exist.
        """
        for storage_key in self._overlay.keys(self.prefix, b"" if behind is None else self._at(behind)):
            yield self._unhashed(storage_key, len(self.prefix), 0)[0]

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield every entry, in the order of `keys`."""
        for storage_key in self._overlay.keys(self.prefix):
            key = self._unhashed(storage_key, len(self.prefix), 0)[0]
            self._keys[key] = storage_key  # saves hashing it again: the end of an era lists thousands
            yield key, self[key]


class StorageDoubleMap(StorageItem, Generic[K1, K2, V]):
    """Values by two keys, listable by the first: `item[first, second]`."""

    def __init__(
        self,
        *,
        default: V = _ABSENT,
        hashers: tuple[Hasher, Hasher] = (Hasher.BLAKE2_128_CONCAT, Hasher.BLAKE2_128_CONCAT),
        name: str = "",
        doc: str = "",
    ) -> None:
        """Declare a map. `hashers` are for the first and the second key."""
        super().__init__(default, name, doc)
        self.hashers = hashers

    def key(self, keys: tuple[K1, K2]) -> bytes:
        """Return the storage key of a pair."""
        return self._hashed(keys)

    def __getitem__(self, keys: tuple[K1, K2]) -> V:
        """Return the value under both keys, or the default."""
        return self._value(self.key(keys))  # type: ignore[no-any-return]

    def __setitem__(self, keys: tuple[K1, K2], value: V) -> None:
        """Store `value` under both keys."""
        self.put(self.key(keys), value)

    def __delitem__(self, keys: tuple[K1, K2]) -> None:
        """Remove the entry under both keys, if there is one."""
        self._overlay.store(self.key(keys), None, None)

    def __contains__(self, keys: tuple[K1, K2]) -> bool:
        """Return True if an entry is stored under both keys."""
        return self._overlay.load(self.key(keys), self.decode) is not None

    def under(self, first: K1, *, behind: K2 | None = None) -> Iterator[tuple[K2, V]]:
        """Return the entries of one first key: (second key, value), in the order of the storage keys.

        With `behind`, return only those after this second key, which need not exist.
        """
        after_key = b"" if behind is None else self.key((first, behind))
        return ((second_key, value) for (second_key,), value in self._entries((first,), after_key))

    def items(self) -> Iterator[tuple[tuple[K1, K2], V]]:
        """Return every entry."""
        return (((first_key, second_key), value) for (first_key, second_key), value in self._entries(()))


class StorageTripleMap(StorageItem, Generic[K1, K2, K3, V]):
    """Values by three keys, listable by the first one or two: `item[first, second, third]`.

    Keys and metadata are those of the SDK's `StorageNMap`: the hashed keys one after the other, and a tuple with a
    hasher for each of them.
    """

    def __init__(
        self,
        *,
        default: V = _ABSENT,
        hashers: tuple[Hasher, Hasher, Hasher] = (Hasher.BLAKE2_128_CONCAT,) * 3,
        name: str = "",
        doc: str = "",
    ) -> None:
        """Declare a map. `hashers` are for the three keys, in order."""
        super().__init__(default, name, doc)
        self.hashers = hashers

    def key(self, keys: tuple[K1, K2, K3]) -> bytes:
        """Return the storage key of a triple."""
        return self._hashed(keys)

    def __getitem__(self, keys: tuple[K1, K2, K3]) -> V:
        """Return the value under the three keys, or the default."""
        return self._value(self.key(keys))  # type: ignore[no-any-return]

    def __setitem__(self, keys: tuple[K1, K2, K3], value: V) -> None:
        """Store `value` under the three keys."""
        self.put(self.key(keys), value)

    def __delitem__(self, keys: tuple[K1, K2, K3]) -> None:
        """Remove the entry under the three keys, if there is one."""
        self._overlay.store(self.key(keys), None, None)

    def __contains__(self, keys: tuple[K1, K2, K3]) -> bool:
        """Return True if an entry is stored under the three keys."""
        return self._overlay.load(self.key(keys), self.decode) is not None

    @overload
    def under(self, first: K1, /) -> Iterator[tuple[tuple[K2, K3], V]]: ...
    @overload
    def under(self, first: K1, second: K2, /) -> Iterator[tuple[K3, V]]: ...
    def under(self, *known: Any) -> Iterator[Any]:
        """Return the entries of a first key: ((second, third), value), or of a first and second key: (third, value)."""
        if len(known) == 1:
            return self._entries(known)
        return ((third_key, value) for (third_key,), value in self._entries(known))

    def items(self) -> Iterator[tuple[tuple[K1, K2, K3], V]]:
        """Return every entry."""
        return (
            ((first_key, second_key, third_key), value)
            for (first_key, second_key, third_key), value in self._entries(())
        )


def camel_case(attribute: str) -> str:
    """Return an attribute's name in the form of metadata and storage keys: `total_issuance` as `TotalIssuance`."""
    return "".join(part.capitalize() for part in attribute.split("_"))  # deterministic: our own names


def storage_prefix(pallet_name: str, name: str) -> bytes:
    """Return the first 32 bytes of every storage key of an item."""
    return twox_128(pallet_name.encode()) + twox_128(name.encode())
