"""`GpuTasksApi`: what providers, customers and explorers ask about devices, services, units and duties."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from typing import Annotated

from gpu_tasks.market import rounds
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import INSPECTORS, ROWS_DRAWN, CapacityProof, Enrolment, drawn_rows
from gpu_tasks.market.capacity.roll_call import RollCall
from gpu_tasks.market.courts.cases import CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.judges import in_office, judge_of, to_seal_to
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, Device, Provider
from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference import intake, money, race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX, SERVICES_MAX, Offer, Service
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX, Unit, UnitState, racer_of
from runtime.encoding.codec import U8, U32, U64, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber
from runtime.frame.api import RuntimeApi, query
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.stakers import VALIDATORS_MAX, PublicKey
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System

READERS_MAX = 128
SERVICES_LISTED_MAX = SERVICES_MAX + UNITS_OPEN_MAX
"""Those that are open, and those that were closed and wait for the last of their units."""
DEVICES_MAX = 1_024
OFFERS_SHOWN_MAX = 1_024
"""Of the devices in one answer together: 16,000 took 138 ms of the process that answers everybody."""


@struct
class UnitStatus:
    """A unit, and what its clocks say now. Heights are 0 where a clock does not run."""

    unit: Unit
    case: CourtCase | None
    """The case about it, while there is one; its clocks are what `CourtsApi_case` says."""
    commits_until: BlockNumber
    """When the last of its racers has no time left; 0 while one of them has not turned to it."""
    reveals_from: BlockNumber
    reveals_until: BlockNumber


@struct
class DutyStatus:
    """A race that a provider was drawn for, with the unit that it is about."""

    id: UnitId
    status: UnitStatus
    before: U8
    """How many units its device has before this one."""
    commits_until: BlockNumber
    """The provider's own last block to commit in; 0 while its clock does not run."""


@struct
class DeviceStatus:
    """A device and what it works for."""

    id: DeviceId
    device: Device
    offers: Annotated[tuple[tuple[ServiceId, Offer], ...], Bounded(OFFERS_PER_DEVICE_MAX)]
    """By ascending service; those of a service that is gone end in the blocks that follow."""


@struct
class InputReader:
    """Somebody who may race or judge, and the key to seal the input's content key to."""

    stash: AccountId
    seal_key: PublicKey
    key_since: BlockNumber


@struct
class Quote:
    """What a unit would cost: what is locked now, and what can be spent of it at most."""

    locked: Balance
    prepaid: Balance
    cost_max: Balance


@struct
class CapacityStatus:
    """What stands of a device at roll calls. Rates are thousand millions of operations a slot."""

    enrolled: Enrolment | None
    proven: U64
    rate_min: U64
    """Of its class."""
    has_proven: bool
    """Whether it may be given work, as far as roll calls go."""
    called: RollCall | None
    """The newest roll call."""
    proof: CapacityProof | None
    """What the device has shown at it."""
    rows: Annotated[tuple[U32, ...], Bounded(ROWS_DRAWN)]
    """Those that are drawn of what it committed to, once they are."""
    inspectors: Annotated[tuple[AccountId, ...], Bounded(INSPECTORS)]
    """Who looks at them, once they are drawn."""


class GpuTasksApi(RuntimeApi, version=1):
    """Devices, services, units and duties."""

    @query
    def unit(self, unit: UnitId) -> UnitStatus | None:
        """A unit, open or ended not long ago."""
        record = self.bound[InferenceMarket].units[unit]
        return None if record is None else self._status(unit, record)

    @query
    def duties(self, stash: AccountId) -> Annotated[tuple[DutyStatus, ...], Bounded(UNITS_OPEN_MAX)]:
        """The races that a provider was drawn for, by ascending unit; what it judges, `CourtsApi_seats` says."""
        market = self.bound[InferenceMarket]
        found = []
        for unit_id, _ in sorted(market.duties.under(stash)):
            unit = market.units[unit_id]
            if unit is not None:
                found.append(self._duty(stash, unit_id, unit))
        return tuple(found[:UNITS_OPEN_MAX])

    @query
    def services(self) -> Annotated[tuple[tuple[ServiceId, Service], ...], Bounded(SERVICES_LISTED_MAX)]:
        """Every service, by number."""
        numbered = sorted(self.bound[InferenceMarket].services.items())
        return tuple((number, service) for number, service in numbered if service is not None)

    @query
    def devices(self) -> Annotated[tuple[DeviceStatus, ...], Bounded(DEVICES_MAX)]:
        """The device table, by ascending owner and device; only the first of very many devices or offers."""
        first = self._table()[:DEVICES_MAX]
        offers = accumulate(device.offers for _, device in first)
        return self._shown([row for row, together in zip(first, offers, strict=True) if together <= OFFERS_SHOWN_MAX])

    @query
    def devices_of(self, owner: AccountId) -> Annotated[tuple[DeviceStatus, ...], Bounded(DEVICES_PER_PROVIDER_MAX)]:
        """The devices of one provider, whatever the table has no room for."""
        return self._shown([(key, device) for key, device in self._table() if device.owner == owner])

    @query
    def capacity(self, device: DeviceId) -> CapacityStatus | None:
        """What stands of a device at roll calls; None for no device."""
        record, capacity = self.bound[Devices].devices[device], self.bound[Capacity]
        if record is None:
            return None
        called, enrolled = capacity.current.get(), capacity.enrolments[device]
        proof = None if called is None else capacity.proofs[device, called.number]
        rows: tuple[int, ...] = ()
        inspectors: tuple[bytes, ...] = ()
        if called is not None and proof is not None and called.rows_seed != bytes(32):
            rows = tuple(drawn_rows(called.rows_seed, device, proof.shape.rows))
        if called is not None and enrolled is not None and called.inspectors_seed != bytes(32):
            inspectors = tuple(capacity.inspectors(called, device, enrolled.owner))
        proven, has_proven = capacity.proven(device), capacity.has_proven(device, record.kind)
        rate_min = capacity.rate_min(record.kind)
        return CapacityStatus(enrolled, proven, rate_min, has_proven, called, proof, rows, inspectors)

    @query
    def provider(self, stash: AccountId) -> Provider | None:
        """How to reach a provider."""
        return self.bound[Devices].providers[stash]

    @query
    def provider_stash(self, provider_key: AccountId) -> AccountId | None:
        """The stash that a provider key works for."""
        return self.bound[TrustStake].stash_of(provider_key)

    @query
    def readers(self, service: ServiceId) -> Annotated[tuple[InputReader, ...], Bounded(READERS_MAX)]:
        """Whom to seal an input to: who is in office or elected next and may judge, then who offers it; at most 128."""
        market, devices = self.bound[InferenceMarket], self.bound[Devices]
        judges = to_seal_to(devices)
        offering = (devices.devices[key] for key, _ in market.offers.under(service))
        racers = sorted(device.owner for device in offering if device is not None)
        found: list[InputReader] = []
        for stash in dict.fromkeys((*judges, *racers)):
            if len(found) == READERS_MAX:  # whoever proves the answer proves all that was looked at
                break
            found.extend(self._reader(stash))
        return tuple(found)

    @query
    def judging_readers(self) -> Annotated[tuple[InputReader, ...], Bounded(VALIDATORS_MAX)]:
        """Those in office or elected next who may judge: each must have a box in inputs sealed since its `key_since`.

        Who was none at that time is not asked for, so that nobody who joins later makes an honest input a bad one. Nor
        is who is elected next, where `readers` has no room for both sets.
        """
        stake, devices = self.bound[TrustStake], self.bound[Devices]
        judges = to_seal_to(devices)
        if len(judges) > READERS_MAX:
            judges = [stash for stash, _ in in_office(devices)]
        readers = (reader for stash in judges for reader in self._reader(stash))
        return tuple(replace(each, key_since=max(each.key_since, _judges_since(stake, each.stash))) for each in readers)

    @query
    def quote(self, service: ServiceId, price_max: Balance, racers: U8, requests: U32) -> Quote | None:
        """What one unit of so many requests at these terms locks and costs."""
        market = self.bound[InferenceMarket]
        sold = market.services[service]
        if sold is None:
            return None
        costs = intake.costs(market, price_max, racers, requests)
        return Quote(
            locked=costs.escrow + money.customer_bond(price_max, market.customer_bond) + market.unit_deposit,
            prepaid=costs.prepaid,
            cost_max=costs.escrow + costs.prepaid,
        )

    def _reader(self, stash: bytes) -> Iterator[InputReader]:
        """Nobody, for who has no provider key or is no candidate."""
        judge = judge_of(self.bound[Devices], stash)
        if judge is not None:
            yield InputReader(stash, judge.seal_key, judge.key_since)

    def _table(self) -> list[tuple[bytes, Device]]:
        """Every device, by ascending owner and device."""
        table = [(key, device) for key, device in self.bound[Devices].devices.items() if device]
        return sorted(table, key=lambda row: (row[1].owner, row[0]))

    def _shown(self, table: list[tuple[bytes, Device]]) -> tuple[DeviceStatus, ...]:
        # of these devices alone: all offers of a market with 16,000 took 170 ms, whoever was asked about
        return tuple(DeviceStatus(key, device, self._offers(key)) for key, device in table)

    def _offers(self, device: bytes) -> tuple[tuple[int, Offer], ...]:
        """A device's offers, by service."""
        market = self.bound[InferenceMarket]
        found = ((service, market.offers[service, device]) for service in sorted(market.device_offers[device]))
        return tuple((service, offer) for service, offer in found if offer is not None)

    def _duty(self, stash: bytes, unit_id: bytes, unit: Unit) -> DutyStatus:
        status, racer = self._status(unit_id, unit), racer_of(unit, stash)
        device = None if racer is None else self.bound[Devices].devices[racer.device]
        if racer is None or device is None or unit.round is None:
            return DutyStatus(unit_id, status, 0, 0)
        market, units = self.bound[InferenceMarket], run_queue.units_of(device)
        height, final_height = self.bound[System].number.get() + 1, self.bound[Beacon].final_height()
        current = rounds.with_commit_window(unit.round, height, final_height)
        until = race_clocks.commit_deadline(racer, current, market.windows_of(unit))
        return DutyStatus(unit_id, status, units.index(unit_id) if unit_id in units else 0, until or 0)

    def _status(self, unit_id: bytes, unit: Unit) -> UnitStatus:
        """The clocks as the next block will see them, if it refers to no newer final block."""
        market, case = self.bound[InferenceMarket], self.bound[Courts].cases[unit_id]
        if unit.state is not UnitState.RACING or unit.round is None:
            return UnitStatus(unit, case, 0, 0, 0)
        windows = market.windows_of(unit)
        height, final_height = self.bound[System].number.get() + 1, self.bound[Beacon].final_height()
        current = race_clocks.as_found(unit.round, unit.racers, windows, height, final_height)
        return UnitStatus(
            unit,
            case,
            commits_until=current.closed_at or race_clocks.latest_deadline(unit.racers, current, windows) or 0,
            reveals_from=current.reveals_from,
            reveals_until=rounds.reveal_deadline(current, windows) or 0,
        )


def _judges_since(stake: TrustStake, stash: bytes) -> int:
    return max(stake.candidate_since[stash], stake.known_since(stash))
