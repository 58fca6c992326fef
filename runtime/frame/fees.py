"""The fee of an extrinsic, in grains: base + length + multiplier x weight, and a tip on top.

The multiplier is a fixed-point number of 18 decimals. It changes by at most an eighth from block to block: up if a
block is more than half full, otherwise down to one at least. This is the rule of EIP-1559, on weight and length.
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
# Cached: building the limits for every transaction in the pool took 2 us of its 90.
_NORMAL = class_limit(DispatchClass.Normal)
_NORMAL_TIME = _NORMAL.ref_time if _NORMAL else 1
_NORMAL_LENGTH = length_limit(DispatchClass.Normal)


@record
class FeePrices:
    """The prices of the parts of a fee: parameters of the chain, read once in a block."""

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
        """The sum of all parts."""
        return self.base_fee + self.len_fee + self.adjusted_weight_fee


def inclusion_fee(prices: FeePrices, length: int, weight: Weight, multiplier: int) -> InclusionFee:
    """Return the fee of an extrinsic of `length` bytes, for a call of weight `weight`."""
    weight_fee = weight.ref_time // prices.picoseconds_per_grain * multiplier // MULTIPLIER_ONE
    return InclusionFee(prices.base, prices.byte * length, weight_fee)


def total_fee(prices: FeePrices, length: int, weight: Weight, multiplier: int) -> int:
    """Return `inclusion_fee(...).total`, without creating its parts: every transaction calls this."""
    weight_fee = weight.ref_time // prices.picoseconds_per_grain * multiplier // MULTIPLIER_ONE
    return prices.base + prices.byte * length + weight_fee


def fullness(weight: Weight, length: int) -> int:
    """Return the share of a block that ordinary extrinsics fill, in millionths: the greater of time and length."""
    by_time = weight.ref_time * MILLIONTHS // _NORMAL_TIME
    by_length = length * MILLIONTHS // _NORMAL_LENGTH
    # The scarcer resource decides, so that long but light blocks also raise fees.
    return min(max(by_time, by_length), MILLIONTHS)


def next_multiplier(multiplier: int, block_fullness: int) -> int:
    """Return the multiplier after a block that was `block_fullness` millionths full."""
    increment = multiplier * (block_fullness - TARGET_FULLNESS) // TARGET_FULLNESS // CHANGE_DIVISOR
    return min(max(multiplier + increment, MULTIPLIER_ONE), MULTIPLIER_MAX)


def priority(tip_grains: int, length: int, weight: Weight) -> int:
    """Return a transaction's rank in the pool: the tip per share of a block that it fills, as a u64."""
    fitting_count = min(_NORMAL_TIME // (weight.ref_time or 1), _NORMAL_LENGTH // (length or 1))
    # Without the 1 all transactions without a tip would rank equal, small or large.
    return min((tip_grains + 1) * (fitting_count or 1), U64_MAX)


def least_fee(prices: FeePrices, length: int) -> int:
    """Return the least fee of an extrinsic of `length` bytes, for any call and multiplier."""
    return prices.base + prices.byte * length


def highest_priority(tip_grains: int, length: int) -> int:
    """Return the highest `priority` of an extrinsic of `length` bytes: that of a call without weight."""
    return min((tip_grains + 1) * (min(_NORMAL_TIME, _NORMAL_LENGTH // (length or 1)) or 1), U64_MAX)
