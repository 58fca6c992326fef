"""`chain_*`: blocks, headers and the streams of them."""

from __future__ import annotations

from node.rpc.block_reads import BlockReads, header_json, to_hex
from node.rpc.jsonrpc import INVALID_PARAMS, Json, JsonRpcError
from node.rpc.registry import HashParameter, method, subscription
from node.rpc.replica import BlockRecord
from node.rpc.subscriptions.shared_items import SharedItems

MAX_NUMBERS = 1000


class ChainMethods:
    """Reads of blocks."""

    def __init__(self, blocks: BlockReads) -> None:
        """Create it over `blocks`."""
        self.blocks = blocks
        replica = blocks.replica
        self._new_heads = SharedItems(replica.new_best, lambda: blocks.best, _id_of, _head_json)
        self._all_heads = SharedItems(replica.imported, lambda: blocks.best, _id_of, _head_json)
        self._finalized_heads = SharedItems(replica.finalised, lambda: blocks.final, _id_of, _head_json)

    @method("chain_getBlockHash", "chain_getHead")
    async def block_hash(self, number: list[int] | int | None) -> Json:
        """Return the id of the block at a height, of several, or of the best block."""
        if number is None:
            return to_hex(self.blocks.best.id)
        if isinstance(number, list):
            if len(number) > MAX_NUMBERS:
                raise JsonRpcError(INVALID_PARAMS, "Invalid params", f"at most {MAX_NUMBERS} heights")
            return [await self._hash_at(height) for height in number]
        return await self._hash_at(number)

    @method("chain_getFinalizedHead", "chain_getFinalisedHead")
    def finalized_head(self) -> Json:
        """Return the id of the last final block."""
        return to_hex(self.blocks.final.id)

    @method("chain_getHeader")
    async def header(self, at: HashParameter | None) -> Json:
        """Return a header; null if there is no such block."""
        found_header = await self.blocks.header(at)
        return None if found_header is None else header_json(found_header)

    @method("chain_getBlock")
    async def block(self, at: HashParameter | None) -> Json:
        """Return a block; null if there is none."""
        found_block = await self.blocks.find(at)
        if found_block is None or found_block.extrinsics is None:
            return None
        body = {
            "header": header_json(found_block.header),
            "extrinsics": [to_hex(extrinsic) for extrinsic in found_block.extrinsics],
        }
        return {"block": body, "justifications": None}

    @subscription(
        "chain_subscribeNewHeads", "chain_subscribeNewHead", "subscribe_newHead",
        notification="chain_newHead",
        unsubscribe=("chain_unsubscribeNewHeads", "chain_unsubscribeNewHead", "unsubscribe_newHead"),
    )  # fmt: skip
    def new_heads(self) -> SharedItems[BlockRecord]:
        """Send every new best header, beginning with the present one."""
        return self._new_heads

    @subscription("chain_subscribeAllHeads", notification="chain_allHead", unsubscribe=("chain_unsubscribeAllHeads",))
    def all_heads(self) -> SharedItems[BlockRecord]:
        """Send every imported header, those of losing branches too."""
        return self._all_heads

    @subscription(
        "chain_subscribeFinalizedHeads", "chain_subscribeFinalisedHeads",
        notification="chain_finalizedHead",
        unsubscribe=("chain_unsubscribeFinalizedHeads", "chain_unsubscribeFinalisedHeads"),
    )  # fmt: skip
    def finalized_heads(self) -> SharedItems[BlockRecord]:
        """Send every final header without a gap, beginning with the present one."""
        return self._finalized_heads

    async def _hash_at(self, height: int) -> Json:
        block_id = await self.blocks.id_at(height)
        return None if block_id is None else to_hex(block_id)


def _id_of(block: BlockRecord) -> bytes:
    return block.id


def _head_json(block: BlockRecord) -> Json:
    return header_json(block.header)
