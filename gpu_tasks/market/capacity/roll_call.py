"""The windows of a roll call, and the throughput that a proof states.

    called (its beacon seeds) -> proofs, from the fifth block on -> checks of the proofs -> over

Invariants: heights only grow from left to right and are the same for every device. Each proof counts the time of the
whole window, however early it comes, so a machine that computes for one device after another proves no more than for
one. All proofs of a machine are at most 1.2 times its rate. A tenth comes from the author of the seed's block, which
knows the seed one block early, another one from a single empty slot. Time is counted in slots, not blocks, because an
empty slot is time too.
"""

from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.types import BlockNumber, Hash

PROOFS_FROM, PROOFS_TO = 5, 10
"""The first and the last block of proofs, counted from the seed's block."""
CHECK_BLOCKS = 60
"""Blocks from the last proof until proofs count. Most checks are over by then. A later conviction ends a proof too."""
CALL_BLOCKS = PROOFS_TO + CHECK_BLOCKS + 1
"""Blocks from the seed's block to the one from which proofs count."""
UNIT = 10**9
"""The unit of throughput: 10^9 operations a slot."""


@struct
class RollCall:
    """One roll call, of all devices."""

    number: U32
    at: BlockNumber
    """The block whose beacon seeds it."""
    from_slot: U64
    """The slot after the previous block's. From it on, a block author may know the seed."""
    seed: Hash


def next_at(period_start: int, period_blocks: int, beacon: bytes) -> int:
    """Return the block of the roll call in the period of `period_blocks` blocks that begins at `period_start`.

    The beacon of the period's first block decides, so the block is unknown before that.
    """
    # The roll call must end within its period, so that periods never overlap.
    room = period_blocks - CALL_BLOCKS
    assert room > 0, "a roll call fits in its period"
    return period_start + 1 + int.from_bytes(beacon, "little") % room


def can_prove(roll_call: RollCall, height: int) -> bool:
    """Return True if block `height` may hold proofs."""
    return roll_call.at + PROOFS_FROM <= height <= roll_call.at + PROOFS_TO


def over_at(roll_call: RollCall) -> int:
    """Return the block from which the proofs of a roll call count."""
    return roll_call.at + CALL_BLOCKS


def is_over(roll_call: RollCall, height: int) -> bool:
    """Return True if the proofs of the roll call count."""
    return height >= over_at(roll_call)


def rate(operations: int, from_slot: int, proof_slot: int) -> int:
    """Return the throughput that a proof in `proof_slot` states, in 10^9 operations a slot, rounded down.

    A proof before the last block of proofs counts as if it came in that one: divided by its own time, proofs in the
    blocks 5, 6, ... 10 would add up to 1 + 1/6 + ... + 1/10 of a machine's rate.
    """
    return operations // (max(PROOFS_TO, proof_slot - from_slot) * UNIT)
