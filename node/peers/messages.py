"""Messages between nodes that bring blocks and handoffs to nodes without them, in SCALE with limits.

Invariant: an answer to `GetBlocks` is a list of blocks, oldest first, each the parent of the next. An answer to
`GetHandoffs` is a list of handoffs of consecutive epochs. Each fits into one message.
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
"""Room for the longest handoff: a header of 24 KiB, and signatures and seats of 128 members."""
# The rest holds the length prefixes of an answer's list and of its only block.
BLOCK_BYTES_MAX = MAX_BLOCK_PAYLOAD_BYTES - 16

Id = Annotated[bytes, Fixed(32)]


@struct
class GetBlocks:
    """Send `block` and its ancestors above height `above`, the oldest first, as many as fit."""

    block: Id
    above: U32


@struct
class GetHandoffs:
    """Send the handoffs of `from_epoch` and the epochs after it, `count` at most, as far as they exist."""

    from_epoch: U32
    count: U8


@struct
class PeerStatus:
    """The sender's preferred tip and its last final block."""

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
    """Return an answer with as many of the blocks as fit, at least one."""
    chosen: list[bytes] = []
    answer_bytes = 0
    for block_bytes in oldest_first:
        answer_bytes += len(block_bytes) + 4
        if chosen and (answer_bytes > ANSWER_BYTES_MAX or len(chosen) == BLOCKS_PER_ANSWER_MAX):
            break
        chosen.append(block_bytes)
    return BLOCKS.encode(tuple(chosen))
