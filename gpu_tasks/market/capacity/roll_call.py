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


def next_at(first: int, every: int, beacon: bytes) -> int:
    """Return the block of the roll call in the period of `every` blocks that begins at `first`.

    The beacon of the period's first block decides, so the block is unknown before that.
    """
    # The roll call must end within its period, so that periods never overlap.
    room = every - CALL_BLOCKS
    assert room > 0, "a roll call fits in its period"
    return first + 1 + int.from_bytes(beacon, "little") % room


def can_commit(call: RollCall, height: int) -> bool:
    """Return True if block `height` may hold commits."""
    return call.at + COMMITS_FROM <= height <= call.at + COMMITS_TO


def rows_at(call: RollCall) -> int:
    """Return the block whose beacon draws the rows."""
    return call.at + COMMITS_TO + ROWS_DELAY


def can_open(call: RollCall, height: int) -> bool:
    """Return True if block `height` may hold openings."""
    return rows_at(call) <= height <= rows_at(call) + OPEN_BLOCKS


def inspectors_at(call: RollCall) -> int:
    """Return the block whose beacon draws the inspectors, after the window of openings."""
    return rows_at(call) + OPEN_BLOCKS + 1


def can_object(call: RollCall, height: int) -> bool:
    """Return True if block `height` may hold objections."""
    return inspectors_at(call) <= height <= inspectors_at(call) + INSPECT_BLOCKS


def over_at(call: RollCall) -> int:
    """Return the block from which the proofs of a roll call count."""
    return inspectors_at(call) + INSPECT_BLOCKS + 1


def is_over(call: RollCall, height: int) -> bool:
    """Return True if the proofs of the roll call count."""
    return height >= over_at(call)


def rate(operations: int, from_slot: int, slot: int) -> int:
    """Return the throughput that a commit in `slot` proves, in 10^9 operations a slot, rounded down.

    The owner may have known the seed since the beginning of `from_slot`. This slot is the reason for the bound of 1.2
    instead of 1.
    """
    return operations // (max(COMMITS_FROM, slot - from_slot) * UNIT)
