"""The reason that a device is idle, as a pure function of the known facts.

Invariant: the first matching reason of `REASONS` is given, and the strongest obstacles come first. For example, a
paused device is not told about demand. A check or a vote blocks no device, because its bond comes from the stash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from gpu_tasks.market.inference.gpu_tasks_api import DeviceStatus
from gpu_tasks.market.inference.services import Offer
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.provider.chain.demand import Demand, ServiceDemand, WaitingUnit
from gpu_tasks.provider.duties.race_steps import Race
from gpu_tasks.provider.execution.device_times import NOTHING_SEEN, IdleNote, WhyIdle
from gpu_tasks.provider.journal.journal import RaceKey
from gpu_tasks.provider.journal.records import RaceEntry, Sent
from wallet.amounts import SYMBOL, format_amount

BETWEEN_BLOCKS = 6
"""Blocks after a unit within which the next may follow: a commit enters a block, and a draw becomes final."""


class RaceWait(Enum):
    """The reason that a device with a unit computes nothing of it."""

    NO_UNIT = auto()
    INPUT = auto()
    """The input is being opened, or is unavailable."""
    CHAIN = auto()
    """The device's part is done, and the chain does not show it yet."""
    ITSELF = auto()
    """A problem of this machine blocks it."""


@dataclass(frozen=True, slots=True)
class IdleScene:
    """The known facts about an idle device."""

    status: DeviceStatus | None
    """The device's last known status on the chain."""
    height: int = 0
    is_connected: bool = True
    drains: bool = False
    why_paused: str = ""
    """The cause of the device's pause, from the notes of the base path."""
    race: RaceWait = RaceWait.NO_UNIT
    is_bid_for: bool = False
    """True if the device has an open bid or a task, and so is drawn for no unit."""
    why_unproven: str = ""
    """The obstacle from roll calls; empty if it may work."""
    demand: Demand = field(default_factory=Demand)


def why_idle(idle_scene: IdleScene) -> IdleNote:
    """Return the idle reason of a device, with a sentence."""
    # Without a node all other facts are outdated.
    if not idle_scene.is_connected:
        return IdleNote(WhyIdle.AWAY, "the node cannot be reached, or its chain has stopped")
    if idle_scene.status is None:
        return NOTHING_SEEN
    scene_facts = _Facts(idle_scene, idle_scene.status)
    return next(
        IdleNote(idle_reason, reason_words(scene_facts))
        for idle_reason, reason_holds, reason_words in REASONS
        if reason_holds(scene_facts)
    )


def race_wait(
    races: Iterable[tuple[Race, RaceEntry | None]], device_id: bytes, hindered: Collection[RaceKey]
) -> RaceWait:
    """Return the reason that a device computes none of its races. `hindered` are the races that failed here."""
    found_waits = [
        _wait_of(open_race, race_entry, hindered)
        for open_race, race_entry in races
        if open_race.racer.device == device_id and _is_to_commit(open_race)
    ]
    # A problem of this machine is the one that its operator can repair, so it is named first.
    for race_wait_kind in (RaceWait.ITSELF, RaceWait.INPUT, RaceWait.CHAIN):
        if race_wait_kind in found_waits:
            return race_wait_kind
    return RaceWait.NO_UNIT


def _is_to_commit(open_race: Race) -> bool:
    is_closed = open_race.unit.round is None or open_race.unit.round.closed_at > 0
    own_racer = open_race.racer
    return (
        open_race.unit.state is UnitState.RACING
        and not is_closed
        and own_racer.commitment is None
        and not own_racer.has_declined
    )


def _wait_of(open_race: Race, race_entry: RaceEntry | None, hindered: Collection[RaceKey]) -> RaceWait:
    if race_entry is not None and (race_entry.result is not None or {Sent.DECLINE, Sent.PASS} & set(race_entry.sent)):
        return RaceWait.CHAIN
    return RaceWait.ITSELF if open_race.key in hindered else RaceWait.INPUT


@dataclass(frozen=True, slots=True)
class _Facts:
    """A scene with the derived facts that the reasons need."""

    scene: IdleScene
    status: DeviceStatus

    @property
    def offers(self) -> Sequence[tuple[int, Offer]]:
        return self.status.offers

    @property
    def asked(self) -> list[tuple[Offer, ServiceDemand]]:
        """The device's offers, with the demand for each."""
        services = self.scene.demand.services
        return [
            (own_offer, services[service_number])
            for service_number, own_offer in self.offers
            if service_number in services
        ]

    @property
    def open_units(self) -> int:
        return sum(asked_demand.open_units for _, asked_demand in self.asked)

    @property
    def waiting(self) -> list[tuple[Offer, WaitingUnit]]:
        return [
            (own_offer, waiting_unit) for own_offer, asked_demand in self.asked for waiting_unit in asked_demand.waiting
        ]

    @property
    def affordable(self) -> list[WaitingUnit]:
        """The waiting units whose price meets its ask."""
        return [waiting_unit for own_offer, waiting_unit in self.of_its_class if waiting_unit.rate >= own_offer.ask]

    @property
    def of_its_class(self) -> list[tuple[Offer, WaitingUnit]]:
        """The waiting units open to its class of device."""
        return [
            (own_offer, waiting_unit)
            for own_offer, waiting_unit in self.waiting
            if self.status.device.kind in waiting_unit.classes
        ]

    @property
    def free_bond(self) -> int:
        return self.status.device.bond - self.status.device.secured

    @property
    def suits(self) -> bool:
        """True if it could take one of the waiting units."""
        return any(waiting_unit.collateral <= self.free_bond for waiting_unit in self.affordable)

    @property
    def was_freed(self) -> bool:
        freed_height = self.status.device.freed_at
        return bool(freed_height) and self.scene.height <= freed_height[0] + BETWEEN_BLOCKS

    @property
    def services(self) -> str:
        service_numbers = [str(service_number) for service_number, _ in self.offers]
        return f"service{'s' if len(service_numbers) > 1 else ''} {', '.join(service_numbers)}"


def _bond_words(scene_facts: _Facts) -> str:
    least_collateral = min(waiting_unit.collateral for waiting_unit in scene_facts.affordable)
    return (
        f"units wait, but {_shown_amount(scene_facts.free_bond)} of its bond are free and a "
        f"unit needs {_shown_amount(least_collateral)} (`ogpu-wallet call Devices.bond_device_extra`, or wait until "
        "earlier units are released)"
    )


def _price_words(scene_facts: _Facts) -> str:
    # The unit that is closest to the ask, which shows the operator the missing difference.
    own_offer, waiting_unit = max(scene_facts.of_its_class, key=lambda offered: offered[1].rate - offered[0].ask)
    return (
        f"units wait that pay {_shown_amount(waiting_unit.rate)} a thousand tokens, below its price of "
        f"{_shown_amount(own_offer.ask)} (`ogpu-provider offer`)"
    )


def _between_words(scene_facts: _Facts) -> str:
    queue_length = scene_facts.status.device.queue
    return "its next unit has not been drawn yet" + (
        "" if queue_length else ": a queue would keep one ready (`ogpu-provider queue`)"
    )


def _shown_amount(grains: int) -> str:
    return f"{format_amount(grains)} {SYMBOL}"


Reason = tuple[WhyIdle, Callable[[_Facts], bool], Callable[[_Facts], str]]
"""A reason, its condition and its sentence."""

REASONS: tuple[Reason, ...] = (
    (
        WhyIdle.HINDERED,
        lambda facts: facts.scene.race is RaceWait.ITSELF,
        lambda _: "it has a unit and does not compute: see `hindered` in the log of `run`",
    ),
    (
        WhyIdle.INPUT,
        lambda facts: facts.scene.race is RaceWait.INPUT,
        lambda _: "the input of its unit is being fetched or opened",
    ),
    (
        WhyIdle.CHAIN,
        lambda facts: facts.scene.race is RaceWait.CHAIN,
        lambda _: "its result is sent and not final yet",
    ),
    (
        WhyIdle.TASK,
        lambda facts: facts.scene.is_bid_for or facts.status.device.is_dedicated,
        lambda _: "a task has it or may get it: a bid is open, or its next step waits for the chain",
    ),
    (
        WhyIdle.DRAINING,
        lambda facts: facts.scene.drains,
        lambda _: "it takes no new work (`ogpu-provider drain`; `drain --off` ends that)",
    ),
    (
        WhyIdle.PAUSED,
        lambda facts: facts.status.device.is_paused,
        lambda facts: f"it is paused on the chain: {facts.scene.why_paused}",
    ),
    (
        WhyIdle.BARRED,
        lambda facts: not facts.scene.demand.may_work,
        lambda _: "its stash is not an electable candidate, or not a provider: see `ogpu-wallet stakes`",
    ),
    (WhyIdle.UNPROVEN, lambda facts: bool(facts.scene.why_unproven), lambda facts: facts.scene.why_unproven),
    (
        WhyIdle.NO_OFFER,
        lambda facts: not facts.offers,
        lambda _: "it offers no service (`ogpu-provider offer`) and has no task",
    ),
    (
        WhyIdle.CLASS,
        lambda facts: bool(facts.waiting) and not facts.of_its_class,
        lambda facts: (
            f"units wait for devices of another class than {facts.status.device.kind.name.lower()}; they open to it "
            "as their price rises"
        ),
    ),
    (WhyIdle.BOND, lambda facts: bool(facts.affordable) and not facts.suits, _bond_words),
    (WhyIdle.PRICE, lambda facts: bool(facts.of_its_class) and not facts.affordable, _price_words),
    (WhyIdle.BETWEEN, lambda facts: facts.open_units > 0 and facts.was_freed, _between_words),
    (
        WhyIdle.UNMATCHED,
        lambda facts: facts.suits,
        lambda _: "units wait that it could take: other racers or voters are missing, or the next draw is due",
    ),
    (
        WhyIdle.TAKEN,
        lambda facts: facts.open_units > 0,
        lambda facts: f"open units of {facts.services} are assigned, near their end, or about to be drawn",
    ),
    (WhyIdle.NOT_ASKED, lambda _: True, lambda facts: f"no unit of {facts.services} is open"),
)
