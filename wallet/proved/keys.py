"""Storage keys and names of items, for reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.frame.runtime import Runtime
from runtime.frame.storage import StorageItem


def storage_key(item: StorageItem, keys: Sequence[Any]) -> bytes:
    """Return the storage key of a value, or of an entry of a map; `item` is compiled."""
    if not keys:
        return item.key()  # type: ignore[attr-defined,no-any-return]  # by kind of item
    return item.key(keys[0] if len(keys) == 1 else tuple(keys))  # type: ignore[attr-defined,no-any-return]  # as above


def prefix_of(item: StorageItem, under: Sequence[Any]) -> bytes:
    """Return the prefix of an item's storage keys; of a double map, that under its first key."""
    parts = zip(item.hashers, item.key_codecs, under, strict=False)
    return item.prefix + b"".join(hasher.function(codec.encode(key)) for hasher, codec, key in parts)


def map_keys(item: StorageItem, found: bytes) -> tuple[Any, ...]:
    """Return the keys in a storage key of a compiled map. Raise DecodeError if it is none."""
    keys, begin = [], len(item.prefix)
    for hasher, codec in zip(item.hashers, item.key_codecs, strict=True):
        begin += hasher.prefix_bytes
        key, length = codec.decode_prefix(found[begin:])
        keys.append(key)
        begin += length
    return tuple(keys)


def value_of(item: StorageItem, raw: bytes | None) -> Any:
    """Return the stored value, or the item's default."""
    return item.default if raw is None else item.decode(raw)


def name_of(runtime: Runtime, item: StorageItem) -> str:
    """Return a compiled item's name, with its pallet's before it."""
    owners = (pallet.__name__ for pallet, items in runtime.items.items() if items.get(item.attribute) is item)
    return f"{next(owners)}.{item.name}"
