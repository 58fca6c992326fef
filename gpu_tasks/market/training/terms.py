"""What a task wants, and what a bid offers: records that stand in the state as they are here.

Always: every amount is for one slot; a task of k slots has k times of it. A bid is for one slot: who offers several
devices makes several bids, or one that is read as several. A bid carries the track record of its provider as it was
when the bid was revealed, so that a selection can be recomputed from the task's own records, at any later time.
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
    """What a customer asks for, frozen when the task is submitted."""

    price_max: Balance
    """M: the greatest price that the customer pays for a slot."""
    time_value: Balance
    """v: what it is worth to the customer that the task is done one block sooner."""
    loss: Balance
    """L: what the customer loses if the task fails."""
    blocks_max: BlockNumber
    """D: the most blocks that a bid may promise."""
    collateral_min: Balance
    """The least collateral of a bid: what the rules ask for, or more, if the customer asks for more."""
    slots: U8 = 1
    """k: how many devices compute the run, each the whole of it."""
    is_homogeneous: bool = False
    """Whether the devices of a gang must be of one class."""


@struct
class Bid:
    """A revealed bid for one slot."""

    provider: AccountId
    device: DeviceId
    """Named when the bid was committed to, and drawn for nothing else until the award."""
    device_class: DeviceClass
    price: Balance
    blocks: BlockNumber
    """d: in how many blocks from its start the provider promises to be done."""
    collateral: Balance
    """K: what the provider locks for this task."""
    record: TrackRecord
    """Of the provider, as of the reveal."""


def default_time_value(price_max: int, blocks_max: int) -> int:
    """What v is where a customer names none: a result at once is worth a quarter of M more than the latest one."""
    return price_max // (4 * blocks_max)


def default_loss(price_max: int) -> int:
    """What L is where a customer names none: a quarter of M."""
    return price_max // 4


def covered(price_max: int, collateral: int) -> int:
    """What of a customer's loss a collateral makes good when a lie is proven: half of it, at most the greatest price.

    Half, so that no customer gains by a lie as much as the liar loses; rounded down.
    """
    return min(collateral // 2, price_max)
