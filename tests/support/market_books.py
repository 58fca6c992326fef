"""The books of the economic pallets: every grain, lock, stake and appointment, counted independently of the pallets."""

from collections import Counter
from collections.abc import Iterator

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_lock import LockReason, TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System


def check_books(bound: Bound, issued: int) -> None:
    """Every grain has an owner, every reserved grain a reason, and every open unit its money and its place."""
    accounts = dict(bound[System].account.items())
    total = sum(one.data.free + one.data.reserved for one in accounts.values())
    assert total == bound[Balances].total_issuance.get()
    assert total + bound[Balances].burned.get() == issued
    reserved = {who: one.data.reserved for who, one in accounts.items() if one.data.reserved}
    assert reserved == _reasons(bound)
    _check_stakes(bound[TrustStake])
    _check_market(bound)


def _reasons(bound: Bound) -> dict[bytes, int]:
    """What each account should have reserved: stakes, unlocking chunks and locks."""
    sums: dict[bytes, int] = {}
    for who, amount in _holdings(bound):
        sums[who] = sums.get(who, 0) + amount
    return sums


def _holdings(bound: Bound) -> Iterator[tuple[bytes, int]]:
    for (_, staker), value in bound[TrustStake].stakes.items():
        yield staker, value
    for staker, chunks in bound[TrustStake].unlocking.items():
        yield from ((staker, one.value) for one in chunks)
    for who, locks in bound[TrustLock].locks.items():
        yield from ((who, one.amount) for one in locks)


def _check_stakes(stake: TrustStake) -> None:
    sums: dict[bytes, int] = {}
    delegators: dict[bytes, int] = {}
    for (validator, staker), value in stake.stakes.items():
        assert value > 0
        sums[validator] = sums.get(validator, 0) + value
        delegators[validator] = delegators.get(validator, 0) + (staker != validator)
    assert {validator: value for validator, value in stake.backing.items() if value} == sums
    assert all(stake.delegator_count[validator] == count for validator, count in delegators.items())
    assert stake.candidate_count.get() == len(list(stake.candidates.keys()))


def _check_market(bound: Bound) -> None:
    market, devices, lock = bound[InferenceMarket], bound[Devices], bound[TrustLock]
    open_units = {unit_id: unit for unit_id, unit in market.units.items() if unit and is_open(unit)}
    assert market.open_units.get() == len(open_units)
    wanted: dict[bytes, int] = {}
    deposits = _deposits(market, devices)
    secured: dict[bytes, int] = {}
    working: dict[bytes, bytes] = {}
    for unit in open_units.values():
        wanted[unit.customer] = wanted.get(unit.customer, 0) + unit.escrow + unit.bond
        assert len({racer.owner for racer in unit.racers}) == len(unit.racers)
        for racer in unit.racers:
            secured[racer.device] = secured.get(racer.device, 0) + racer.collateral
    bonds: dict[bytes, int] = {}
    for device, one in devices.devices.items():
        assert one is not None
        bonds[one.owner] = bonds.get(one.owner, 0) + one.bond
        assert one.secured == secured.get(device, 0)
        if one.assignment is not None:
            assert one.assignment in open_units
            working[device] = one.assignment
    for who, locks in lock.locks.items():
        amounts = {one.reason: one.amount for one in locks}
        assert amounts.get(LockReason.UNIT, 0) == wanted.pop(who, 0)
        assert amounts.get(LockReason.DEVICE_BOND, 0) == bonds.pop(who, 0)
        assert amounts.get(LockReason.DEPOSIT, 0) == deposits.pop(who, 0)
    assert not any(wanted.values())
    assert not any(bonds.values())
    assert not any(deposits.values())
    _check_offers(market, devices)
    _check_agenda(bound, open_units)


def _deposits(market: InferenceMarket, devices: Devices) -> dict[bytes, int]:
    """What each account has deposited: for its open services, for offers of its devices, for records of its units."""
    sums: dict[bytes, int] = {}
    for number, service in market.services.items():
        assert service is not None, number
        if service.is_open:
            sums[service.owner] = sums.get(service.owner, 0) + service.deposit
    for (_, device_id), offer in market.offers.items():
        device = devices.devices[device_id]
        assert offer is not None
        assert device is not None
        sums[device.owner] = sums.get(device.owner, 0) + offer.deposit
    for unit_id, unit in market.units.items():
        assert unit is not None, unit_id
        sums[unit.customer] = sums.get(unit.customer, 0) + unit.deposit
    return sums


def _check_offers(market: InferenceMarket, devices: Devices) -> None:
    """Offers are counted by service and by device, and none outlives its service for long."""
    offers = [pair for pair, _ in market.offers.items()]
    assert dict(market.offer_count.items()) == Counter(number for number, _ in offers)
    listed = [(number, device) for device, numbers in market.offered.items() for number in numbers]
    assert sorted(listed) == sorted(offers)
    for device_id, device in devices.devices.items():
        assert device is not None
        assert device.offers == len(market.offered[device_id])
    gone = {number for number, _ in offers if market.services[number] is None}
    assert gone == set(market.forsaken.keys())


def _check_agenda(bound: Bound, open_units: dict[bytes, Unit]) -> None:
    """Every open unit will be called again without anybody's help, and nothing that ended will."""
    market = bound[InferenceMarket]
    agenda = market.state.agenda
    called: dict[str, set[bytes]] = {}
    for name in ("by_height", "by_finality", "draws", "rising", "expiring"):
        schedule = getattr(agenda, name)
        places = {}
        for (at, unit), is_there in schedule.waiting.items():
            assert is_there
            assert at > schedule.cursor.get()
            assert unit not in places, "a unit waits at one height"
            places[unit] = at
        assert places == dict(schedule.places.items())
        called[name] = set(places)
    ended = {unit_id for unit_id, _ in market.units.items()} - set(open_units)
    assert called.pop("expiring") == ended
    assert set.union(*called.values()) == set(open_units)
    sleeping = {unit_id: unit for unit_id, unit in open_units.items() if unit.asleep_since}
    listed = {(number, key) for (number, key), _ in market.sleeping.items()}
    assert listed == {
        (unit.service, unit.asleep_since.to_bytes(4, "big") + unit_id) for unit_id, unit in sleeping.items()
    }
    assert dict(market.sleepers_count.items()) == Counter(number for number, _ in listed)
    assert called["rising"] <= set(sleeping)
    queued = {unit_id for unit_id, unit in open_units.items() if unit.state is UnitState.QUEUED}
    assert called["draws"] == queued - set(sleeping), "who waits in the queue sleeps, or will be drawn"
