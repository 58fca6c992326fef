"""When which part of a roll call is open, and what a commit proves.

    called (its beacon seeds) -> commits, from the fifth block on -> rows drawn -> shown -> inspectors drawn -> over

Always: heights only grow from left to right, and are the same for every device: nobody answers for one device after
another. What is proven is at most 1.2 times what was computed: who makes the block of the seed knows it a block before
the others, and a commit counts from the fifth block on. Slots are counted, not blocks: an empty slot is time too.
"""

from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.types import BlockNumber, Hash

COMMITS_FROM, COMMITS_TO = 5, 10
"""Blocks after the seed's in which a commit counts."""
ROWS_DELAY = 2
"""Blocks after the last commit whose beacon draws the rows: nobody knew it then."""
OPEN_BLOCKS, INSPECT_BLOCKS = 20, 40
CALL_BLOCKS = COMMITS_TO + ROWS_DELAY + OPEN_BLOCKS + INSPECT_BLOCKS + 2
"""From the seed's block to the one after the inspection."""
UNIT = 10**9
"""Throughput is counted in thousand millions of operations a slot."""


@struct
class RollCall:
    """One roll call, of all who were enrolled before its block."""

    number: U32
    at: BlockNumber
    """The block whose beacon seeds it."""
    from_slot: U64
    """The slot after that of the block before: from here on somebody may have known the seed."""
    seed: Hash
    rows_seed: Hash = bytes(32)
    inspectors_seed: Hash = bytes(32)


def next_at(first: int, every: int, beacon: bytes) -> int:
    """The block of the call in the period of `every` blocks that begins at `first`: nobody knows it before."""
    room = every - CALL_BLOCKS
    assert room > 0, "a period holds its roll call"
    return first + 1 + int.from_bytes(beacon, "little") % room


def can_commit(call: RollCall, height: int) -> bool:
    """Whether block `height` may hold commits."""
    return call.at + COMMITS_FROM <= height <= call.at + COMMITS_TO


def rows_at(call: RollCall) -> int:
    """The block whose beacon draws the rows."""
    return call.at + COMMITS_TO + ROWS_DELAY


def can_open(call: RollCall, height: int) -> bool:
    """Whether block `height` may hold openings."""
    return rows_at(call) <= height <= rows_at(call) + OPEN_BLOCKS


def inspectors_at(call: RollCall) -> int:
    """The block whose beacon draws the inspectors: all rows are open."""
    return rows_at(call) + OPEN_BLOCKS + 1


def can_object(call: RollCall, height: int) -> bool:
    """Whether block `height` may hold objections."""
    return inspectors_at(call) <= height <= inspectors_at(call) + INSPECT_BLOCKS


def over_at(call: RollCall) -> int:
    """The block from which what it proved stands."""
    return inspectors_at(call) + INSPECT_BLOCKS + 1


def is_over(call: RollCall, height: int) -> bool:
    """Whether what it proved stands."""
    return height >= over_at(call)


def rate(operations: int, from_slot: int, slot: int) -> int:
    """What a commit in `slot` proves, in thousand millions of operations a slot, rounded down.

    A slot that begins when the seed may have been known counts for the commit's owner: it is why 1.2 and not 1.
    """
    return operations // (max(COMMITS_FROM, slot - from_slot) * UNIT)
