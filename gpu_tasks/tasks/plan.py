"""What would become of a task if it were submitted now: who could serve it, why the others cannot, cost and start.

Always: only what a chain says of everybody; prices are sealed, so what it costs has bounds and no guess. That a task is
served means that the devices which could bid are enough, if they do: nobody has to. An owner counts for no more
devices than it can lock the collateral for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.training.life.submitting import looks
from gpu_tasks.market.training.money import customer_bond, escrow
from gpu_tasks.market.training.orders import JURORS, CheckedBy
from gpu_tasks.market.training.rules import TaskRules
from gpu_tasks.market.training.terms import TaskTerms
from gpu_tasks.tasks.order import AUCTIONS


class Hindrance(Enum):
    """Why a device could not bid, in the order in which they are looked at: what waiting mends comes last."""

    OWN = "of the customer's own, who may not bid for it"
    CLASS = "of another class"
    NO_PROVIDER = "of an owner who is registered as no provider"
    NO_CANDIDATE = "of an owner who does not offer to mine"
    BOND = "with too small a bond for its class"
    PAUSED = "paused"
    UNPROVEN = "that proved too little for its class at the last roll call"
    BUSY = "at work"
    FUNDS = "of an owner who cannot lock the collateral"


@dataclass(frozen=True, slots=True)
class BiddingDevice:
    """A device, and what of it and its owner decides whether it may bid. Amounts are grains."""

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
    """What its owner can lock, for all of its devices together."""
    has_proven: bool = True
    """What its class claims, at the last roll call; or there is none."""


@dataclass(frozen=True, slots=True)
class AuctionNumbers:
    """The numbers that an auction goes by, of those that the chain may change. Windows are in blocks."""

    rules: TaskRules
    commit: int
    reveal: int
    start: int
    """For a winner to start, from the award."""
    deposit: int
    """Held for the record of a task until that is dropped."""
    step_fee: int
    """Gone at once, for each look that a block may take at the task."""
    interval_max: int
    """Blocks of the longest interval that time is paid in."""


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """A device, and what hinders it; None: it could bid."""

    device: BiddingDevice
    hindrance: Hindrance | None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The answer. Amounts are grains, for all devices of the task together; times are blocks from its submission."""

    terms: TaskTerms
    devices: tuple[PlannedDevice, ...]
    able: int
    """Devices that could bid: of a task for one class, those of the class that has most of them."""
    is_served: bool
    has_rival: bool
    """Whether a loser would be left to set the price; else the winners are paid the greatest price."""
    has_standby: bool
    """Whether somebody who is no winner would be left to take over, whoever wins."""
    is_of_replicas: bool
    """Nobody stands by for these."""
    locked: int
    """Held until the task ends, and its deposit until its record is dropped."""
    prepaid: int
    """Gone when it is submitted."""
    most: int
    """The most that can be gone in the end, fees apart, if nothing is disputed and the customer keeps to the task."""
    starts_from: int
    starts_by: int
    ends_by: int

    @property
    def why_not(self) -> str:
        """A sentence for people: what is missing, and what stands in the way of the others."""
        slots = self.terms.slots
        of_a_class = " of one class" if self.terms.is_homogeneous and slots > 1 else ""
        wanted = "1 device" if slots == 1 else f"{slots} devices{of_a_class}"
        found = Counter(planned.hindrance for planned in self.devices)
        others = [f"{found[why]} {why.value}" for why in Hindrance if found[why]]
        known = f"the chain has {len(self.devices)}" + (f": {', '.join(others)}" if others else "")
        return f"it takes {wanted}, and {self.able} could bid; {known}"


def plan_of(
    terms: TaskTerms,
    classes: Sequence[DeviceClass],
    numbers: AuctionNumbers,
    devices: Sequence[BiddingDevice],
    own: frozenset[bytes] = frozenset(),
    intervals: int = 0,
    checked_by: CheckedBy = CheckedBy.EXECUTED,
) -> TaskPlan:
    """What would become of a task that takes `classes`; `own` are the accounts that its customer acts for.

    Of one that buys time, in `intervals`. Of replicas one place is sold, and the others are drawn among other owners.
    """
    planned = _with_funds(terms, [PlannedDevice(device, _hindrance(device, classes, own)) for device in devices])
    free = [each.device for each in planned if each.hindrance is None]
    fields = _fields(terms, free)
    able = max((len(field) for field in fields), default=0)
    serving = [field for field in fields if len(field) >= terms.slots]
    award = numbers.commit + numbers.reveal + BEACON_DELAY
    whole = escrow(numbers.rules, terms.price_max) * terms.slots
    is_of_replicas = checked_by is CheckedBy.REPLICATED
    if is_of_replicas:
        serving = [field for field in serving if _owners(field) >= terms.slots]
        award += numbers.start + numbers.commit + BEACON_DELAY
    sold = 1 if is_of_replicas else terms.slots
    prepaid = numbers.step_fee * looks(AUCTIONS, terms.slots + JURORS * is_of_replicas, intervals)
    return TaskPlan(
        terms=terms,
        devices=planned,
        able=able,
        is_served=bool(serving),
        has_rival=len(serving) > 1 or any(len(field) > sold for field in serving),
        has_standby=bool(serving) and not is_of_replicas and all(_owners(field) > terms.slots for field in serving),
        is_of_replicas=is_of_replicas,
        locked=whole + customer_bond(numbers.rules, terms.price_max) * terms.slots + numbers.deposit,
        prepaid=prepaid,
        most=whole + prepaid,
        starts_from=award,
        starts_by=award + numbers.start,
        ends_by=award + numbers.start + terms.blocks_max,
    )


def _hindrance(device: BiddingDevice, classes: Sequence[DeviceClass], own: frozenset[bytes]) -> Hindrance | None:
    """The first that applies, funds apart."""
    applies: Mapping[Hindrance, bool] = {
        Hindrance.OWN: device.owner in own,
        Hindrance.CLASS: device.kind not in classes,
        Hindrance.NO_PROVIDER: not device.is_provider,
        Hindrance.NO_CANDIDATE: not device.is_candidate,
        Hindrance.BOND: device.bond < device.bond_min,
        Hindrance.PAUSED: device.is_paused,
        Hindrance.BUSY: device.is_busy,
        Hindrance.UNPROVEN: not device.has_proven,
    }
    return next((why for why, is_so in applies.items() if is_so), None)


def _with_funds(terms: TaskTerms, planned: Sequence[PlannedDevice]) -> tuple[PlannedDevice, ...]:
    """Each owner's devices that could bid, as far as what it has covers their collaterals; in the order given."""
    left = {each.device.owner: each.device.spendable for each in planned}
    found = []
    for each in planned:
        if each.hindrance is None:
            left[each.device.owner] -= terms.collateral_min
            short = left[each.device.owner] < 0
            found.append(PlannedDevice(each.device, Hindrance.FUNDS) if short else each)
        else:
            found.append(each)
    return tuple(found)


def _fields(terms: TaskTerms, devices: Sequence[BiddingDevice]) -> list[list[BiddingDevice]]:
    """Which devices compete with each other: all, or those of each class."""
    if not terms.is_homogeneous or terms.slots == 1:
        return [list(devices)]
    kinds = sorted({device.kind for device in devices})
    return [[device for device in devices if device.kind == kind] for kind in kinds]


def _owners(field: Sequence[BiddingDevice]) -> int:
    return len({device.owner for device in field})
