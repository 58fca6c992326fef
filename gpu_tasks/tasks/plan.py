"""The prospects of a task: the devices that could serve it, the obstacles of the others, cost and start.

Invariant: the plan uses only the chain's public state. Prices are sealed, so the cost has bounds and no estimate. A
served task has enough devices that could bid, but none has to. An owner counts for as many devices as it can lock the
collateral for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import check_fees_max, customer_bond, escrow, standby_max
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.tasks.order import AUCTIONS
from wallet.amounts import counted


class Hindrance(Enum):
    """The reason why a device could not bid, in the order of checks. Reasons that pass by waiting come last."""

    OWN = "of the customer's own"
    CLASS = "of another class"
    NO_PROVIDER = "of an unregistered provider"
    NO_CANDIDATE = "of a provider that is not a candidate"
    BOND = "with too small a bond for its class"
    PAUSED = "paused"
    UNPROVEN = "too slow for its class at the last roll call"
    BUSY = "at work"
    FUNDS = "of an owner without money for the collateral"


@dataclass(frozen=True, slots=True)
class BiddingDevice:
    """A device, with all values that decide whether it may bid. Amounts are grains."""

    device: bytes
    owner: bytes
    kind: DeviceClass
    bond: int
    bond_min: int
    is_provider: bool
    is_candidate: bool
    is_paused: bool
    is_busy: bool
    spendable: int
    """The owner's lockable money, for all of its devices together."""
    has_proven: bool = True
    """True if it proved its class at the last roll call, or if there is none."""


@dataclass(frozen=True, slots=True)
class AuctionNumbers:
    """The parameters of an auction. Windows are in blocks."""

    rules: TaskRules
    commit: int
    reveal: int
    start: int
    """Blocks from the award until a winner must start."""
    deposit: int
    """Held until the chain drops the task's record."""
    step_fee: int
    """Paid at once, for each look that a block may take at the task."""
    interval_max: int
    """Blocks of the longest interval in which time is paid."""


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device with its obstacle, or None if it could bid."""

    device: BiddingDevice
    hindrance: Hindrance | None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan. Amounts are grains, for all devices of the task together. Times are blocks from its submission."""

    terms: TaskTerms
    devices: tuple[PlannedDevice, ...]
    able: int
    """Devices that could bid."""
    is_served: bool
    has_rival: bool
    """True if a loser would be left to set the price. Otherwise the winners are paid the greatest price."""
    has_standby: bool
    """True if some owner other than the winners would be left to take over, whichever bids win."""
    is_of_replicas: bool
    """True for replicas, which have no standby."""
    locked: int
    """Held until the task ends. Its deposit is held until its record is dropped."""
    locks: tuple[tuple[str, int], ...]
    """The parts of `locked` by name."""
    prepaid: int
    """Paid on submission."""
    most: int
    """The greatest final cost, fees apart, if the task is neither disputed nor cancelled."""
    starts_from: int
    starts_by: int
    ends_by: int

    @property
    def why_not(self) -> str:
        """A sentence for people: the missing devices, and the obstacles of the others."""
        slot_count = self.terms.slots
        needed_text = counted(slot_count, "device")
        count_by_hindrance = Counter(planned.hindrance for planned in self.devices)
        texts = [
            f"{count_by_hindrance[hindrance]} {hindrance.value}"
            for hindrance in Hindrance
            if count_by_hindrance[hindrance]
        ]
        known = f"the chain has {len(self.devices)}" + (f": {', '.join(texts)}" if texts else "")
        return f"the task needs {needed_text}, and {self.able} could bid; {known}"


def plan_of(
    terms: TaskTerms,
    classes: Sequence[DeviceClass],
    numbers: AuctionNumbers,
    devices: Sequence[BiddingDevice],
    own: frozenset[bytes] = frozenset(),
    intervals: int = 0,
    checked_by: CheckedBy = CheckedBy.EXECUTED,
    items: int = 1,
) -> TaskPlan:
    """Return the plan of a task that takes `classes`; `own` are the accounts of its customer.

    `intervals` is 0 unless the task pays for time. `items` are those of a claim (`auction_items`). For replicas one
    place is sold, and the others are drawn among other owners.
    """
    planned_devices = _with_funds(
        terms, [PlannedDevice(device, _hindrance(device, classes, own)) for device in devices]
    )
    free = [planned.device for planned in planned_devices if planned.hindrance is None]
    # By owner: a failed owner cannot stand by for itself, and replicas of one owner prove nothing.
    owner_count = len({device.owner for device in free})
    award_blocks = numbers.commit + numbers.reveal + BEACON_DELAY
    escrow_grains = escrow(numbers.rules, terms.price_max, items) * terms.slots
    price_grains, slots = terms.price_max, terms.slots
    locks = (
        ("price", price_grains * slots),
        ("standby", standby_max(numbers.rules, price_grains) * slots),
        ("checks", check_fees_max(numbers.rules, price_grains, items) * slots),
        ("bond", customer_bond(numbers.rules, price_grains) * slots),
        ("deposit", numbers.deposit),
    )
    is_of_replicas = checked_by is CheckedBy.REPLICATED
    if is_of_replicas:
        award_blocks += numbers.start + numbers.commit + BEACON_DELAY
    sold = 1 if is_of_replicas else terms.slots
    # The results of replicas are compared, so each replica needs another owner.
    is_served = (owner_count if is_of_replicas else len(free)) >= terms.slots
    prepaid_grains = numbers.step_fee * looks(AUCTIONS, terms.slots, intervals)
    return TaskPlan(
        terms=terms,
        devices=planned_devices,
        able=len(free),
        is_served=is_served,
        has_rival=is_served and len(free) > sold,
        has_standby=is_served and not is_of_replicas and owner_count > terms.slots,
        is_of_replicas=is_of_replicas,
        locked=sum(part_grains for _, part_grains in locks),
        locks=locks,
        prepaid=prepaid_grains,
        most=escrow_grains + prepaid_grains,
        starts_from=award_blocks,
        starts_by=award_blocks + numbers.start,
        ends_by=award_blocks + numbers.start + terms.blocks_max,
    )


def _hindrance(device: BiddingDevice, classes: Sequence[DeviceClass], own: frozenset[bytes]) -> Hindrance | None:
    """Return the first obstacle that applies, funds apart."""
    is_hindered_by: Mapping[Hindrance, bool] = {
        Hindrance.OWN: device.owner in own,
        Hindrance.CLASS: device.kind not in classes,
        Hindrance.NO_PROVIDER: not device.is_provider,
        Hindrance.NO_CANDIDATE: not device.is_candidate,
        Hindrance.BOND: device.bond < device.bond_min,
        Hindrance.PAUSED: device.is_paused,
        Hindrance.UNPROVEN: not device.has_proven,
        Hindrance.BUSY: device.is_busy,
    }
    return next((hindrance for hindrance in Hindrance if is_hindered_by.get(hindrance)), None)


def _with_funds(terms: TaskTerms, planned: Sequence[PlannedDevice]) -> tuple[PlannedDevice, ...]:
    """Mark each owner's devices beyond its funds for collateral. The order stays."""
    # One owner's money has to cover the collateral of all its devices together.
    funds_by_owner = {planned_device.device.owner: planned_device.device.spendable for planned_device in planned}
    funded = []
    for planned_device in planned:
        if planned_device.hindrance is None:
            funds_by_owner[planned_device.device.owner] -= terms.collateral_min
            is_short = funds_by_owner[planned_device.device.owner] < 0
            funded.append(PlannedDevice(planned_device.device, Hindrance.FUNDS) if is_short else planned_device)
        else:
            funded.append(planned_device)
    return tuple(funded)
