"""Storage items: a pallet's annotated class attributes, read and written under Substrate's storage keys.

    class Balances(Pallet, index=2):
        total_issuance: StorageValue[Balance] = StorageValue(default=0, doc="Every grain there is.")
        locks: StorageMap[AccountId, Locks] = StorageMap(default=())
        owner: StorageMap[Hash, AccountId | None] = StorageMap()       # None where there is no entry

An item whose annotation allows None is absent until written ("Optional" in metadata); any other
needs a default, which reads give while nothing is stored. Writing always stores, even the default;
removing is a verb of its own. Values are immutable; changing one means writing another.
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
    """How a key is spread in the tree: (number in metadata, bytes before the key, function)."""

    BLAKE2_128_CONCAT = (2, 16, blake2_128_concat)
    TWOX_64_CONCAT = (5, 8, twox_64_concat)
    IDENTITY = (6, 0, identity)

    def __init__(self, number: int, prefix_bytes: int, function: Callable[[bytes], bytes]) -> None:
        self.number = number
        self.prefix_bytes = prefix_bytes
        self.function = function


class StateCorrupted(Exception):
    """A stored value does not decode: the database or a migration is at fault, never a peer."""


class StorageItem:
    """What all items share: where they lie, and how values become bytes.

    The same object is first a declaration (class attribute), then compiled for a runtime, then
    bound to an overlay; each step is a copy.
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

    def lie_under(self, pallet: str) -> None:
        """Belong to the pallet of this name, for good: TypeError if another has it."""
        if self.prefix:
            raise TypeError(f"{self.attribute} lies under another pallet already")
        self.prefix = storage_prefix(pallet, self.name)

    def __get__(self, pallet: Any, owner: type) -> Self:
        """The declaration on the class; on an instance the item bound to its state, made once."""
        if pallet is None:
            return self
        bound = pallet.__dict__[self.attribute] = pallet.bound_item(self.attribute)
        return bound  # type: ignore[no-any-return]

    def bound(self, overlay: Overlay) -> Self:
        """A copy of a compiled item that reads and writes through `overlay`."""
        made = object.__new__(type(self))  # a block binds over a hundred: `copy` takes five times as long
        made.__dict__.update(self.__dict__)
        made.prepare(overlay)
        return made

    def prepare(self, overlay: Overlay) -> None:
        """Read and write through `overlay` from now on."""
        self._overlay = overlay

    def compiled(self, annotation: Any, codecs: Codecs) -> Self:
        """This declaration with the codecs of its annotation, such as `StorageMap[K, V]`."""
        *keys, value = get_args(annotation)
        made = copy(self)
        stored = [part for part in get_args(value) if part is not NoneType]
        made.is_optional = NoneType in get_args(value)
        if made.is_optional == (self.default is not _ABSENT):
            raise TypeError(f"{self.attribute}: either a default, or None in its annotation")
        if made.is_optional:
            value = stored[0]
            made.default = None
        made.value_codec = codecs.of(value)
        made.key_codecs = tuple(codecs.of(key) for key in keys)
        return made

    def default_bytes(self) -> bytes:
        """The default as metadata shows it; one zero byte for an optional item."""
        return b"\0" if self.is_optional else self.value_codec.encode(self.default)

    def decode(self, raw: bytes) -> Any:
        """A stored value; StateCorrupted if it does not decode."""
        try:
            return self.value_codec.decode(raw)
        except DecodeError as error:
            raise StateCorrupted(f"{self.attribute}: {error}") from error

    def put(self, storage_key: bytes, value: Any) -> None:
        """Write `value`; encoded now, so that one out of range fails here, unless the item asked otherwise."""
        encode = self.value_codec.encode
        self._overlay.store(storage_key, encode if self.encode_late else encode(value), value)

    def _hashed(self, keys: tuple[Any, ...]) -> bytes:
        parts = zip(self.hashers, self.key_codecs, keys, strict=False)
        return self.prefix + b"".join([hasher.function(codec.encode(key)) for hasher, codec, key in parts])

    def _unhashed(self, storage_key: bytes, begin: int, position: int) -> tuple[Any, int]:
        """The key number `position` that lies at `begin` in a storage key, and where it ends."""
        begin += self.hashers[position].prefix_bytes
        key, end = self.key_codecs[position].decode_prefix(storage_key[begin:])
        return key, begin + end

    def _entries(self, known: tuple[Any, ...], behind: bytes = b"") -> Iterator[tuple[tuple[Any, ...], Any]]:
        """What lies under the first keys `known`: (the keys that follow, value), in the order of the storage keys."""
        prefix = self._hashed(known)
        for storage_key in self._overlay.keys(prefix, behind):
            keys, end = [], len(prefix)
            for position in range(len(known), len(self.hashers)):
                key, end = self._unhashed(storage_key, end, position)
                keys.append(key)
            yield tuple(keys), self._value(storage_key)

    def _value(self, storage_key: bytes) -> Any:
        value = self._overlay.load(storage_key, self.decode)
        return self.default if value is None else value


class StorageValue(StorageItem, Generic[T]):
    """One value."""

    def __init__(self, *, default: T = _ABSENT, name: str = "", doc: str = "") -> None:
        """`name` replaces the CamelCase of the attribute's name."""
        super().__init__(default, name, doc)

    def key(self) -> bytes:
        """The storage key."""
        return self.prefix

    def get(self) -> T:
        """The value, or the default."""
        value = self._overlay.load(self.prefix, self.decode)
        return self.default if value is None else value  # type: ignore[no-any-return]

    def set(self, value: T) -> None:
        """Store `value`."""
        self.put(self.prefix, value)

    def remove(self) -> None:
        """Forget the value."""
        self._overlay.store(self.prefix, None, None)

    def exists(self) -> bool:
        """Whether a value is stored."""
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
        """`hasher` may be TWOX_64_CONCAT where nobody can choose the keys.

        `encode_late` encodes each entry once, at the end of the block: for entries that are written by almost every
        transaction, and only where their writer makes sure that every value fits.
        """
        super().__init__(default, name, doc)
        self.hashers = (hasher,)
        self.encode_late = encode_late
        self._keys: dict[K, bytes]

    def prepare(self, overlay: Overlay) -> None:
        """Every binding has a cache of hashed keys of its own."""
        super().prepare(overlay)
        self._keys = {}

    def key(self, key: K) -> bytes:
        """The storage key of `key`."""
        return self.prefix + self.hashers[0].function(self.key_codecs[0].encode(key))

    def _at(self, key: K) -> bytes:
        known = self._keys.get(key)
        if known is None:
            known = self._keys[key] = self.key(key)
        return known

    def __getitem__(self, key: K) -> V:
        """The value under `key`, or the default."""
        # Every transaction reads the same few accounts several times: a key that is hashed already costs no call.
        value = self._overlay.load(self._keys.get(key) or self._at(key), self.decode)
        return self.default if value is None else value  # type: ignore[no-any-return]

    def __setitem__(self, key: K, value: V) -> None:
        """Store `value` under `key`."""
        # `put` of a key that is hashed already, without the calls: a transfer writes three times.
        encode = self.value_codec.encode
        self._overlay.store(self._keys.get(key) or self._at(key), encode if self.encode_late else encode(value), value)

    def __delitem__(self, key: K) -> None:
        """Remove the entry of `key`, if there is one."""
        self._overlay.store(self._at(key), None, None)

    def __contains__(self, key: K) -> bool:
        """Whether an entry is stored under `key`."""
        return self._overlay.load(self._at(key), self.decode) is not None

    def keys(self, *, behind: K | None = None) -> Iterator[K]:
        """Every key, in the order of the storage keys (which looks random, and is the same everywhere).

        With `behind`, which need not be there, those that come after it.
        """
        for storage_key in self._overlay.keys(self.prefix, b"" if behind is None else self._at(behind)):
            yield self._unhashed(storage_key, len(self.prefix), 0)[0]

    def items(self) -> Iterator[tuple[K, V]]:
        """Every entry, in the order of `keys`."""
        for storage_key in self._overlay.keys(self.prefix):
            key = self._unhashed(storage_key, len(self.prefix), 0)[0]
            self._keys[key] = storage_key  # not to be hashed anew: an era's turn lists thousands
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
        """`hashers` are those of the first and the second key."""
        super().__init__(default, name, doc)
        self.hashers = hashers

    def key(self, keys: tuple[K1, K2]) -> bytes:
        """The storage key of a pair."""
        return self._hashed(keys)

    def __getitem__(self, keys: tuple[K1, K2]) -> V:
        """The value under both keys, or the default."""
        return self._value(self.key(keys))  # type: ignore[no-any-return]

    def __setitem__(self, keys: tuple[K1, K2], value: V) -> None:
        """Store `value` under both keys."""
        self.put(self.key(keys), value)

    def __delitem__(self, keys: tuple[K1, K2]) -> None:
        """Remove the entry under both keys, if there is one."""
        self._overlay.store(self.key(keys), None, None)

    def __contains__(self, keys: tuple[K1, K2]) -> bool:
        """Whether an entry is stored under both keys."""
        return self._overlay.load(self.key(keys), self.decode) is not None

    def under(self, first: K1, *, behind: K2 | None = None) -> Iterator[tuple[K2, V]]:
        """The entries of one first key: (second key, value), in the order of the storage keys.

        With `behind`, a second key that need not be there, those that come after it.
        """
        start = b"" if behind is None else self.key((first, behind))
        return ((second, value) for (second,), value in self._entries((first,), start))

    def items(self) -> Iterator[tuple[tuple[K1, K2], V]]:
        """Every entry."""
        return (((first, second), value) for (first, second), value in self._entries(()))


class StorageTripleMap(StorageItem, Generic[K1, K2, K3, V]):
    """Values by three keys, listable by the first one or two: `item[first, second, third]`.

    Keys and metadata are those of the SDK's `StorageNMap`: the hashed keys one after the other, a tuple with a hasher
    for each of them.
    """

    def __init__(
        self,
        *,
        default: V = _ABSENT,
        hashers: tuple[Hasher, Hasher, Hasher] = (Hasher.BLAKE2_128_CONCAT,) * 3,
        name: str = "",
        doc: str = "",
    ) -> None:
        """`hashers` are those of the three keys, in order."""
        super().__init__(default, name, doc)
        self.hashers = hashers

    def key(self, keys: tuple[K1, K2, K3]) -> bytes:
        """The storage key of a triple."""
        return self._hashed(keys)

    def __getitem__(self, keys: tuple[K1, K2, K3]) -> V:
        """The value under the three keys, or the default."""
        return self._value(self.key(keys))  # type: ignore[no-any-return]

    def __setitem__(self, keys: tuple[K1, K2, K3], value: V) -> None:
        """Store `value` under the three keys."""
        self.put(self.key(keys), value)

    def __delitem__(self, keys: tuple[K1, K2, K3]) -> None:
        """Remove the entry under the three keys, if there is one."""
        self._overlay.store(self.key(keys), None, None)

    def __contains__(self, keys: tuple[K1, K2, K3]) -> bool:
        """Whether an entry is stored under the three keys."""
        return self._overlay.load(self.key(keys), self.decode) is not None

    @overload
    def under(self, first: K1, /) -> Iterator[tuple[tuple[K2, K3], V]]: ...
    @overload
    def under(self, first: K1, second: K2, /) -> Iterator[tuple[K3, V]]: ...
    def under(self, *known: Any) -> Iterator[Any]:
        """The entries of a first key: ((second, third), value); of a first and a second key: (third, value)."""
        if len(known) == 1:
            return self._entries(known)
        return ((third, value) for (third,), value in self._entries(known))

    def items(self) -> Iterator[tuple[tuple[K1, K2, K3], V]]:
        """Every entry."""
        return (((first, second, third), value) for (first, second, third), value in self._entries(()))


def camel_case(attribute: str) -> str:
    """`total_issuance` as `TotalIssuance`, the form of names in metadata and storage keys."""
    return "".join(part.capitalize() for part in attribute.split("_"))  # deterministic: our own names


def storage_prefix(pallet: str, item: str) -> bytes:
    """The 32 bytes that every storage key of an item begins with."""
    return twox_128(pallet.encode()) + twox_128(item.encode())
