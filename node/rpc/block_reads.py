"""Blocks for parameters, and blocks as JSON: shared by every namespace."""

from __future__ import annotations

from node.feed.client import FeedClient
from node.rpc.jsonrpc import CLIENT_ERROR, Json, JsonRpcError
from node.rpc.replica import BlockRecord, Replica, UnknownBlockError
from runtime.blocks.block import HEADER, Header
from runtime.blocks.digest import DIGEST_ITEM
from runtime.state.overlay import StateReader

UNKNOWN_TO_CALL = "Api called for an unknown Block"
OLD_IDS_MAX = 65_536  # recently requested heights below those that the replica keeps


class BlockReads:
    """Blocks and states, from the replica, or from the node if they are too old for it."""

    def __init__(self, replica: Replica, node: FeedClient) -> None:
        """Create it, for reading only."""
        self.replica = replica
        self.node = node
        self._old_ids_by_height: dict[int, bytes] = {}

    @property
    def best(self) -> BlockRecord:
        """The best block: the accepted one, or the final one if none is newer."""
        if self.replica.best is None:
            raise JsonRpcError(CLIENT_ERROR, "Client error: the node is still starting")
        return self.replica.best

    @property
    def final(self) -> BlockRecord:
        """The last final block."""
        if self.replica.final is None:
            raise JsonRpcError(CLIENT_ERROR, "Client error: the node is still starting")
        return self.replica.final

    async def reader(self, block_hash: bytes | None, failure_name: str = "UnknownBlock") -> StateReader:
        """Return the state after block `block_hash`, or after the best block.

        `failure_name` is Substrate's name for its absence. Public clients tell a discarded state from a mistake by
        these sentences. Raise `JsonRpcError` if there is no such state.
        """
        block_id = self.best.id if block_hash is None else block_hash
        try:
            return self.replica.reader(block_id)
        except UnknownBlockError:
            pass
        await self.require_known(block_id, failure_name)
        raise JsonRpcError(
            CLIENT_ERROR, f"Client error: {failure_name}: State already discarded for {to_hex(block_id)}"
        )

    async def require_known(self, block_id: bytes, failure_name: str = UNKNOWN_TO_CALL) -> None:
        """Raise `JsonRpcError` if the node does not have a block, whether or not its state is kept."""
        if await self.header(block_id) is None:
            error_text = f"Client error: {failure_name}: Header was not found in the database: {to_hex(block_id)}"
            raise JsonRpcError(CLIENT_ERROR, error_text)

    async def state_for_call(self, block_hash: bytes | None) -> tuple[StateReader, bytes]:
        """Return the state after block `block_hash` (or the best block), and its id, for an execution there."""
        block_id = self.best.id if block_hash is None else block_hash
        return await self.reader(block_id, UNKNOWN_TO_CALL), block_id

    async def find(self, block_id: bytes | None) -> BlockRecord | None:
        """Return a block with its extrinsics: the best one, or any that the node has."""
        kept_block = self.best if block_id is None else self.replica.blocks.get(block_id)
        if kept_block is not None and kept_block.extrinsics is not None:
            return kept_block
        wanted_id = kept_block.id if kept_block is not None else block_id
        header_and_extrinsics = await self.node.block_at(wanted_id) if wanted_id is not None else None
        if header_and_extrinsics is None or wanted_id is None:
            return None
        return BlockRecord(wanted_id, HEADER.decode(header_and_extrinsics[0]), tuple(header_and_extrinsics[1]))

    async def header(self, block_id: bytes | None) -> Header | None:
        """Return the sealed header of a block."""
        kept_block = self.best if block_id is None else self.replica.blocks.get(block_id)
        if kept_block is not None:
            return kept_block.header
        block = await self.find(block_id)
        return None if block is None else block.header

    async def id_at(self, height: int) -> bytes | None:
        """Return the block id at `height` on the best chain."""
        if height > self.best.header.number:
            return None
        known = self.replica.id_at(height) or self._old_ids_by_height.get(height)
        if known is None and height <= self.final.header.number:
            known = await self.node.id_at(height)
            if known is not None:  # final, so it never changes
                self._old_ids_by_height[height] = known
                if len(self._old_ids_by_height) > OLD_IDS_MAX:
                    self._old_ids_by_height.pop(next(iter(self._old_ids_by_height)))
        return known


def to_hex(raw_bytes: bytes) -> str:
    """Return bytes in JSON-RPC's form."""
    return "0x" + raw_bytes.hex()


def header_json(header: Header) -> Json:
    """Return a header in the form of `chain_getHeader`."""
    return {
        "parentHash": to_hex(header.parent_hash),
        "number": hex(header.number),
        "stateRoot": to_hex(header.state_root),
        "extrinsicsRoot": to_hex(header.extrinsics_root),
        "digest": {"logs": [to_hex(DIGEST_ITEM.encode(item)) for item in header.digest]},
    }
