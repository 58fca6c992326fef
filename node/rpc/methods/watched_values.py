"""What one subscription to storage keeps, and tells.

Always: for each block it reports once the keys that the block wrote, equal values included, and the keys whose values
differ from the last report. It keeps only a number of a reported value, however long the value is. No turn reads more
than `READ_AT_ONCE` keys or writes much more than `PIECE_BYTES`. It reads only as much as the client has room for.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial

from node.rpc.block_reads import BlockReads, to_hex
from node.rpc.replica import BlockRecord
from node.rpc.subscriptions.feeder import PIECE_BYTES
from node.rpc.subscriptions.long_items import LongItem

READ_AT_ONCE = 256
"""Keys in one turn, at most some 10 us each far below a final block."""
TOLD_BLOCKS = 32
"""Blocks that a subscription remembers, in case the best chain goes back to them: more than lie above a final one."""


class WatchedValues:
    """Keys, and what was told of them last."""

    def __init__(self, blocks: BlockReads, keys: Sequence[bytes]) -> None:
        """Nothing is told yet; a key that is named twice is read once."""
        self._blocks = blocks
        self._keys = tuple(dict.fromkeys(keys))
        # Python's own hash of a value, with a secret key of this process: 8 bytes that nobody can make equal.
        self._told = array("q")
        self._told_blocks: tuple[bytes, ...] = ()

    async def items(self) -> AsyncIterator[LongItem]:
        """Yield all values, then those that each best block wrote."""
        news = self._blocks.replica.new_best.listen()
        yield LongItem(partial(self.pieces, self._blocks.best))
        async for block in news:  # each, also when several came at once: events of a block are in its own state only
            yield LongItem(partial(self.pieces, block))

    async def pieces(self, block: BlockRecord) -> AsyncGenerator[str, None]:
        """Yield a block's written values, and those that differ from the last report, as a change set in JSON."""
        begin, place = f'{{"block":"{to_hex(block.id)}","changes":[', 0
        written = self._news_of(block)
        is_begun = not self._told
        if is_begun:
            yield begin
        separator = ""
        while place < len(self._keys):
            if place:
                await asyncio.sleep(0)  # a turn for others
            place, changes = await self._read(block.id, place, written)
            if changes:
                yield ("" if is_begun else begin) + separator + ",".join(changes)
                is_begun, separator = True, ","
        if is_begun:
            yield "]}"

    def _news_of(self, block: BlockRecord) -> set[bytes]:
        """Return the watched keys that a block wrote; none for a block to which the best chain goes back."""
        if block.id in self._told_blocks:
            return set()
        self._told_blocks = (*self._told_blocks[1 - TOLD_BLOCKS :], block.id)
        written = self._blocks.replica.written(block)
        # A client that reads slowly keeps these keys, not the block's values.
        return {key for key in self._keys if key in written}

    async def _read(self, block_id: bytes, place: int, written: set[bytes]) -> tuple[int, list[str]]:
        """From `place` on, as much as one turn may take: how far it came, and what changed."""
        reader, told, size = await self._blocks.reader(block_id), self._told, 0
        changes: list[str] = []
        for key in self._keys[place : place + READ_AT_ONCE]:
            value = reader.get(key)
            mark = hash(value)
            if place == len(told):
                told.append(mark)
            elif told[place] == mark and key not in written:
                place += 1
                continue
            told[place] = mark
            place += 1
            text = "null" if value is None else f'"{to_hex(value)}"'
            changes.append(f'["{to_hex(key)}",{text}]')
            size += len(changes[-1])
            if size >= PIECE_BYTES:
                break
        return place, changes
