"""The state after one final block, each read proved against that block's header.

A runtime API is answered here, by the runtime that this program holds, over a proof of what the call reads: the node's
own answer is not asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from runtime.frame.api import Apis
from runtime.frame.storage import StorageItem
from runtime.state.trie_proof import ProvedState
from wallet.proved.finality import FinalHeader
from wallet.proved.json_forms import NodeJson, bytes_list, proof_of
from wallet.proved.keys import name_of, prefix_of, storage_key, value_of
from wallet.proved.refutation import RefutedError, about

KEYS_OF_A_PROOF = 256
KEYS_OF_A_PAGE = 500
ENTRIES_MAX = 16_384

AskNode = Callable[..., Awaitable[NodeJson]]
"""`ask(method, *parameters)`: a call of the node's JSON-RPC."""


class ProvedView:
    """Every read is of one final block; NodeRefutedError for what the node does not show."""

    def __init__(self, url: str, ask: AskNode, apis: Apis, block: FinalHeader) -> None:
        """For the state after `block`."""
        self.block = block
        self._url = url
        self._ask = ask
        self._apis = apis

    @property
    def block_id(self) -> bytes:
        """Which block."""
        return self.block.id

    @property
    def height(self) -> int:
        """Its number."""
        return self.block.header.number

    async def read(self, item: StorageItem, *keys: Any) -> Any:
        """The value of a storage item, its default where nothing is stored: `read(System.account, who)`."""
        known = self._apis.runtime.item(item)
        return (await self._values(known, [storage_key(known, keys)]))[0]

    async def read_many(self, item: StorageItem, keys: Sequence[Any]) -> list[Any]:
        """The values of a map under several keys, in their order."""
        known = self._apis.runtime.item(item)
        return await self._values(known, [storage_key(known, (key,)) for key in keys])

    async def entries(self, item: StorageItem, *under: Any) -> dict[bytes, Any]:
        """Every value of a map by storage key, none left out; of a double map those `under` a first key.

        The node's list of keys is a hint: the walk over the proof says which there are.
        """
        known = self._apis.runtime.item(item)
        matter = f"all of {name_of(self._apis.runtime, known)}"
        prefix = prefix_of(known, under)
        listed = await self._listed(prefix, matter)
        state = await self._proved([prefix, *listed], matter)
        with about(self._url, matter):
            return {key: known.decode(state.get(key) or b"") for key in state.keys(prefix)}

    async def raw(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """What is stored under each of a few keys."""
        state = await self._proved(list(keys), "a value")
        with about(self._url, "a value"):
            return {key: state.get(key) for key in keys}

    async def raw_keys(self, prefix: bytes) -> list[bytes]:
        """The keys that begin so, ascending, none left out."""
        state = await self._proved([prefix, *await self._listed(prefix, "a list")], "a list")
        with about(self._url, "a list"):
            return list(state.keys(prefix))

    async def query(self, function: str, *arguments: Any) -> Any:
        """The answer of a declared runtime API: `query("OgpuApi_stakes", account)`."""
        method = self._apis.methods[function]
        data = b"".join(codec.encode(argument) for (_, codec), argument in zip(method.inputs, arguments, strict=True))
        answer = await self._ask("ogpu_callProof", function, "0x" + data.hex(), "0x" + self.block.id.hex())
        with about(self._url, function):
            state = ProvedState(self.block.header.state_root, proof_of(answer))
            return method.output.decode(self._apis.call(state, self.block.id, function, data))

    async def _values(self, item: StorageItem, keys: list[bytes]) -> list[Any]:
        matter = name_of(self._apis.runtime, item)
        state = await self._proved(keys, matter)
        with about(self._url, matter):
            return [value_of(item, state.get(key)) for key in keys]

    async def _proved(self, keys: list[bytes], matter: str) -> ProvedState:
        nodes: list[bytes] = []
        for start in range(0, len(keys), KEYS_OF_A_PROOF):
            asked = ["0x" + key.hex() for key in keys[start : start + KEYS_OF_A_PROOF]]
            answer = await self._ask("state_getReadProof", asked, "0x" + self.block.id.hex())
            with about(self._url, matter):
                nodes += proof_of(answer)
        with about(self._url, matter):
            return ProvedState(self.block.header.state_root, nodes)

    async def _listed(self, prefix: bytes, matter: str) -> list[bytes]:
        found: list[bytes] = []
        while True:
            start = "0x" + found[-1].hex() if found else None
            at = "0x" + self.block.id.hex()
            answer = await self._ask("state_getKeysPaged", "0x" + prefix.hex(), KEYS_OF_A_PAGE, start, at)
            with about(self._url, matter):
                page = bytes_list(answer)
                found += page
                if len(found) > ENTRIES_MAX:
                    raise RefutedError(f"it lists more than {ENTRIES_MAX:,} entries")
            if len(page) < KEYS_OF_A_PAGE:
                return found
