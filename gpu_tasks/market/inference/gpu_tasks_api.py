"""`GpuTasksApi`: queries of providers, customers and explorers about devices, units and duties."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from gpu_tasks.market import rounds
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.checkers import checker_of, in_office, to_seal_to
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DEVICES_PER_PROVIDER_MAX, Device
from gpu_tasks.market.ids import DeviceId, ServiceId, UnitId
from gpu_tasks.market.inference import intake, money, race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX, Offer
from gpu_tasks.market.inference.units import UNITS_OPEN_MAX, Unit, UnitState, dispute_id_of, racer_of
from runtime.encoding.codec import U8, Bounded, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.api import RuntimeApi, query
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.stakers import VALIDATORS_MAX, PublicKey
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System

READERS_MAX = 128


@struct
class UnitStatus:
    """A unit with its clocks. Heights are 0 where a clock does not run."""

    unit: Unit
    claim: ResultClaim | None
    """The unit's open claim. `ClaimsApi_claim` returns its clocks."""
    dispute: Hash | None
    """The id of the unit's open dispute, for `DisputesApi_dispute`. While racers of a batch show nodes, there is none.
    """
    commits_until: BlockNumber
    """The last block in which any racer may commit, or 0 while one of them has not begun the unit."""
    reveals_from: BlockNumber
    reveals_until: BlockNumber


@struct
class DutyStatus:
    """A race that a provider was drawn for, with its unit."""

    id: UnitId
    status: UnitStatus
    before: U8
    """The number of units that its device has before this one."""
    commits_until: BlockNumber
    """The provider's own last block to commit, or 0 while its clock does not run."""


@struct
class DeviceStatus:
    """A device and its offers."""

    id: DeviceId
    device: Device
    offers: Annotated[tuple[tuple[ServiceId, Offer], ...], Bounded(OFFERS_PER_DEVICE_MAX)]
    """Ascending by service. Offers of a dropped service end in the following blocks."""


@struct
class InputReader:
    """An account that may race, check or vote, with the key for sealing an input's content key to it."""

    stash: AccountId
    seal_key: PublicKey
    key_since: BlockNumber


@struct
class Quote:
    """The costs of a unit: the grains locked now, the grains prepaid, and the greatest cost."""

    locked: Balance
    prepaid: Balance
    cost_max: Balance


class GpuTasksApi(RuntimeApi, version=1):
    """Devices, units and duties."""

    @query
    def unit(self, unit: UnitId) -> UnitStatus | None:
        """Return a unit that is open or ended recently, or None."""
        record = self.bound[InferenceMarket].units[unit]
        return None if record is None else self._status(unit, record)

    @query
    def duties(self, stash: AccountId) -> Annotated[tuple[DutyStatus, ...], Bounded(UNITS_OPEN_MAX)]:
        """Return the races that a provider was drawn for, by ascending unit.

        `ClaimsApi_duties` and `DisputesApi_ballots` return its duties in claims and disputes.
        """
        market = self.bound[InferenceMarket]
        statuses = []
        for unit_id, _ in sorted(market.duties.under(stash)):
            record = market.units[unit_id]
            if record is not None:
                statuses.append(self._duty(stash, unit_id, record))
        return tuple(statuses[:UNITS_OPEN_MAX])

    @query
    def devices_of(self, owner: AccountId) -> Annotated[tuple[DeviceStatus, ...], Bounded(DEVICES_PER_PROVIDER_MAX)]:
        """Return the devices of one provider with their offers, by ascending device."""
        device_ids = sorted(device_id for device_id, _ in self.bound[Devices].devices_of.under(owner))
        records = ((device_id, self.bound[Devices].devices[device_id]) for device_id in device_ids)
        return tuple(
            DeviceStatus(device_id, record, self._offers(device_id))
            for device_id, record in records
            if record is not None
        )

    @query
    def provider_stash(self, provider_key: AccountId) -> AccountId | None:
        """Return the stash of a provider key, or None."""
        return self.bound[TrustStake].stash_of(provider_key)

    @query
    def readers(self, service: ServiceId) -> Annotated[tuple[InputReader, ...], Bounded(READERS_MAX)]:
        """Return the accounts to seal an input to: possible checkers first, then owners of offering devices.

        Possible checkers are eligible members of the current and of the next active set. The answer has at most 128.
        """
        market, devices = self.bound[InferenceMarket], self.bound[Devices]
        checker_stashes = to_seal_to(devices)
        offering = (devices.devices[device_id] for device_id, _ in market.offers.under(service))
        racer_stashes = sorted(record.owner for record in offering if record is not None)
        input_readers: list[InputReader] = []
        for stash in dict.fromkeys((*checker_stashes, *racer_stashes)):
            # Reads end at the limit, because a proof of the answer covers every value that was read.
            if len(input_readers) == READERS_MAX:
                break
            input_readers.extend(self._reader(stash))
        return tuple(input_readers)

    @query
    def checking_readers(self) -> Annotated[tuple[InputReader, ...], Bounded(VALIDATORS_MAX)]:
        """Return the possible checkers. An input needs a box for each one with a `key_since` not after its sealing.

        An input needs no box for a checker that joined after its sealing. So no later arrival turns an honest input
        into a bad one. If `readers` has no room for both active sets, the next one is left out.
        """
        stake, devices = self.bound[TrustStake], self.bound[Devices]
        checker_stashes = to_seal_to(devices)
        if len(checker_stashes) > READERS_MAX:
            checker_stashes = [stash for stash, _ in in_office(devices)]
        checker_readers = (input_reader for stash in checker_stashes for input_reader in self._reader(stash))
        return tuple(
            replace(
                checker_reader, key_since=max(checker_reader.key_since, _checkers_since(stake, checker_reader.stash))
            )
            for checker_reader in checker_readers
        )

    @query
    def quote(self, service: ServiceId, price_max: Balance, racers: U8) -> Quote | None:
        """Return the amounts that one unit of these terms locks and costs, or None for an unknown service."""
        market = self.bound[InferenceMarket]
        service_record = market.services[service]
        if service_record is None:
            return None
        unit_costs = intake.costs(market, service_record.terms, price_max, racers)
        return Quote(
            locked=unit_costs.escrow + money.customer_bond(price_max, market.customer_bond) + market.unit_deposit,
            prepaid=unit_costs.prepaid,
            cost_max=unit_costs.escrow + unit_costs.prepaid,
        )

    def _reader(self, stash: bytes) -> Iterator[InputReader]:
        """Yield the reader, or nothing if the stash has no provider record or is no candidate."""
        checker = checker_of(self.bound[Devices], stash)
        if checker is not None:
            yield InputReader(stash, checker.seal_key, checker.key_since)

    def _offers(self, device_id: bytes) -> tuple[tuple[int, Offer], ...]:
        """Return a device's offers, by service."""
        market = self.bound[InferenceMarket]
        stored_offers = (
            (service_number, market.offers[service_number, device_id])
            for service_number in sorted(market.device_offers[device_id])
        )
        return tuple((service_number, offer) for service_number, offer in stored_offers if offer is not None)

    def _duty(self, stash: bytes, unit_id: bytes, record: Unit) -> DutyStatus:
        unit_status, own_racer = self._status(unit_id, record), racer_of(record, stash)
        device_record = None if own_racer is None else self.bound[Devices].devices[own_racer.device]
        if own_racer is None or device_record is None or record.round is None:
            return DutyStatus(unit_id, unit_status, 0, 0)
        market, queued_units = self.bound[InferenceMarket], run_queue.units_of(device_record)
        # A provider acts in the next block at the earliest, so its clocks are those of that block.
        next_height, final_height = self.bound[System].number.get() + 1, self.bound[Beacon].final_height()
        current_round = rounds.with_commit_window(record.round, next_height, final_height)
        commits_until = race_clocks.commit_deadline(own_racer, current_round, market.windows_of(record))
        return DutyStatus(
            unit_id, unit_status, queued_units.index(unit_id) if unit_id in queued_units else 0, commits_until or 0
        )

    def _status(self, unit_id: bytes, record: Unit) -> UnitStatus:
        """Return the unit with its clocks, as the next block finds them if it refers to no newer final block."""
        market, claim = self.bound[InferenceMarket], self.bound[ResultClaims].claims[unit_id]
        if record.state is not UnitState.RACING or record.round is None:
            return UnitStatus(record, claim, self._dispute(unit_id, record), 0, 0, 0)
        windows = market.windows_of(record)
        next_height, final_height = self.bound[System].number.get() + 1, self.bound[Beacon].final_height()
        current_round = race_clocks.as_found(record.round, record.racers, windows, next_height, final_height)
        return UnitStatus(
            record,
            claim=None,
            dispute=None,
            commits_until=current_round.closed_at
            or race_clocks.latest_deadline(record.racers, current_round, windows)
            or 0,
            reveals_from=current_round.reveals_from,
            reveals_until=rounds.reveal_deadline(current_round, windows) or 0,
        )

    def _dispute(self, unit_id: bytes, record: Unit) -> bytes | None:
        """Return the id of a unit's open dispute, or None."""
        if record.state is not UnitState.DISPUTED:
            return None
        dispute_id = dispute_id_of(unit_id, record.attempt)
        return dispute_id if dispute_id in self.bound[InferenceMarket].unit_of_dispute else None


def _checkers_since(stake: TrustStake, stash: bytes) -> int:
    return max(stake.candidate_since[stash], stake.known_since(stash))
