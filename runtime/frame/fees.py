"""What an extrinsic costs, in grains: base + length + multiplier x weight, and a tip on top.

The multiplier is a fixed-point number of 18 decimals. It moves by at most an eighth from block to block: up when a
block is fuller than half of what it may hold, down to one otherwise (the rule of EIP-1559, on weight and length).
"""

from runtime.encoding.codec import struct
from runtime.encoding.marks import record
from runtime.encoding.types import U64_MAX, Balance, DispatchClass, Weight
from runtime.frame.weights import class_limit, length_limit

BASE_FEE = 2_000
BYTE_FEE = 10
PICOSECONDS_PER_GRAIN = 100_000
MULTIPLIER_ONE = 10**18
MULTIPLIER_MAX = 10**6 * MULTIPLIER_ONE
CHANGE_DIVISOR = 8
MILLIONTHS = 1_000_000
TARGET_FULLNESS = MILLIONTHS // 2
# Looked up once: building the limits anew for every transaction in the pool took 2 us of its 90.
_NORMAL = class_limit(DispatchClass.Normal)
_NORMAL_TIME = _NORMAL.ref_time if _NORMAL else 1
_NORMAL_LENGTH = length_limit(DispatchClass.Normal)


@record
class FeePrices:
    """What the parts of a fee are worth: parameters of the chain, read once in a block."""

    base: int = BASE_FEE
    byte: int = BYTE_FEE
    picoseconds_per_grain: int = PICOSECONDS_PER_GRAIN


@struct(path="pallet_transaction_payment::types::InclusionFee")
class InclusionFee:
    """The parts of a fee."""

    base_fee: Balance
    len_fee: Balance
    adjusted_weight_fee: Balance

    @property
    def total(self) -> int:
        """All parts."""
        return self.base_fee + self.len_fee + self.adjusted_weight_fee


def inclusion_fee(prices: FeePrices, length: int, weight: Weight, multiplier: int) -> InclusionFee:
    """The fee of an extrinsic of `length` bytes whose call weighs `weight`."""
    weight_fee = weight.ref_time // prices.picoseconds_per_grain * multiplier // MULTIPLIER_ONE
    return InclusionFee(prices.base, prices.byte * length, weight_fee)


def total_fee(prices: FeePrices, length: int, weight: Weight, multiplier: int) -> int:
    """`inclusion_fee(...).total`, without its parts: every transaction asks for it."""
    weighed = weight.ref_time // prices.picoseconds_per_grain * multiplier // MULTIPLIER_ONE
    return prices.base + prices.byte * length + weighed


def fullness(weight: Weight, length: int) -> int:
    """How full a block is of ordinary extrinsics, in millionths: the fuller of time and length."""
    by_time = weight.ref_time * MILLIONTHS // _NORMAL_TIME
    by_length = length * MILLIONTHS // _NORMAL_LENGTH
    return min(max(by_time, by_length), MILLIONTHS)


def next_multiplier(multiplier: int, full: int) -> int:
    """The multiplier after a block that was `full` millionths full."""
    change = multiplier * (full - TARGET_FULLNESS) // TARGET_FULLNESS // CHANGE_DIVISOR
    return min(max(multiplier + change, MULTIPLIER_ONE), MULTIPLIER_MAX)


def priority(tip: int, length: int, weight: Weight) -> int:
    """The order of transactions in the pool: the tip for each share of a block that is taken, as a u64."""
    fitting = min(_NORMAL_TIME // (weight.ref_time or 1), _NORMAL_LENGTH // (length or 1))
    return min((tip + 1) * (fitting or 1), U64_MAX)


def least_fee(prices: FeePrices, length: int) -> int:
    """What an extrinsic of `length` bytes costs at least, whatever its call weighs and the multiplier is."""
    return prices.base + prices.byte * length


def highest_priority(tip: int, length: int) -> int:
    """The `priority` of an extrinsic whose call weighs nothing: no call gives it a higher one."""
    return min((tip + 1) * (min(_NORMAL_TIME, _NORMAL_LENGTH // (length or 1)) or 1), U64_MAX)
