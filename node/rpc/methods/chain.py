"""`chain_*`: blocks, headers and the streams of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from node.rpc.block_reads import BlockReads, header_json, to_hex
from node.rpc.broadcast import Publisher
from node.rpc.jsonrpc import INVALID_PARAMS, Json, JsonRpcError
from node.rpc.registry import HashParameter, method, subscription
from node.rpc.replica import BlockRecord

MAX_NUMBERS = 1000


class ChainMethods:
    """Reads of blocks."""

    def __init__(self, blocks: BlockReads) -> None:
        """Reads from `blocks`."""
        self.blocks = blocks

    @method("chain_getBlockHash", "chain_getHead")
    async def block_hash(self, number: list[int] | int | None) -> Json:
        """The id of the block at a height, of several, or of the best block."""
        if number is None:
            return to_hex(self.blocks.best.id)
        if isinstance(number, list):
            if len(number) > MAX_NUMBERS:
                raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"at most {MAX_NUMBERS} heights")
            return [await self._hash_at(height) for height in number]
        return await self._hash_at(number)

    @method("chain_getFinalizedHead", "chain_getFinalisedHead")
    def finalized_head(self) -> Json:
        """The id of the last final block."""
        return to_hex(self.blocks.final.id)

    @method("chain_getHeader")
    async def header(self, at: HashParameter | None) -> Json:
        """A header; null where there is no such block."""
        header = await self.blocks.header(at)
        return None if header is None else header_json(header)

    @method("chain_getBlock")
    async def block(self, at: HashParameter | None) -> Json:
        """A block; null where there is none."""
        block = await self.blocks.find(at)
        if block is None or block.extrinsics is None:
            return None
        body = {"header": header_json(block.header), "extrinsics": [to_hex(item) for item in block.extrinsics]}
        return {"block": body, "justifications": None}

    @subscription(
        "chain_subscribeNewHeads", "chain_subscribeNewHead", "subscribe_newHead",
        notification="chain_newHead",
        unsubscribe=("chain_unsubscribeNewHeads", "chain_unsubscribeNewHead", "unsubscribe_newHead"),
    )  # fmt: skip
    async def new_heads(self) -> AsyncIterator[Json]:
        """Every new best header, beginning with the present one."""
        async for item in _headers(self.blocks.best, self.blocks.replica.new_best):
            yield item

    @subscription("chain_subscribeAllHeads", notification="chain_allHead", unsubscribe=("chain_unsubscribeAllHeads",))
    async def all_heads(self) -> AsyncIterator[Json]:
        """Every imported header, of losing branches too."""
        async for item in _headers(self.blocks.best, self.blocks.replica.imported):
            yield item

    @subscription(
        "chain_subscribeFinalizedHeads", "chain_subscribeFinalisedHeads",
        notification="chain_finalizedHead",
        unsubscribe=("chain_unsubscribeFinalizedHeads", "chain_unsubscribeFinalisedHeads"),
    )  # fmt: skip
    async def finalized_heads(self) -> AsyncIterator[Json]:
        """Every final header, none left out, beginning with the present one."""
        async for item in _headers(self.blocks.final, self.blocks.replica.finalised):
            yield item

    async def _hash_at(self, height: int) -> Json:
        block_id = await self.blocks.id_at(height)
        return None if block_id is None else to_hex(block_id)


async def _headers(first: BlockRecord, rest: Publisher[BlockRecord]) -> AsyncIterator[Json]:
    news = rest.listen()
    yield header_json(first.header)
    async for block in news:
        yield header_json(block.header)
