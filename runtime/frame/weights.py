"""The limits of a block: weights, lengths, and the constants that clients read about them.

One unit of reference time is a picosecond on the reference machine, which verifies an ed25519 signature in `SIGNATURE`
(one core of a 2024 server, CPython 3.11). Weights are measured in signatures of the same run (`make weights`), so that
the tables do not depend on the machine. `EXTRINSIC_BASE` covers everything but the call: decoding and checking the
extrinsic, fee and nonce, its events, its share of both roots and of the disk.

A block's weight is the time of the one thread of a node that executes blocks. `BLOCK_MAX` is three quarters of the
shortest slot. The rest is for the block's way to the other nodes, and for votes. Signatures are not part of the weight:
a worker process checks them, mostly before the block arrives, and `EXTRINSICS_PER_BLOCK_MAX` bounds that time to half a
slot.

An author that withholds the transactions of a full block prevents this early check. Other nodes then execute the block
up to half a slot later, which costs the author as much as a missed slot.
"""

from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.types import DispatchClass, Weight
from runtime.frame.block_weights import WEIGHTS

MICROSECOND = 1_000_000
SIGNATURE = Weight(40 * MICROSECOND, 0)
"""The verification of one ed25519 signature, which defines the reference machine."""
BLOCK_MAX = Weight(750_000 * MICROSECOND, 16 * 1024 * 1024)
"""The most weight of a block's hooks, inherents and extrinsics together: 0.75 of a one-second slot."""
MANDATORY_MAX = Weight(600_000 * MICROSECOND, 0)
"""The most weight of a block's hooks and inherents, so that a fifth always remains for extrinsics. Weight meters keep
hooks within it. An inherent of a length that its author chooses is refused if there is no room for it."""
NORMAL_LENGTH_PERCENT = 75
BLOCK_BASE = WEIGHTS["block"]
"""The weight of an empty block: header, time, hooks of constant cost, roots, disk."""
EXTRINSIC_BASE = WEIGHTS["extrinsic"]
BLOCK_LENGTH_MAX_BYTES = 5 * 1024 * 1024
EXTRINSIC_LENGTH_MAX_BYTES = 512 * 1024
"""The most bytes of an inherent. Attestations are the long one."""
SIGNED_LENGTH_MAX_BYTES = 128 * 1024
"""The most bytes of a signed extrinsic. Anyone may send one, and nested calls take up to a microsecond for every two
bytes."""
EXTRINSICS_PER_BLOCK_MAX = 12_000
"""The most extrinsics of a block. A worker checks their signatures in half a slot: 12,000 x 40 us."""


def work(reads: int = 0, writes: int = 0, microseconds: int = 0) -> Weight:
    """Return the weight of a call with these reads and writes of entries, and this much other computation."""
    time = reads * DB_WEIGHT.read + writes * DB_WEIGHT.write + microseconds * MICROSECOND
    return Weight(time, 0)


def class_limit(dispatch_class: DispatchClass) -> Weight | None:
    """Return the weight up to which an extrinsic of a class fits, other classes included. None means no limit."""
    # Without its inherents a block is invalid, so their class has no shared limit.
    return None if dispatch_class is DispatchClass.Mandatory else BLOCK_MAX


def length_limit(dispatch_class: DispatchClass) -> int:
    """Return the total bytes of a block's extrinsics up to which one of this class may be added."""
    # Ordinary transactions leave a quarter of the bytes to other classes, attestations above all.
    share = NORMAL_LENGTH_PERCENT if dispatch_class is DispatchClass.Normal else 100
    return BLOCK_LENGTH_MAX_BYTES * share // 100


@struct(path="sp_weights::RuntimeDbWeight")
class DbWeight:
    """The reference time of one read and of one write."""

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
    """The weight limits of a block."""

    base_block: Weight
    max_block: Weight
    per_class: WeightsOfClasses


@struct(path="frame_support::dispatch::PerDispatchClass", params={"T": U32})
class LengthsOfClasses:
    """The most bytes of a block for adding one extrinsic of each class."""

    normal: U32
    operational: U32
    mandatory: U32


@struct(path="frame_system::limits::BlockLength")
class BlockLength:
    """The most bytes of extrinsics of a block."""

    max: LengthsOfClasses


def _limits(dispatch_class: DispatchClass) -> WeightsPerClass:
    return WeightsPerClass(EXTRINSIC_BASE, class_limit(dispatch_class), class_limit(dispatch_class), None)


BLOCK_WEIGHTS = BlockWeights(BLOCK_BASE, BLOCK_MAX, WeightsOfClasses(*(_limits(kind) for kind in DispatchClass)))
BLOCK_LENGTH = BlockLength(LengthsOfClasses(*(length_limit(kind) for kind in DispatchClass)))
DB_WEIGHT = DbWeight(2 * MICROSECOND, 6 * MICROSECOND)
