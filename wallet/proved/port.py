"""The reads that programs use, at one final block: `view` proves them, `trusting` takes the node's word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from runtime.frame.runtime import Runtime
from runtime.frame.storage import StorageItem


class FinalReads(Protocol):
    """The state after one final block; every read is of that block."""

    @property
    def block_id(self) -> bytes:
        """Which block."""
        ...

    @property
    def height(self) -> int:
        """Its number."""
        ...

    async def read(self, item: StorageItem, *keys: Any) -> Any:
        """The value of a storage item, its default where nothing is stored: `read(System.account, who)`."""
        ...

    async def read_many(self, item: StorageItem, keys: Sequence[Any]) -> list[Any]:
        """The values of a map under several keys, in their order."""
        ...

    async def entries(self, item: StorageItem) -> Mapping[bytes, Any]:
        """Every value of a map by storage key, none left out."""
        ...

    async def query(self, function: str, *arguments: Any) -> Any:
        """The answer of a declared runtime API: `query("OgpuApi_stakes", account)`."""
        ...


def storage_key(item: StorageItem, keys: Sequence[Any]) -> bytes:
    """The storage key of a value, or of an entry of a map; `item` is compiled."""
    if not keys:
        return item.key()  # type: ignore[attr-defined,no-any-return]  # by kind of item
    return item.key(keys[0] if len(keys) == 1 else tuple(keys))  # type: ignore[attr-defined,no-any-return]  # as above


def name_of(runtime: Runtime, item: StorageItem) -> str:
    """A compiled item's name, its pallet's before it."""
    owners = (pallet.__name__ for pallet, items in runtime.items.items() if items.get(item.attribute) is item)
    return f"{next(owners)}.{item.name}"


def value_of(item: StorageItem, raw: bytes | None) -> Any:
    """What is stored, or the item's default."""
    return item.default if raw is None else item.decode(raw)
