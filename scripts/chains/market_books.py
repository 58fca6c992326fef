"""The books of the economic pallets: every grain, hold, stake and appointment, counted independently of the pallets."""

from collections import Counter
from collections.abc import Iterator

from gpu_tasks.market.ages import aged, unit_of
from gpu_tasks.market.capacity.capacity import Capacity
from gpu_tasks.market.capacity.proofs import roll_call_hold
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices import run_queue
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import COLLATERAL, FREE_BOND, provider_hold
from gpu_tasks.market.inference import race_clocks
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import offer_hold, service_hold
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY, Unit, UnitState, holds_collateral, is_open
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from scripts.chains.court_books import court_holds
from scripts.chains.hold_books import check_holds
from scripts.chains.leaf_books import leaf_cases, leaf_holds, units_compared
from scripts.chains.stake_holds import check_stakes, stake_holds
from scripts.chains.task_books import TaskBooks, task_books


def check_books(bound: Bound, issued: int) -> None:
    """Every grain has an owner, every reserved grain a case, and every open unit its money and its place."""
    accounts = dict(bound[System].account.items())
    total = sum(one.data.free + one.data.reserved for one in accounts.values())
    assert total == bound[Balances].total_issuance.get()
    assert total + bound[Balances].burned.get() == issued
    check_holds(bound)
    expected, tasks = court_holds(bound) + leaf_holds(bound), task_books(bound)
    for who, hold, amount in (*_cases(bound), *stake_holds(bound)):
        expected[who, hold] += amount
    held = dict(bound[Balances].held_cases.items())
    collateral = {key: held.pop(key) for key in list(held) if key[1].reason is COLLATERAL}
    tasks.check({key: held.pop(key) for key in list(held) if key[1].reason in TrainingMarket.hold_reasons})
    assert held == {key: amount for key, amount in expected.items() if amount}
    _check_collateral(bound, collateral)
    check_stakes(bound)
    _check_market(bound, tasks)


def _cases(bound: Bound) -> Iterator[tuple[bytes, Hold, int]]:
    """What each account should hold for each case: bonds, money and deposits; collateral apart."""
    devices, market = bound[Devices], bound[InferenceMarket]
    for stash, provider in devices.providers.items():
        assert provider is not None
        yield stash, provider_hold(stash), provider.deposit
    for device, one in devices.devices.items():
        assert one is not None
        yield one.owner, Hold(FREE_BOND, device), one.bond - one.secured
    for device, enrolled in bound[Capacity].enrolments.items():
        assert enrolled is not None
        yield enrolled.owner, roll_call_hold(device), enrolled.bond
    for unit_id, unit in market.units.items():
        assert unit is not None
        yield unit.customer, Hold(UNIT_DEPOSIT, unit_id), unit.deposit
        if is_open(unit):
            yield unit.customer, Hold(UNIT_MONEY, unit_id), unit.escrow + unit.bond
    for number, service in market.services.items():
        assert service is not None
        yield service.owner, service_hold(number), service.deposit if service.is_open else 0
    for (number, device), offer in market.offers.items():
        owner = devices.devices[device]
        assert offer is not None
        assert owner is not None
        yield owner.owner, offer_hold(number, device), offer.deposit


def _check_collateral(bound: Bound, held: dict[tuple[bytes, Hold], int]) -> None:
    """Who stands for something said of a unit holds its collateral for it; it is what its device secures."""
    secured: Counter[bytes] = Counter()
    for unit_id, unit in bound[InferenceMarket].units.items():
        assert unit is not None
        for racer in holds_collateral(unit):
            assert held.pop((racer.owner, Hold(COLLATERAL, unit_id)), 0) == racer.collateral
            secured[racer.device] += racer.collateral
    assert not held
    for device, one in bound[Devices].devices.items():
        assert one is not None
        assert one.secured == secured[device]


def _check_market(bound: Bound, tasks: TaskBooks) -> None:
    market, devices = bound[InferenceMarket], bound[Devices]
    open_units = {unit_id: unit for unit_id, unit in market.units.items() if unit and is_open(unit)}
    watched = {unit_id for unit_id, unit in market.units.items() if unit and unit.is_watched}
    assert market.open_units.get() == len(open_units) + len(watched)
    judged = {unit_id for unit_id, unit in open_units.items() if unit.state is UnitState.JUDGING}
    checked, leaves = leaf_cases(bound)
    assert checked <= watched
    cases = judged - units_compared(bound) | watched - checked | leaves | tasks.cases
    assert {case_id for case_id, _ in bound[Courts].cases.items()} == cases
    for unit in open_units.values():
        assert len({racer.owner for racer in unit.racers}) == len(unit.racers)
    bound_to_tasks = {}
    for key, device in devices.devices.items():
        assert device is not None
        if device.assignment is not None and device.assignment not in open_units:
            bound_to_tasks[key] = device.assignment
    assert bound_to_tasks == tasks.busy
    listed = [pair for pair, _ in devices.devices_of.items()]
    assert sorted(listed) == sorted((one.owner, device) for device, one in devices.devices.items() if one)
    _check_queues(devices, open_units)
    _check_offers(market, devices)
    _check_agenda(bound, open_units)


def _check_queues(devices: Devices, open_units: dict[bytes, Unit]) -> None:
    """A device has the units whose racer it is and may still commit, and works on the one that began."""
    has: dict[bytes, set[bytes]] = {}
    begun: dict[bytes, set[bytes]] = {}
    for unit_id, unit in open_units.items():
        for racer in unit.racers if unit.state is UnitState.RACING else ():
            if race_clocks.is_open(racer):
                has.setdefault(racer.device, set()).add(unit_id)
                if racer.started_at:
                    begun.setdefault(racer.device, set()).add(unit_id)
    recalled = dict(devices.recalled.items())
    for key, device in devices.devices.items():
        assert device is not None
        if device.is_dedicated:
            assert not device.behind
            continue
        assert set(run_queue.units_of(device)) | set(recalled.get(key, ())) >= has.get(key, set())
        assert set(run_queue.units_of(device)) <= has.get(key, set())
        assert begun.get(key, set()) == ({device.assignment} if device.assignment is not None else set())


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
    drawn = {unit_of(key) for key in called["draws"]}
    assert called["draws"] == {aged(open_units[unit_id].posted_at, unit_id) for unit_id in drawn}
    called["draws"] = drawn
    records = [(unit_id, unit) for unit_id, unit in market.units.items() if unit]
    ended = {unit_id for unit_id, unit in records if unit_id not in open_units and not unit.is_watched}
    assert called.pop("expiring") == ended
    judged = {unit_id for unit_id, unit in open_units.items() if unit.state is UnitState.JUDGING}
    assert set.union(*called.values()) == set(open_units) - judged, "what is judged is on the courts' agenda"
    sleeping = {unit_id: unit for unit_id, unit in open_units.items() if unit.asleep_since}
    listed = {(number, key) for (number, key), _ in market.sleeping.items()}
    assert listed == {(unit.service, aged(unit.asleep_since, unit_id)) for unit_id, unit in sleeping.items()}
    assert dict(market.sleepers_count.items()) == Counter(number for number, _ in listed)
    assert called["rising"] <= set(sleeping)
    queued = {unit_id for unit_id, unit in open_units.items() if unit.state is UnitState.QUEUED}
    refilling = {unit_id for unit_id, unit in open_units.items() if unit.is_refilling}
    assert all(_waits_for_a_place(unit) for unit in open_units.values() if unit.is_refilling)
    assert called["draws"] == queued - set(sleeping) | refilling, "who waits in the queue sleeps, or will be drawn"


def _waits_for_a_place(unit: Unit) -> bool:
    """Whether commits are open, nobody has committed, and one place was declined, or its racer recalled."""
    declined = sum(racer.has_declined for racer in unit.racers) + len(unit.decliners)
    is_open = unit.round is not None and not unit.round.closed_at and not unit.round.first_commit
    is_short = len(unit.racers) < unit.terms.racers
    return unit.state is UnitState.RACING and is_open and (is_short or declined == 1) and declined <= 1
