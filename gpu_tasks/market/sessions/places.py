"""Places: the sessions that a device serves at once, as offered, occupied and drawn.

Invariants: a session occupies one place of its provider's device, and one of the spare's. A place that became free, or
was offered, after a session's recording brings its device into no draw for it: its owner may know the beacon.
"""

from dataclasses import replace

from gpu_tasks.market.capacity.capacity import PROVEN_WEIGHT
from gpu_tasks.market.draws import DrawOrder, FreeSlot, Given, Wanted
from gpu_tasks.market.inference.checkers_left import CheckersLeft, read_checkers
from gpu_tasks.market.inference.events import UnknownService
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX
from gpu_tasks.market.inference.slots import LOOK_WEIGHT, ORDER_WEIGHT
from gpu_tasks.market.sessions.events import PlacesOffered, TooManyPlaces
from gpu_tasks.market.sessions.money import collateral_of
from gpu_tasks.market.sessions.records import (
    LEGS_MAX,
    PLACE_OFFERS_PER_SERVICE_MAX,
    PLACES_MAX,
    Occupied,
    PlaceOffer,
    SessionRecord,
)
from gpu_tasks.market.sessions.storage import SessionsStorage
from gpu_tasks.market.weights import WEIGHTS
from runtime.frame.measured import times
from runtime.frame.pallet import ensure, known
from runtime.frame.schedule import WeightMeter

SCAN_WEIGHT = WEIGHTS["Sessions.on_initialize scan"] + PROVEN_WEIGHT
"""The weight of reading one place offer with the offer beside it, its device, and the device's owner."""


def offer(room: SessionsStorage, device_id: bytes, service_number: int, places: int) -> None:
    """Set the number of sessions that a device serves at once. With 0 it serves no new ones of this service."""
    ensure(places <= PLACES_MAX, TooManyPlaces)
    standing = room.place_offers[service_number, device_id]
    if places:
        ensure(room.inference.offers[service_number, device_id] is not None, UnknownService)
        if standing is None:
            ensure(_offers_of(room, device_id) < OFFERS_PER_DEVICE_MAX, TooManyPlaces)
            ensure(room.place_offer_count[service_number] < PLACE_OFFERS_PER_SERVICE_MAX, TooManyPlaces)
            _count_offer(room, service_number, device_id, +1)
        room.place_offers[service_number, device_id] = PlaceOffer(places, room.height)
    else:
        known(standing, UnknownService)
        del room.place_offers[service_number, device_id]
        _count_offer(room, service_number, device_id, -1)
        _put_occupied(room, device_id, room.occupied[device_id])
    room.emit(PlacesOffered(service_number, device_id, places))


def occupy(room: SessionsStorage, device_id: bytes, session_id: bytes) -> None:
    """Let a session occupy a place of a device."""
    record = room.occupied[device_id]
    room.occupied[device_id] = replace(record, sessions=record.sessions + 1)
    room.device_sessions[device_id, session_id] = True


def vacate(room: SessionsStorage, device_id: bytes, session_id: bytes) -> None:
    """Free the place of a session."""
    record = room.occupied[device_id]
    assert record.sessions, "a place is occupied before it is freed"
    freed_at = (room.height, *record.freed_at)[:PLACES_MAX]
    _put_occupied(room, device_id, Occupied(record.sessions - 1, freed_at))
    del room.device_sessions[device_id, session_id]


def _put_occupied(room: SessionsStorage, device_id: bytes, record: Occupied) -> None:
    # Without a place offer no draw asks for the freed places, and a later offer is too new for earlier recordings.
    if record.sessions or (record.freed_at and _offers_of(room, device_id)):
        room.occupied[device_id] = record
    else:
        del room.occupied[device_id]


def _count_offer(room: SessionsStorage, service_number: int, device_id: bytes, added: int) -> None:
    # A device with a place offer stays in the market, so that no entry outlives it.
    room.devices.count_offer(device_id, added)
    offers_left = room.place_offer_count[service_number] + added
    if offers_left:
        room.place_offer_count[service_number] = offers_left
    else:
        del room.place_offer_count[service_number]


def _offers_of(room: SessionsStorage, device_id: bytes) -> int:
    """Return the number of services for which a device offers places."""
    record = room.devices.devices[device_id]
    return 0 if record is None else record.offers - len(room.inference.device_offers[device_id])


class Places:
    """The places that can be drawn in this block. Each service is read once, and seated sessions are noted."""

    def __init__(self, room: SessionsStorage, meter: WeightMeter) -> None:
        """Start with all free places before the block's draws. Reads and looks are charged to the budget."""
        self._room = room
        self._budget = meter
        self._slots: dict[int, list[FreeSlot]] = {}
        self._orders: dict[tuple[int, bytes], DrawOrder] = {}
        self._given = Given()
        self._checkers: CheckersLeft | None = None

    def draw(self, session: SessionRecord, beacon: bytes) -> list[FreeSlot]:
        """Return a device and a spare of another owner, the device alone, or nothing. Note their places as taken."""
        order, wanted = self._order(session, beacon), self._wanted(session)
        looks_before = order.looks
        # Without a second owner, a session without spare is better than none.
        drawn = order.draw(wanted, LEGS_MAX) or order.draw(wanted, 1)
        self._budget.spend(times(order.looks - looks_before, LOOK_WEIGHT))
        for place, slot in enumerate(drawn):
            # The spare secures nothing before a hand-over.
            self._given.give(slot.device, 0 if place else wanted.collateral)
        return drawn

    def _wanted(self, session: SessionRecord) -> Wanted:
        # An account that is a stash's provider key is the same party as the stash.
        named = (session.customer, session.signer)
        excluded = (*named, *(self._room.devices.operator(account) for account in named))
        left = self._in_office()
        return Wanted(
            rate=session.rate,
            collateral=collateral_of(session.rules, session.exposure),
            sealed_at=session.recorded_at,
            recorded_at=session.recorded_at,
            excluded=excluded,
            checkers=left.stakes,
            # A negative number of spare voters makes the draw return nobody.
            spare=left.spare(session.recorded_at, excluded, LEGS_MAX),
        )

    def _order(self, session: SessionRecord, beacon: bytes) -> DrawOrder:
        key = session.service, beacon
        if key not in self._orders:
            slots = self._of_service(session.service)
            self._budget.spend(times(len(slots), ORDER_WEIGHT))
            self._orders[key] = DrawOrder(
                slots,
                seed=beacon,
                label=b"session" + session.service.to_bytes(4, "little"),
                recorded_at=session.recorded_at,
                given_units=self._given,
            )
        return self._orders[key]

    def _of_service(self, service_number: int) -> list[FreeSlot]:
        if service_number not in self._slots:
            slots = []
            for device_id, places in self._room.place_offers.under(service_number):
                self._budget.spend(SCAN_WEIGHT)
                standing = self._room.inference.offers[service_number, device_id]
                if standing is not None and places is not None:
                    slots += self._slot(device_id, standing.ask, max(standing.since, places.since), places.places)
            self._slots[service_number] = slots
        return self._slots[service_number]

    def _slot(self, device_id: bytes, ask: int, offered_at: int, places: int) -> list[FreeSlot]:
        """Return the device as a slot, or nothing if it cannot be drawn now."""
        room, record = self._room, self._room.devices.devices[device_id]
        if record is None or not room.inference.capacity.can_serve(device_id, record):
            return []
        provider, taken = room.devices.providers[record.owner], room.occupied[device_id]
        slot = FreeSlot(
            device=device_id,
            owner=record.owner,
            bond=record.bond,
            # State before this block's draws: `_given` adds later assignments, for all services alike.
            free_bond=record.bond - record.secured + self._given.secured.get(device_id, 0),
            ask=ask,
            key_since=max(record.registered_at, provider.key_since if provider else 0),
            # An owner that becomes a candidate after a recording could steer that draw like a changed slot.
            changed_at=max(record.changed_at, offered_at, room.devices.stake.candidate_since[record.owner]),
            depth=taken.sessions - self._given.units.get(device_id, 0),
            places=places,
            freed=taken.freed_at,
            kind=record.kind,
        )
        return [slot]

    def _in_office(self) -> CheckersLeft:
        """Return the eligible voters, read once a block."""
        if self._checkers is None:
            self._checkers, read_weight = read_checkers(self._room.devices)
            self._budget.spend(read_weight)
        return self._checkers
