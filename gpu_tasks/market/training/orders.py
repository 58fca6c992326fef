"""A customer's order: the computation, the way in which it is checked and so paid, and the limits.

Invariant: a task's record holds its order as submitted. The rules turn it into the task's terms.
"""

from enum import IntEnum

from runtime.encoding.codec import U8, U16, U32, named, struct
from runtime.encoding.types import Balance, BlockNumber, Hash
from runtime.pallets.staking.slashing import PPM

REPLICAS = (3, 5, 7)
"""The possible numbers of replicas: odd, so that a tie of two halves cannot happen."""
MILESTONES_MAX = 64
INTERVALS_MAX = 255
"""The most milestones of a task that is paid by time. They need no fetch, and each is as long as an interval."""
AUCTIONS_MAX = 4
"""The most auctions of a task, for the whole or for its rest."""


@named("ogpu::CheckedBy")
class CheckedBy(IntEnum):
    """The check of a task's computation. It also decides whether a result or time is paid."""

    EXECUTED = 0
    """Validators check it again, all or in part. The result is paid."""
    METERED = 1
    """No check is possible. The time is paid, interval by interval, until the program ends or the time is up."""
    LEASED = 2
    """As metered, but the provider must stay after the program's end. The time is the customer's until it is up."""
    REPLICATED = 3
    """Several providers compute it, and all commit before any of them opens. The result of more than half is paid."""


@struct
class TaskOrder:
    """The order that a customer submits. Amounts are for one slot."""

    task_hash: Hash
    """The hash of the canonical task file. Bidders recognise the task by it."""
    workload: Hash
    input_root: Hash
    input_blob: Hash
    """The address of the input, sealed like a unit's."""
    sealed_at: BlockNumber
    """Only providers with keys of this height or earlier can read the input, so only they bid, check and vote."""
    classes: U8
    """The classes of devices that may bid, one bit for each (`DeviceClass`)."""
    milestones: U8
    """m: parts of equal worth. The last one is the result."""
    segments: U16
    """The segments of the trace under the result's root, or 0 without a trace: checkers then execute the whole."""
    run_blocks: BlockNumber
    """The most blocks of a computation of the whole. Checkers get three times the share of their segments."""
    price_max: Balance
    time_value: Balance | None
    """None: `default_time_value`."""
    loss: Balance | None
    """None: `default_loss`."""
    blocks_max: BlockNumber
    collateral_min: Balance
    """The customer's minimum. The minimum of the rules applies if it is more."""
    slots: U8
    auctions: U8
    """The number of auctions that the task may have, 1 to `AUCTIONS_MAX`."""
    checked_by: CheckedBy = CheckedBy.EXECUTED
    """A task paid by time has one slot, no segments, no value of time, and `milestones` intervals of whole blocks.

    A replicated task has one milestone and no segments. Its `slots` is the number of replicas, one of `REPLICAS`.
    """
    check_ppm: U32 = PPM
    """The cost of checking an item over the cost of computing it, in millionths. It counts for executed tasks."""


def is_by_time(order: TaskOrder) -> bool:
    """Return True if the order buys time and not a result."""
    return order.checked_by in (CheckedBy.METERED, CheckedBy.LEASED)


def is_replicated(order: TaskOrder) -> bool:
    """Return True if several providers compute the same."""
    return order.checked_by is CheckedBy.REPLICATED


def runs_program(order: TaskOrder) -> bool:
    """Return True if the computation is a customer's program, of which validators compute nothing."""
    return order.checked_by is not CheckedBy.EXECUTED


def interval_of(order: TaskOrder) -> int:
    """Return the blocks of an interval of a task that is paid by time."""
    return order.blocks_max // order.milestones
