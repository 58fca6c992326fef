"""The books of the economic pallets: every grain, lock, stake and appointment, counted independently of the pallets."""

from collections.abc import Iterator

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import is_open
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
    deposits = _service_deposits(market)
    secured: dict[bytes, int] = {}
    working: dict[bytes, bytes] = {}
    for unit in open_units.values():
        wanted[unit.customer] = wanted.get(unit.customer, 0) + unit.escrow + unit.bond
        deposits[unit.customer] = deposits.get(unit.customer, 0) + unit.deposit
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
    _check_agenda(bound, set(open_units))


def _service_deposits(market: InferenceMarket) -> dict[bytes, int]:
    """What each owner has deposited for services that are open."""
    sums: dict[bytes, int] = {}
    for number, one in market.services.items():
        assert one is not None, number
        if one.is_open:
            sums[one.owner] = sums.get(one.owner, 0) + one.deposit
    return sums


def _check_agenda(bound: Bound, open_units: set[bytes]) -> None:
    """Every open unit will be called again without anybody's help."""
    market = bound[InferenceMarket]
    called: set[bytes] = set()
    for queue, cursor in ((market.agenda, market.agenda_cursor), (market.final_agenda, market.final_cursor)):
        for (at, unit), is_there in queue.items():
            assert is_there
            assert at > cursor.get()
            called.add(unit)
    assert open_units <= called
