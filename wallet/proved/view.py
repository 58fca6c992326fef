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

    def __init__(self, url: str, ask: AskNode, apis: Apis, block: FinalHeader) -> None:
        """Read the state after `block`."""
        self.block = block
        self._url = url
        self._ask_node = ask
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
        known = self._apis.runtime.item(item)
        return (await self._values(known, [storage_key(known, keys)]))[0]

    async def read_many(self, item: StorageItem, keys: Sequence[Any]) -> list[Any]:
        """Return the values of a map under several keys, in their order."""
        known = self._apis.runtime.item(item)
        return await self._values(known, [storage_key(known, (key,)) for key in keys])

    async def entries(self, item: StorageItem, *under: Any) -> dict[bytes, Any]:
        """Return every value of a map by storage key; of a double map those `under` a first key.

        The node's list of keys is a hint: the walk over the proof finds them all.
        """
        known = self._apis.runtime.item(item)
        matter = f"all of {name_of(self._apis.runtime, known)}"
        found: dict[bytes, Any] = {}
        size = 0
        async for state, keys in self._pages(prefix_of(known, under), matter):
            with about(self._url, matter):
                for key in keys:
                    raw = state.get(key) or b""
                    size += len(key) + len(raw)
                    require(size <= ENTRIES_BYTES_MAX, f"it shows more than {ENTRIES_BYTES_MAX:,} bytes of them")
                    found[key] = known.decode(raw)
        return found

    async def raw(self, keys: Sequence[bytes]) -> dict[bytes, bytes | None]:
        """Return the stored bytes under each of a few keys."""
        state = await self._proved(list(keys), "a value")
        with about(self._url, "a value"):
            return {key: state.get(key) for key in keys}

    async def raw_keys(self, prefix: bytes, most: int) -> list[bytes]:
        """Return all keys with a prefix, ascending, up to the page that exceeds `most`."""
        found: list[bytes] = []
        async for _, keys in self._pages(prefix, "a list"):
            found += keys
            if len(found) > most:
                break
        return found

    async def query(self, function: str, *arguments: Any) -> Any:
        """Return the answer of a declared runtime API: `query("OgpuApi_stakes", account)`."""
        method = self._apis.methods[function]
        data = b"".join(codec.encode(argument) for (_, codec), argument in zip(method.inputs, arguments, strict=True))
        answer = await self._ask("ogpu_callProof", function, "0x" + data.hex(), "0x" + self.block.id.hex())
        with about(self._url, function):
            state = ProvedState(self.block.header.state_root, proof_of(answer))
            return method.output.decode(self._apis.call(state, self.block.id, function, data))

    async def _ask(self, method: str, *parameters: NodeJson) -> NodeJson:
        try:
            return await self._ask_node(method, *parameters)
        except RpcError as error:
            # Height 0 means that the node claimed to have no final block.
            if self.height or STATE_IS_GONE not in str(error):
                raise
        with about(self._url, "the final block"):
            raise RefutedError("it says that there is none yet, and block 0 is so long ago that it dropped its state")

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

    async def _pages(self, prefix: bytes, matter: str) -> AsyncIterator[tuple[ProvedState, list[bytes]]]:
        """Yield the keys with a prefix, ascending, in pages, each with a proof that none is missing."""
        start = b""
        while True:
            after = "0x" + start.hex() if start else None
            asked = "0x" + prefix.hex(), KEYS_OF_A_PAGE, after, "0x" + self.block.id.hex()
            answer = await self._ask("state_getKeysPaged", *asked)
            with about(self._url, matter):
                listed = bytes_list(answer)
                require(
                    len(listed) <= KEYS_OF_A_PAGE, f"it lists {len(listed):,} keys where {KEYS_OF_A_PAGE} were asked"
                )
            last = listed[-1] if len(listed) == KEYS_OF_A_PAGE else None
            # The walk over the proof needs the page's edges too, to show that no key between them is missing.
            state = await self._proved([prefix, *([start] if start else []), *listed], matter)
            with about(self._url, matter):
                shown = list(_up_to(last, state.keys(prefix, start)))
                # Otherwise a node could keep this program busy with empty pages for ever.
                require(bool(shown) or last is None, "it lists keys that there are not")
            yield state, shown
            if last is None:
                return
            start = shown[-1]


def _up_to(last: bytes | None, keys: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the keys of one page; later ones need another proof."""
    for key in keys:
        yield key
        if last is not None and key >= last:
            return
