"""How much a block may hold: weights, lengths, and the constants that clients read about them.

One unit of reference time is a picosecond on the reference machine (one core of a 2024 server, CPython 3.11).
Signatures, decoding and the extrinsic's share of the state root are in `EXTRINSIC_BASE`; a call adds its own work.
"""

from runtime.encoding.codec import U32, U64, struct
from runtime.encoding.types import DispatchClass, Weight

MICROSECOND = 1_000_000
BLOCK_MAX = Weight(1_000_000 * MICROSECOND, 16 * 1024 * 1024)
"""All extrinsics of a block; inherents are counted and never refused for it."""
NORMAL_PERCENT = 75
BLOCK_BASE = Weight(1_000 * MICROSECOND, 0)
EXTRINSIC_BASE = Weight(40 * MICROSECOND, 0)
BLOCK_LENGTH_MAX_BYTES = 5 * 1024 * 1024
EXTRINSIC_LENGTH_MAX_BYTES = 512 * 1024
"""Of an inherent; attestations are the long one."""
SIGNED_LENGTH_MAX_BYTES = 128 * 1024
"""Of a signed extrinsic: anybody may send one, and calls inside calls take up to a microsecond for every two bytes."""
EXTRINSICS_PER_BLOCK_MAX = 50_000


def work(reads: int = 0, writes: int = 0, microseconds: int = 0) -> Weight:
    """The weight of a call that touches so many entries and computes so long besides."""
    time = reads * DB_WEIGHT.read + writes * DB_WEIGHT.write + microseconds * MICROSECOND
    return Weight(time, 0)


def class_limit(kind: DispatchClass) -> Weight | None:
    """What all extrinsics of a class may weigh together with the others; None: no limit."""
    if kind is DispatchClass.Mandatory:
        return None
    if kind is DispatchClass.Operational:
        return BLOCK_MAX
    return Weight(BLOCK_MAX.ref_time * NORMAL_PERCENT // 100, BLOCK_MAX.proof_size * NORMAL_PERCENT // 100)


def length_limit(kind: DispatchClass) -> int:
    """Bytes of extrinsics up to which one of this class may be added."""
    share = NORMAL_PERCENT if kind is DispatchClass.Normal else 100
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
