"""The same reads on the node's word: what `--trust-node` means. Nothing is checked but the form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.frame.api import Apis
from runtime.frame.storage import StorageItem
from wallet.proved.json_forms import bytes_list, bytes_of
from wallet.proved.port import name_of, storage_key, value_of
from wallet.proved.refutation import about
from wallet.proved.view import KEYS_OF_A_PAGE, AskNode


class TrustingView:
    """Implements `FinalReads` for the block that the node calls final."""

    def __init__(self, url: str, ask: AskNode, apis: Apis, block_id: bytes, height: int) -> None:
        """For the state that the node has after a block."""
        self.block_id = block_id
        self.height = height
        self._url = url
        self._ask = ask
        self._apis = apis
        self._at = "0x" + block_id.hex()

    async def read(self, item: StorageItem, *keys: Any) -> Any:
        """See `FinalReads`."""
        known = self._apis.runtime.item(item)
        return await self._value(known, storage_key(known, keys))

    async def read_many(self, item: StorageItem, keys: Sequence[Any]) -> list[Any]:
        """See `FinalReads`."""
        return [await self.read(item, key) for key in keys]

    async def entries(self, item: StorageItem) -> dict[bytes, Any]:
        """See `FinalReads`."""
        known = self._apis.runtime.item(item)
        found: list[bytes] = []
        while True:
            start = "0x" + found[-1].hex() if found else None
            page = await self._ask("state_getKeysPaged", "0x" + known.prefix.hex(), KEYS_OF_A_PAGE, start, self._at)
            with about(self._url, name_of(self._apis.runtime, known)):
                found += bytes_list(page)
            if len(page) < KEYS_OF_A_PAGE:
                return {key: await self._value(known, key) for key in found}

    async def query(self, function: str, *arguments: Any) -> Any:
        """See `FinalReads`."""
        method = self._apis.methods[function]
        data = b"".join(codec.encode(argument) for (_, codec), argument in zip(method.inputs, arguments, strict=True))
        answer = await self._ask("state_call", function, "0x" + data.hex(), self._at)
        with about(self._url, function):
            return method.output.decode(bytes_of(answer))

    async def _value(self, item: StorageItem, key: bytes) -> Any:
        raw = await self._ask("state_getStorage", "0x" + key.hex(), self._at)
        with about(self._url, name_of(self._apis.runtime, item)):
            return value_of(item, None if raw is None else bytes_of(raw))
