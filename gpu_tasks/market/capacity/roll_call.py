"""The windows of a roll call, and the throughput that a commit proves.

    called (its beacon seeds) -> commits, from the fifth block on -> rows drawn -> shown -> inspectors drawn -> over

Invariants: heights only grow from left to right and are the same for every device, so no machine can answer for one
device after another. A proof is at most 1.2 times the computed work. The excess comes from the author of the seed's
block, which knows the seed one block early, while commits count from the fifth block on. Time is counted in slots, not
blocks, because an empty slot is time too.
"""

from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.types import BlockNumber, Hash

COMMITS_FROM, COMMITS_TO = 5, 10
"""The first and the last block of commits, counted from the seed's block."""
ROWS_DELAY = 2
"""Blocks between the last commit and the block whose beacon draws the rows. The beacon is unknown at the last commit.
"""
OPEN_BLOCKS, INSPECT_BLOCKS = 20, 40
CALL_BLOCKS = COMMITS_TO + ROWS_DELAY + OPEN_BLOCKS + INSPECT_BLOCKS + 2
"""Blocks from the seed's block to the one after the inspection."""
UNIT = 10**9
"""The unit of throughput: 10^9 operations a slot."""


@struct
class RollCall:
    """One roll call, of all devices that were enrolled before its block."""

    number: U32
    at: BlockNumber
    """The block whose beacon seeds it."""
    from_slot: U64
    """The slot after the previous block's. From it on, a block author may know the seed."""
    seed: Hash
    rows_seed: Hash = bytes(32)
    inspectors_seed: Hash = bytes(32)


def next_at(period_start: int, period_blocks: int, beacon: bytes) -> int:
    """Return the block of the roll call in the period of `period_blocks` blocks that begins at `period_start`.

    The beacon of the period's first block decides, so the block is unknown before that.
    """
    # The roll call must end within its period, so that periods never overlap.
    room = period_blocks - CALL_BLOCKS
    assert room > 0, "a roll call fits in its period"
    return period_start + 1 + int.from_bytes(beacon, "little") % room


def can_commit(roll_call: RollCall, height: int) -> bool:
    """Return True if block `height` may hold commits."""
    return roll_call.at + COMMITS_FROM <= height <= roll_call.at + COMMITS_TO


def rows_at(roll_call: RollCall) -> int:
    """Return the block whose beacon draws the rows."""
    return roll_call.at + COMMITS_TO + ROWS_DELAY


def can_open(roll_call: RollCall, height: int) -> bool:
    """Return True if block `height` may hold openings."""
    return rows_at(roll_call) <= height <= rows_at(roll_call) + OPEN_BLOCKS


def inspectors_at(roll_call: RollCall) -> int:
    """Return the block whose beacon draws the inspectors, after the window of openings."""
    return rows_at(roll_call) + OPEN_BLOCKS + 1


def can_object(roll_call: RollCall, height: int) -> bool:
    """Return True if block `height` may hold objections."""
    return inspectors_at(roll_call) <= height <= inspectors_at(roll_call) + INSPECT_BLOCKS


def over_at(roll_call: RollCall) -> int:
    """Return the block from which the proofs of a roll call count."""
    return inspectors_at(roll_call) + INSPECT_BLOCKS + 1


def is_over(roll_call: RollCall, height: int) -> bool:
    """Return True if the proofs of the roll call count."""
    return height >= over_at(roll_call)


def rate(operations: int, from_slot: int, commit_slot: int) -> int:
    """Return the throughput that a commit in `commit_slot` proves, in 10^9 operations a slot, rounded down.

    The owner may have known the seed since the beginning of `from_slot`. This slot is the reason for the bound of 1.2
    instead of 1.
    """
    return operations // (max(COMMITS_FROM, commit_slot - from_slot) * UNIT)
