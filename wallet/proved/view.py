"""The state after one final block, with each read proved against that block's header.

This program's own runtime answers runtime APIs, over a proof of the call's reads. It does not ask for the node's
answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from runtime.frame.api import Apis
from runtime.frame.storage import StorageItem
from runtime.state.trie_proof import ProvedState
from wallet.proved.finality import FinalHeader
from wallet.proved.json_forms import NodeJson, bytes_list, proof_of
from wallet.proved.keys import name_of, prefix_of, storage_key, value_of
from wallet.proved.refutation import RefutedError, about, require
from wallet.rpc import RpcError

KEYS_OF_A_PROOF = 256
KEYS_OF_A_PAGE = 500
ENTRIES_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes of a list's keys and values, beside the proof of a page at a time: about 100,000 providers or devices.
"""

AskNode = Callable[..., Awaitable[NodeJson]]
"""`ask(method, *parameters)`: a call of the node's JSON-RPC."""
STATE_IS_GONE = "State already discarded"
"""A node's words for a block whose state it no longer keeps: public clients look for them."""


class ProvedView:
    """Reads of one final block. Each raises NodeRefutedError if the node does not prove it."""

    def __init__(self, url: str, ask_node: AskNode, apis: Apis, block: FinalHeader) -> None:
        """Read the state after `block`."""
        self.block = block
        self._url = url
        self._ask_node = ask_node
        self._apis = apis

    @property
    def block_id(self) -> bytes:
        """The block's id."""
        return self.block.id

    @property
    def height(self) -> int:
        """The block's number."""
        return self.block.header.number

    async def read(self, item: StorageItem, *keys: Any) -> Any:
        """Return the value of a storage item, or its default: `read(System.account, who)`."""
        compiled_item = self._apis.runtime.item(item)
        return (await self._values(compiled_item, [storage_key(compiled_item, keys)]))[0]

    async def read_many(self, item: StorageItem, keys: Sequence[Any]) -> list[Any]:
        """Return the values of a map under several keys, in their order."""
        compiled_item = self._apis.runtime.item(item)
        return await self._values(compiled_item, [storage_key(compiled_item, (map_key,)) for map_key in keys])

    async def entries(self, item: StorageItem, *under: Any) -> dict[bytes, Any]:
        """Return every value of a map by storage key; of a double map those `under` a first key.

        The node's list of keys is a hint: the walk over the proof finds them all.
        """
        compiled_item = self._apis.runtime.item(item)
        matter = f"all of {name_of(self._apis.runtime, compiled_item)}"
        found_entries: dict[bytes, Any] = {}
        total_bytes = 0
        async for proved_state, page_keys in self._pages(prefix_of(compiled_item, under), matter):
            with about(self._url, matter):
                for storage_key_bytes in page_keys:
                    encoded_value = proved_state.get(storage_key_bytes) or b""
                    total_bytes += len(storage_key_bytes) + len(encoded_value)
                    require(total_bytes <= ENTRIES_BYTES_MAX, f"it shows more than {ENTRIES_BYTES_MAX:,} bytes of them")
                    found_entries[storage_key_bytes] = compiled_item.decode(encoded_value)
        return found_entries

    async def raw(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Return the stored bytes under each of a few keys."""
        proved_state = await self._proved(list(keys), "a value")
        with about(self._url, "a value"):
            return {storage_key_bytes: proved_state.get(storage_key_bytes) for storage_key_bytes in keys}

    async def raw_keys(self, prefix: bytes, most: int) -> list[bytes]:
        """Return all keys with a prefix, ascending, up to the page that exceeds `most`."""
        collected_keys: list[bytes] = []
        async for _, page_keys in self._pages(prefix, "a list"):
            collected_keys += page_keys
            if len(collected_keys) > most:
                break
        return collected_keys

    async def query(self, function: str, *arguments: Any) -> Any:
        """Return the answer of a declared runtime API: `query("OgpuApi_stakes", account)`."""
        api_method = self._apis.methods[function]
        encoded_arguments = b"".join(
            argument_codec.encode(argument)
            for (_, argument_codec), argument in zip(api_method.inputs, arguments, strict=True)
        )
        answer = await self._ask("ogpu_callProof", function, "0x" + encoded_arguments.hex(), "0x" + self.block.id.hex())
        with about(self._url, function):
            proved_state = ProvedState(self.block.header.state_root, proof_of(answer))
            return api_method.output.decode(self._apis.call(proved_state, self.block.id, function, encoded_arguments))

    async def _ask(self, method: str, *parameters: NodeJson) -> NodeJson:
        try:
            return await self._ask_node(method, *parameters)
        except RpcError as error:
            # Height 0 means that the node claimed to have no final block.
            if self.height or STATE_IS_GONE not in str(error):
                raise
        with about(self._url, "the final block"):
            raise RefutedError("it says that there is none yet, and block 0 is so long ago that it dropped its state")

    async def _values(self, item: StorageItem, storage_keys: list[bytes]) -> list[Any]:
        matter = name_of(self._apis.runtime, item)
        proved_state = await self._proved(storage_keys, matter)
        with about(self._url, matter):
            return [value_of(item, proved_state.get(storage_key_bytes)) for storage_key_bytes in storage_keys]

    async def _proved(self, storage_keys: list[bytes], matter: str) -> ProvedState:
        trie_nodes: list[bytes] = []
        for first_index in range(0, len(storage_keys), KEYS_OF_A_PROOF):
            hex_keys = [
                "0x" + storage_key_bytes.hex()
                for storage_key_bytes in storage_keys[first_index : first_index + KEYS_OF_A_PROOF]
            ]
            answer = await self._ask("state_getReadProof", hex_keys, "0x" + self.block.id.hex())
            with about(self._url, matter):
                trie_nodes += proof_of(answer)
        with about(self._url, matter):
            return ProvedState(self.block.header.state_root, trie_nodes)

    async def _pages(self, prefix: bytes, matter: str) -> AsyncIterator[tuple[ProvedState, list[bytes]]]:
        """Yield the keys with a prefix, ascending, in pages, each with a proof that none is missing."""
        start_key = b""
        while True:
            after_hex = "0x" + start_key.hex() if start_key else None
            page_query = "0x" + prefix.hex(), KEYS_OF_A_PAGE, after_hex, "0x" + self.block.id.hex()
            answer = await self._ask("state_getKeysPaged", *page_query)
            with about(self._url, matter):
                listed_keys = bytes_list(answer)
                require(
                    len(listed_keys) <= KEYS_OF_A_PAGE,
                    f"it lists {len(listed_keys):,} keys where {KEYS_OF_A_PAGE} were asked",
                )
            last_key = listed_keys[-1] if len(listed_keys) == KEYS_OF_A_PAGE else None
            # The walk over the proof needs the page's edges too, to show that no key between them is missing.
            proved_state = await self._proved([prefix, *([start_key] if start_key else []), *listed_keys], matter)
            with about(self._url, matter):
                proved_keys = list(_up_to(last_key, proved_state.keys(prefix, start_key)))
                # Otherwise a node could keep this program busy with empty pages for ever.
                require(bool(proved_keys) or last_key is None, "it lists keys that there are not")
            yield proved_state, proved_keys
            if last_key is None:
                return
            start_key = proved_keys[-1]


def _up_to(last_key: bytes | None, proved_keys: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the keys of one page; later ones need another proof."""
    for proved_key in proved_keys:
        yield proved_key
        if last_key is not None and proved_key >= last_key:
            return
