"""What nodes say to each other to bring blocks and handoffs to whoever lacks them, in SCALE with limits.

Invariant: an answer to `GetBlocks` is a list of blocks, oldest first, each the parent of the next; one to
`GetHandoffs` is a list of handoffs of epochs one after the other; each fits into one message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from node.p2p.frames import MAX_BLOCK_PAYLOAD_BYTES
from runtime.encoding.codec import U8, U32, Bounded, Codec, Fixed, codec, struct

BLOCKS_PER_ANSWER_MAX = 64
ANSWER_BYTES_MAX = 1024 * 1024
HANDOFFS_PER_ANSWER_MAX = 16
HANDOFF_BYTES_MAX = ANSWER_BYTES_MAX // HANDOFFS_PER_ANSWER_MAX
"""Room for the longest: a header of 24 KiB, and signatures and seats of 128 members."""
BLOCK_BYTES_MAX = MAX_BLOCK_PAYLOAD_BYTES - 16

Id = Annotated[bytes, Fixed(32)]


@struct
class GetBlocks:
    """Send `block` and those of its ancestors above height `above`, the oldest first, as many as fit."""

    block: Id
    above: U32


@struct
class GetHandoffs:
    """Send what the last blocks of `from_epoch` and the next epochs hand on: `count` of them, as many as are there."""

    from_epoch: U32
    count: U8


@struct
class PeerStatus:
    """Where the sender stands: its preferred tip and its last final block."""

    tip: Id
    tip_height: U32
    final: Id
    final_height: U32


GET_BLOCKS: Codec[GetBlocks] = codec(GetBlocks)
STATUS: Codec[PeerStatus] = codec(PeerStatus)
BLOCKS: Codec[tuple[bytes, ...]] = codec(
    Annotated[tuple[Annotated[bytes, Bounded(BLOCK_BYTES_MAX)], ...], Bounded(BLOCKS_PER_ANSWER_MAX)]
)


GET_HANDOFFS: Codec[GetHandoffs] = codec(GetHandoffs)
HANDOFFS: Codec[tuple[bytes, ...]] = codec(
    Annotated[tuple[Annotated[bytes, Bounded(HANDOFF_BYTES_MAX)], ...], Bounded(HANDOFFS_PER_ANSWER_MAX)]
)


def encode_answer(oldest_first: Iterable[bytes]) -> bytes:
    """As many of the blocks as fit, at least one."""
    chosen: list[bytes] = []
    size = 0
    for block in oldest_first:
        size += len(block) + 4
        if chosen and (size > ANSWER_BYTES_MAX or len(chosen) == BLOCKS_PER_ANSWER_MAX):
            break
        chosen.append(block)
    return BLOCKS.encode(tuple(chosen))
