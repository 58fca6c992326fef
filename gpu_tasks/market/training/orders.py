"""What a customer orders: of which computation, how it is checked and so what is paid, within which limits.

Always: an order stands in its task's record as it was submitted; what the rules make of it are the task's terms.
"""

from enum import IntEnum

from runtime.encoding.codec import U8, U16, named, struct
from runtime.encoding.types import Balance, BlockNumber, Hash

REPLICAS = (3, 5, 7)
"""How many may compute the same: odd, so that most of them is never half."""
JURORS = 5
"""How many are drawn anew when a customer disputes what replicas agree on."""
MILESTONES_MAX = 64
INTERVALS_MAX = 255
"""Milestones of a task that is paid by time: nobody fetches anything for them, and each is as long as an interval."""
AUCTIONS_MAX = 4
"""How often a task, or what is left of it, may go to auction."""


@named("ogpu::CheckedBy")
class CheckedBy(IntEnum):
    """How what a task computes is checked, which decides what it is paid for."""

    EXECUTED = 0
    """Judges execute it again, or parts of it: the result is paid."""
    METERED = 1
    """Nobody can: the time is paid, interval by interval, until the program ends, or its time is up."""
    LEASED = 2
    """As metered, and a program that ends gives nobody leave to go: the time is the customer's until it is up."""
    REPLICATED = 3
    """Several compute it, all bound to what they found before any of it is shown: what most agree on is paid."""


@struct
class TaskOrder:
    """What a customer submits. Amounts are for one slot."""

    task_hash: Hash
    """Of the canonical task file: who bids knows by it what it bids for."""
    workload: Hash
    input_root: Hash
    input_blob: Hash
    """Address of the input, sealed as that of a unit."""
    sealed_at: BlockNumber
    """Only providers whose keys date from then or earlier can read the input, so only they bid and judge."""
    classes: U8
    """Which classes of devices may bid: a bit for each (`DeviceClass`)."""
    milestones: U8
    """m: parts of equal worth; the last one is the result."""
    segments: U16
    """Of the trace that the result's root is over; 0 where there is none, and judges execute the whole."""
    run_blocks: BlockNumber
    """How long what a judge computes may take."""
    price_max: Balance
    time_value: Balance | None
    """None: `default_time_value`."""
    loss: Balance | None
    """None: `default_loss`."""
    blocks_max: BlockNumber
    collateral_min: Balance
    """What the customer asks for; what the rules ask for counts if it is more."""
    slots: U8
    is_homogeneous: bool
    auctions: U8
    """How often it may go to auction, 1 to `AUCTIONS_MAX`."""
    checked_by: CheckedBy = CheckedBy.EXECUTED
    """Where it is paid by time: one slot, no segments, no value of time, and `milestones` intervals of whole blocks.

    Where it is replicated: one milestone, no segments, and `slots` is how many compute it, one of `REPLICAS`.
    """


def is_by_time(order: TaskOrder) -> bool:
    """Whether time is paid, and not a result."""
    return order.checked_by in (CheckedBy.METERED, CheckedBy.LEASED)


def is_replicated(order: TaskOrder) -> bool:
    """Whether several compute the same."""
    return order.checked_by is CheckedBy.REPLICATED


def runs_program(order: TaskOrder) -> bool:
    """Whether what it computes is a customer's program, of which judges compute nothing."""
    return order.checked_by is not CheckedBy.EXECUTED


def interval_of(order: TaskOrder) -> int:
    """Blocks of an interval of a task that is paid by time."""
    return order.blocks_max // order.milestones
