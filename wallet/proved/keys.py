"""Storage keys and names of items, for reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.frame.runtime import Runtime
from runtime.frame.storage import StorageItem


def storage_key(item: StorageItem, map_key_parts: Sequence[Any]) -> bytes:
    """Return the storage key of a value, or of an entry of a map; `item` is compiled."""
    if not map_key_parts:
        return item.key()  # type: ignore[attr-defined,no-any-return]  # by kind of item
    return item.key(map_key_parts[0] if len(map_key_parts) == 1 else tuple(map_key_parts))  # type: ignore[attr-defined,no-any-return]  # as above


def prefix_of(item: StorageItem, first_keys: Sequence[Any]) -> bytes:
    """Return the prefix of an item's storage keys; of a double map, that under its first key."""
    hashed_parts = zip(item.hashers, item.key_codecs, first_keys, strict=False)
    return item.prefix + b"".join(hasher.function(codec.encode(map_key)) for hasher, codec, map_key in hashed_parts)


def map_keys(item: StorageItem, storage_key_bytes: bytes) -> tuple[Any, ...]:
    """Return the keys in a storage key of a compiled map. Raise DecodeError if it is none."""
    decoded_keys, part_start = [], len(item.prefix)
    for hasher, codec in zip(item.hashers, item.key_codecs, strict=True):
        part_start += hasher.prefix_bytes
        map_key, key_length = codec.decode_prefix(storage_key_bytes[part_start:])
        decoded_keys.append(map_key)
        part_start += key_length
    return tuple(decoded_keys)


def value_of(item: StorageItem, encoded_value: bytes | None) -> Any:
    """Return the stored value, or the item's default."""
    return item.default if encoded_value is None else item.decode(encoded_value)


def name_of(runtime: Runtime, item: StorageItem) -> str:
    """Return a compiled item's name, with its pallet's before it."""
    owner_names = (
        pallet.__name__ for pallet, pallet_items in runtime.items.items() if pallet_items.get(item.attribute) is item
    )
    return f"{next(owner_names)}.{item.name}"
