"""The terms of a task and of a bid, as the state stores them.

Invariants: every amount is for one slot, so a task of k slots has k times the amount. A bid is for one slot, so a
provider that offers several devices makes several bids. A bid carries its provider's track record at the reveal, so a
selection can be recomputed at any later time from the task's own records.
"""

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.ids import DeviceId
from gpu_tasks.market.training.reputation import TrackRecord
from runtime.encoding.codec import U8, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber

SLOTS_MAX = 32
"""The largest gang."""


@struct
class TaskTerms:
    """The terms that a customer sets, frozen when the task is submitted."""

    price_max: Balance
    """M: the greatest price that the customer pays for a slot."""
    time_value: Balance
    """v: the value to the customer of each block by which the task is done sooner."""
    loss: Balance
    """L: the customer's loss if the task fails."""
    blocks_max: BlockNumber
    """D: the most blocks that a bid may promise."""
    collateral_min: Balance
    """The least collateral of a bid: that of the rules, or the customer's own if that is more."""
    slots: U8 = 1
    """k: the number of devices, each of which computes the whole run."""


@struct
class Bid:
    """A revealed bid for one slot."""

    provider: AccountId
    device: DeviceId
    """The device, named in the commitment. It is drawn for nothing else until the award."""
    device_class: DeviceClass
    price: Balance
    blocks: BlockNumber
    """d: the blocks from its start in which the provider promises to finish."""
    collateral: Balance
    """K: the grains that the provider locks for this task."""
    record: TrackRecord
    """The provider's track record at the reveal."""


def default_time_value(price_max: int, blocks_max: int) -> int:
    """Return v for a customer that sets none: a result at once is worth a quarter of M more than the latest one."""
    return price_max // (4 * blocks_max)


def default_loss(price_max: int) -> int:
    """Return L for a customer that sets none: a quarter of M."""
    return price_max // 4


def covered(price_max: int, collateral: int) -> int:
    """Return the part of a collateral that compensates the customer for a proven lie: half, at most the greatest price.

    Half, so that no customer gains as much by a lie as the liar loses. It is rounded down.
    """
    return min(collateral // 2, price_max)
