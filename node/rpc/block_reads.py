"""How parameters find blocks, and how blocks look as JSON: shared by every namespace."""

from __future__ import annotations

from node.feed.client import FeedClient
from node.rpc.jsonrpc import CLIENT_ERROR, Json, JsonRpcError
from node.rpc.replica import BlockRecord, Replica, UnknownBlockError
from runtime.blocks.block import HEADER, Header
from runtime.blocks.digest import DIGEST_ITEM
from runtime.state.overlay import StateReader


class BlockReads:
    """Blocks and states, from the replica, or from the node where they are too old for it."""

    def __init__(self, replica: Replica, node: FeedClient) -> None:
        """Reads only."""
        self.replica = replica
        self.node = node

    @property
    def best(self) -> BlockRecord:
        """The best block: accepted, or final where nothing newer is."""
        if self.replica.best is None:
            raise JsonRpcError(CLIENT_ERROR, "Client error: the node is still starting")
        return self.replica.best

    @property
    def final(self) -> BlockRecord:
        """The last final block."""
        if self.replica.final is None:
            raise JsonRpcError(CLIENT_ERROR, "Client error: the node is still starting")
        return self.replica.final

    def reader(self, at: bytes | None) -> StateReader:
        """The state after block `at`, or after the best block."""
        try:
            return self.replica.reader(self.best.id if at is None else at)
        except UnknownBlockError as error:
            raise JsonRpcError(CLIENT_ERROR, f"Client error: UnknownBlock: {error}") from None

    async def find(self, block_id: bytes | None) -> BlockRecord | None:
        """A block with its extrinsics: the best one, or any that the node has."""
        block = self.best if block_id is None else self.replica.blocks.get(block_id)
        if block is not None and block.extrinsics is not None:
            return block
        wanted = block.id if block is not None else block_id
        found = await self.node.block_at(wanted) if wanted is not None else None
        if found is None or wanted is None:
            return None
        return BlockRecord(wanted, HEADER.decode(found[0]), tuple(found[1]))

    async def header(self, block_id: bytes | None) -> Header | None:
        """The sealed header of a block."""
        known = self.best if block_id is None else self.replica.blocks.get(block_id)
        if known is not None:
            return known.header
        found = await self.find(block_id)
        return None if found is None else found.header

    async def id_at(self, height: int) -> bytes | None:
        """The block id at `height` on the best chain."""
        if height > self.best.header.number:
            return None
        if height <= self.final.header.number:
            return self.replica.ancestor(self.final.id, height) or await self.node.id_at(height)
        return self.replica.ancestor(self.best.id, height)


def to_hex(data: bytes) -> str:
    """Bytes as JSON-RPC writes them."""
    return "0x" + data.hex()


def header_json(header: Header) -> Json:
    """A header as `chain_getHeader` gives it."""
    return {
        "parentHash": to_hex(header.parent_hash),
        "number": hex(header.number),
        "stateRoot": to_hex(header.state_root),
        "extrinsicsRoot": to_hex(header.extrinsics_root),
        "digest": {"logs": [to_hex(DIGEST_ITEM.encode(item)) for item in header.digest]},
    }
