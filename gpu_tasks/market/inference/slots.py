"""The slots that a block can draw: read once for a service, ordered once for a beacon, charged to a budget.

Invariants: a unit given to a slot counts in every service at once. A unit whose price is below the asks costs no look
at a slot.
"""

from bisect import bisect_right

from gpu_tasks.batches.requests import rate_of
from gpu_tasks.market.capacity.capacity import PROVEN_WEIGHT
from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import DrawOrder, FreeSlot, Given, Wanted
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.checkers_left import CheckersLeft, read_checkers
from gpu_tasks.market.inference.services import Offer
from gpu_tasks.market.inference.storage import InferenceStorage
from gpu_tasks.market.inference.units import Racer, Unit
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from runtime.frame.schedule import TAKE_WEIGHT, WeightMeter

SCAN_WEIGHT = WEIGHTS["InferenceMarket.on_initialize scan"] + PROVEN_WEIGHT
"""The weight of reading one offer with its device, its owner, the owner's candidacy, and the device's proven
throughput."""
ORDER_WEIGHT = WEIGHTS["InferenceMarket.on_initialize order"]
"""The weight of one slot in the order of a beacon."""
LOOK_WEIGHT = WEIGHTS["InferenceMarket.on_initialize look"]
"""The weight of looking at one slot for one unit."""
DRAW_WEIGHT = WEIGHTS["InferenceMarket.on_initialize draw"]
"""The weight of drawing a unit or putting it to sleep, without its racers."""
RACER_WEIGHT = WEIGHTS["InferenceMarket.on_initialize racer"]
"""The weight of assigning a device and recording its owner's duty."""


def reading_weight(offer_count: int) -> Weight:
    """Return the most weight of reading and ordering the slots of a service with this many offers."""
    return Weight(offer_count * (SCAN_WEIGHT.ref_time + ORDER_WEIGHT.ref_time), 0)


def draw_weight(offer_count: int, racer_count: int) -> Weight:
    """Return the most weight of drawing one unit of a service with this many offers, once its slots are read."""
    return (
        Weight(offer_count * LOOK_WEIGHT.ref_time + racer_count * RACER_WEIGHT.ref_time, 0) + DRAW_WEIGHT + TAKE_WEIGHT
    )


class ServiceSlots:
    """The slots of one service that had a free place at the start of a block's draws."""

    def __init__(self, slots: list[FreeSlot]) -> None:
        self.slots = slots
        # A unit recorded earlier may have missed this change: `queue.draw` then stirs the service.
        self.changed_at = max((max((slot.changed_at, *slot.freed[:1])) for slot in slots), default=0)
        self._asks: dict[tuple[DeviceClass, ...], list[int]] = {}
        self.orders: dict[bytes, DrawOrder] = {}

    def is_affordable(self, wanted: Wanted, racer_count: int) -> bool:
        """Return True if at least `racer_count` owners of the admitted classes ask at most the rate."""
        asks = self._asks_of(wanted.classes)
        return len(asks) >= racer_count and asks[racer_count - 1] <= wanted.rate

    def next_ask(self, wanted: Wanted, racer_count: int) -> int | None:
        """Return the next ask above the rate that may bring enough owners, or None if only freed slots can."""
        asks = self._asks_of(wanted.classes)
        ask_index = max(racer_count - 1, bisect_right(asks, wanted.rate))
        return asks[ask_index] if ask_index < len(asks) else None

    def _asks_of(self, classes: tuple[DeviceClass, ...]) -> list[int]:
        """Return the lowest ask of each owner with devices of these classes, ascending."""
        if classes not in self._asks:
            lowest_asks: dict[bytes, int] = {}
            for slot in self.slots:
                if slot.kind in classes:
                    lowest_asks[slot.owner] = min(slot.ask, lowest_asks.get(slot.owner, slot.ask))
            self._asks[classes] = sorted(lowest_asks.values())
        return self._asks[classes]


class Slots:
    """The slots that can be drawn in this block. Each service is read once, and assigned units are noted."""

    def __init__(self, market: InferenceStorage, meter: WeightMeter) -> None:
        """Start with all free places before the block's draws. Reads and looks are charged to the budget."""
        self._market = market
        self._budget = meter
        self._of_service: dict[int, ServiceSlots] = {}
        self._given = Given()
        self._checkers: CheckersLeft | None = None

    def of_service(self, service_number: int) -> ServiceSlots:
        """Return the slots with a free place that offer a service."""
        if service_number not in self._of_service:
            self._of_service[service_number] = ServiceSlots(self._with_places(service_number))
        return self._of_service[service_number]

    def wanted(self, record: Unit, price_grains: int) -> Wanted:
        """Return a unit's conditions for slots, at a price for all its work.

        They exclude the customer, decliners, current racers, and validators that must stay outside to vote.
        """
        # A customer that is a stash's provider key is the same party as the stash.
        customer_stashes = (self._market.devices.operator(record.customer), record.customer)
        excluded = (*customer_stashes, *record.declined_by, *(racer.owner for racer in record.racers))
        checkers_left, sealed_at = self._in_office(), record.terms.sealed_at
        # A unit with racers is drawn for one free place of its race.
        place_count = 1 if record.racers else record.terms.racers
        return Wanted(
            rate=rate_of(price_grains, money.work_allowed(record)),
            collateral=money.collateral(record.rules, price_grains, record.terms.racers, record.terms.requests),
            sealed_at=sealed_at,
            recorded_at=record.recorded_at,
            excluded=excluded,
            checkers=checkers_left.stakes,
            # A negative number of spare voters makes the draw return no racers, so the unit sleeps.
            spare=checkers_left.spare(sealed_at, excluded, place_count),
            classes=self._market.classes_of(record),
        )

    def engage(self, slot: FreeSlot, unit_id: bytes, collateral: int) -> Racer:
        """Assign a drawn slot to a unit, and record its owner's duty. Work begins after the slot's earlier units."""
        begins = self._market.devices.engage(slot.device, unit_id, collateral)
        self._market.duties[slot.owner, unit_id] = True
        return Racer(slot.owner, slot.device, collateral, started_at=self._market.height if begins else 0)

    def draw(self, service_number: int, wanted: Wanted, racers: int, seed: bytes) -> list[FreeSlot]:
        """Draw racers for a unit and assign it to each, or return an empty list if there are too few."""
        service_slots = self.of_service(service_number)
        # The cheap test comes first: a unit that no slot can serve must cost little.
        if not service_slots.is_affordable(wanted, racers):
            return []
        # Units of one beacon share the order, so its cost is charged once.
        if seed not in service_slots.orders:
            self._budget.spend(Weight(len(service_slots.slots) * ORDER_WEIGHT.ref_time, 0))
            service_slots.orders[seed] = DrawOrder(
                service_slots.slots,
                seed=seed,
                label=service_number.to_bytes(4, "little"),
                recorded_at=wanted.recorded_at,
                given_units=self._given,
            )
        order = service_slots.orders[seed]
        looks_before = order.looks
        drawn = order.draw(wanted, racers)
        self._budget.spend(
            Weight((order.looks - looks_before) * LOOK_WEIGHT.ref_time + len(drawn) * RACER_WEIGHT.ref_time, 0)
        )
        for slot in drawn:
            self._given.give(slot.device, wanted.collateral)
        return drawn

    def _in_office(self) -> CheckersLeft:
        """Return the eligible voters, read once a block. The draw budget has room for them: they are at most 128."""
        if self._checkers is None:
            self._checkers, read_weight = read_checkers(self._market.devices)
            self._budget.spend(read_weight)
        return self._checkers

    def _with_places(self, service_number: int) -> list[FreeSlot]:
        slots_found = []
        for device_id, offer in self._market.offers.under(service_number):
            # Charged for devices that cannot be drawn as well: to read them costs the same.
            self._budget.spend(SCAN_WEIGHT)
            slot = self._slot(device_id, offer) if offer is not None else None
            if slot is not None:
                slots_found.append(slot)
        return slots_found

    def _slot(self, device_id: bytes, offer: Offer) -> FreeSlot | None:
        """Return the device as a slot, or None if it cannot be drawn now."""
        devices = self._market.devices
        record = devices.devices[device_id]
        if record is None or not self._market.capacity.can_work(device_id, record):
            return None
        provider = devices.providers[record.owner]
        return FreeSlot(
            device=device_id,
            owner=record.owner,
            bond=record.bond,
            # State before this block's draws: `_given` adds later assignments, for all services alike.
            free_bond=record.bond - record.secured + self._given.secured.get(device_id, 0),
            ask=offer.ask,
            key_since=max(record.registered_at, provider.key_since if provider else 0),
            # An owner that becomes a candidate after a recording could steer that draw like a changed slot.
            changed_at=max(record.changed_at, offer.since, devices.stake.candidate_since[record.owner]),
            depth=len(run_queue.units_of(record)) - self._given.units.get(device_id, 0),
            places=run_queue.places(record),
            freed=record.freed_at,
            kind=record.kind,
        )
