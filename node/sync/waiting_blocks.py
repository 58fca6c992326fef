"""Room for waiting blocks: each peer has a share, so its blocks do not push out those of another.

Invariant: only the header of a waiting block is decoded. Each peer holds at most its share of blocks and bytes, and all
together at most the room. Blocks beyond the room leave from the peer that holds the most bytes. The peers take turns,
and a peer's oldest block comes first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from consensus.events import BlockFacts
from runtime.blocks.block import Header

Peer: TypeAlias = bytes


@dataclass(frozen=True, slots=True)
class Waiting:
    """A received block: `facts` are set once its header was valid, and its body starts at `body_start`."""

    block_id: bytes
    header: Header
    data: bytes
    body_start: int
    peer: Peer
    facts: BlockFacts | None = None


class Room:
    """A bounded number of waiting blocks."""

    def __init__(self, *, peer_count_max: int, peer_bytes_max: int, bytes_max: int) -> None:
        self._peer_count_max = peer_count_max
        self._peer_bytes_max = peer_bytes_max
        self._bytes_max = bytes_max
        self._blocks_by_peer: OrderedDict[Peer, OrderedDict[bytes, Waiting]] = OrderedDict()
        self._peer_bytes: dict[Peer, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._blocks_by_peer.values()))

    def __iter__(self) -> Iterator[Waiting]:
        for blocks in self._blocks_by_peer.values():
            yield from blocks.values()

    def __contains__(self, block_id: bytes) -> bool:
        return any(block_id in blocks for blocks in self._blocks_by_peer.values())

    def get(self, block_id: bytes) -> Waiting | None:
        """Return one copy of a block, from any peer."""
        return next((blocks[block_id] for blocks in self._blocks_by_peer.values() if block_id in blocks), None)

    def add(self, new_block: Waiting) -> bool:
        """Add a block; False if its peer has no room, or the same bytes wait already."""
        # One copy for each peer: the id covers the header alone, and a wrong body must not keep the right one out.
        for blocks in self._blocks_by_peer.values():
            known = blocks.get(new_block.block_id)
            if known is not None and (known.peer == new_block.peer or known.data == new_block.data):
                return False
        held = self._peer_bytes.get(new_block.peer, 0)
        if len(self._blocks_by_peer.get(new_block.peer, ())) >= self._peer_count_max:
            return False
        if held + len(new_block.data) > self._peer_bytes_max:
            return False
        self._blocks_by_peer.setdefault(new_block.peer, OrderedDict())[new_block.block_id] = new_block
        self._peer_bytes[new_block.peer] = held + len(new_block.data)
        while sum(self._peer_bytes.values()) > self._bytes_max:
            greediest_peer = max(self._peer_bytes, key=lambda peer: self._peer_bytes[peer])
            self._remove_block(next(reversed(self._blocks_by_peer[greediest_peer].values())))
        return True

    def next(self) -> Waiting | None:
        """Return the block that `take` would return; None if there is none."""
        return next(iter(self), None)

    def take(self) -> Waiting:
        """Remove and return the next block: the oldest of the peer whose turn it is."""
        peer, blocks = next(iter(self._blocks_by_peer.items()))
        taken_block = next(iter(blocks.values()))
        self._remove_block(taken_block)
        if peer in self._blocks_by_peer:
            self._blocks_by_peer.move_to_end(peer)
        return taken_block

    def take_children(self, parent_id: bytes) -> list[Waiting]:
        """Remove and return the blocks that waited for `parent_id`."""
        return self._take_out([block for block in self if block.header.parent_hash == parent_id])

    def take_all(self) -> list[Waiting]:
        """Remove and return all blocks."""
        return self._take_out(list(self))

    def forget_to(self, height: int) -> None:
        """Drop blocks at or below `height`."""
        self._take_out([block for block in self if block.header.number <= height])

    def forget_peer(self, peer: Peer) -> None:
        """Drop a peer's blocks."""
        self._blocks_by_peer.pop(peer, None)
        self._peer_bytes.pop(peer, None)

    def missing_ancestor(self, block_id: bytes) -> bytes:
        """Return the lowest block that has to be fetched: all blocks above it, up to `block_id`, are here."""
        while (block := self.get(block_id)) is not None:
            block_id = block.header.parent_hash
        return block_id

    def _take_out(self, blocks: list[Waiting]) -> list[Waiting]:
        for taken_block in blocks:
            self._remove_block(taken_block)
        return blocks

    def _remove_block(self, block: Waiting) -> None:
        blocks = self._blocks_by_peer[block.peer]
        del blocks[block.block_id]
        self._peer_bytes[block.peer] -= len(block.data)
        if not blocks:
            self.forget_peer(block.peer)
