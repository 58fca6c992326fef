"""How much a block may hold: weights, lengths, and the constants that clients read about them.

One unit of reference time is a picosecond on the reference machine, which verifies an ed25519 signature in `SIGNATURE`
(one core of a 2024 server, CPython 3.11). Weights are measured in signatures of the same run (`make weights`), so that
the tables do not depend on the machine. `EXTRINSIC_BASE` is everything that is not the call: opening and checking the
extrinsic, fee and nonce, its events, its share of both roots and of the disk.

A block weighs what it takes the one thread of a node that executes blocks, and `BLOCK_MAX` is three quarters of the
shortest slot: the rest is for the block to travel, and for votes. Signatures are no part of that: a worker process
checks them, mostly before the block is there, and `EXTRINSICS_PER_BLOCK_MAX` bounds what that takes to half a slot. Who
withholds what he puts into a full block has it executed by others up to so much later, and loses by it what he would by
missing his slot.
"""

from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.types import DispatchClass, Weight
from runtime.frame.block_weights import WEIGHTS

MICROSECOND = 1_000_000
SIGNATURE = Weight(40 * MICROSECOND, 0)
"""One ed25519 signature verified: what the reference machine is."""
BLOCK_MAX = Weight(750_000 * MICROSECOND, 16 * 1024 * 1024)
"""Hooks, inherents and extrinsics of a block together: 0.75 of a slot of a second."""
MANDATORY_MAX = Weight(600_000 * MICROSECOND, 0)
"""Hooks and inherents of a block: extrinsics have a fifth of it, whatever happens. Hooks keep to it by their
budgets, and an inherent whose author chooses its length by refusing what there is no room for."""
NORMAL_LENGTH_PERCENT = 75
BLOCK_BASE = WEIGHTS["block"]
"""An empty block: header, time, the hooks that always do the same, roots, disk."""
EXTRINSIC_BASE = WEIGHTS["extrinsic"]
BLOCK_LENGTH_MAX_BYTES = 5 * 1024 * 1024
EXTRINSIC_LENGTH_MAX_BYTES = 512 * 1024
"""Of an inherent; attestations are the long one."""
SIGNED_LENGTH_MAX_BYTES = 128 * 1024
"""Of a signed extrinsic: anybody may send one, and calls inside calls take up to a microsecond for every two bytes."""
EXTRINSICS_PER_BLOCK_MAX = 12_000
"""Checking the signatures of so many takes a worker half a slot: 12,000 x 40 us."""


def work(reads: int = 0, writes: int = 0, microseconds: int = 0) -> Weight:
    """The weight of a call that touches so many entries and computes so long besides."""
    time = reads * DB_WEIGHT.read + writes * DB_WEIGHT.write + microseconds * MICROSECOND
    return Weight(time, 0)


def class_limit(kind: DispatchClass) -> Weight | None:
    """What all extrinsics of a class may weigh together with the others; None: no limit."""
    return None if kind is DispatchClass.Mandatory else BLOCK_MAX


def length_limit(kind: DispatchClass) -> int:
    """Bytes of extrinsics up to which one of this class may be added."""
    share = NORMAL_LENGTH_PERCENT if kind is DispatchClass.Normal else 100
    return BLOCK_LENGTH_MAX_BYTES * share // 100


@struct(path="sp_weights::RuntimeDbWeight")
class DbWeight:
    """Reference time of one read and of one write."""

    read: U64
    write: U64


@struct(path="frame_system::limits::WeightsPerClass")
class WeightsPerClass:
    """Limits of one class of calls."""

    base_extrinsic: Weight
    max_extrinsic: Weight | None
    max_total: Weight | None
    reserved: Weight | None


@struct(path="frame_support::dispatch::PerDispatchClass", params={"T": WeightsPerClass})
class WeightsOfClasses:
    """Limits of every class of calls."""

    normal: WeightsPerClass
    operational: WeightsPerClass
    mandatory: WeightsPerClass


@struct(path="frame_system::limits::BlockWeights")
class BlockWeights:
    """What a block may weigh."""

    base_block: Weight
    max_block: Weight
    per_class: WeightsOfClasses


@struct(path="frame_support::dispatch::PerDispatchClass", params={"T": U32})
class LengthsOfClasses:
    """Bytes that a block may hold when one of each class is added."""

    normal: U32
    operational: U32
    mandatory: U32


@struct(path="frame_system::limits::BlockLength")
class BlockLength:
    """How many bytes of extrinsics a block may hold."""

    max: LengthsOfClasses


def _limits(kind: DispatchClass) -> WeightsPerClass:
    return WeightsPerClass(EXTRINSIC_BASE, class_limit(kind), class_limit(kind), None)


BLOCK_WEIGHTS = BlockWeights(BLOCK_BASE, BLOCK_MAX, WeightsOfClasses(*(_limits(kind) for kind in DispatchClass)))
BLOCK_LENGTH = BlockLength(LengthsOfClasses(*(length_limit(kind) for kind in DispatchClass)))
DB_WEIGHT = DbWeight(2 * MICROSECOND, 6 * MICROSECOND)
