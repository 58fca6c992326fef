"""The cost of the market's hook in storage reads, for any state that strangers can make."""

from typing import Any

import pytest

from counted_reads import HookRun, most_reads, watched_hook
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import FREE_BOND, Device, DeviceClass
from gpu_tasks.market.inference import catalogue, inference, intake
from gpu_tasks.market.inference.catalogue import END_OFFER_WEIGHT
from gpu_tasks.market.inference.events import MarketBusy, UnsoundTerms
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.queue import STIR_WEIGHT, TURN_WEIGHT
from gpu_tasks.market.inference.schedules import EXPIRY_WEIGHT, RACE_END_WEIGHT, STEP_WEIGHT
from gpu_tasks.market.inference.services import OFFERS_PER_DEVICE_MAX, ServiceTerms
from gpu_tasks.market.inference.slots import (
    DRAW_WEIGHT,
    LOOK_WEIGHT,
    ORDER_WEIGHT,
    RACER_WEIGHT,
    SCAN_WEIGHT,
    draw_weight,
    reading_weight,
)
from gpu_tasks.market.inference.units import UnitState, unit_id_of
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Weight
from runtime.frame.holds import Hold
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.frame.weights import work
from runtime.pallets.balances import Balances
from simulation.books import ChainBooks
from simulation.chains.market_chain import (
    CUSTOMER,
    DEVICE_BOND,
    GENESIS_HASH,
    MODEL,
    OGPU,
    WORKLOAD,
    Keys,
    MarketChain,
    commit,
    named_keys,
    per_thousand,
    refused,
    root_of,
    signed,
    terms,
    tolerant,
)
from unit_cases import racing

MALLORY = Keys("mallory")
IDLE_READS = 40
"""The hook's reads when nothing is due: cursors, heights, and the newest final block."""
SCAN_READS = 5
"""The reads of one offer: its key, itself, its device, the owner as provider and as candidate."""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[HookRun]:
    """Record the runs of the market's hook."""
    return watched_hook(monkeypatch, InferenceMarket)


def crowded(services: int, offers: int, ask: int, owners: int = 4) -> MarketChain:
    """Return a chain with many offers of many services, written directly with money from nowhere."""
    chain = MarketChain(named_keys(owners), [MALLORY])
    bound = chain.now()
    market, devices = bound[InferenceMarket], bound[Devices]
    for number in range(1, services + 1):
        sold = ServiceTerms(b"x", WORKLOAD, MODEL, per_thousand(OGPU // 100), per_thousand(OGPU), 10, 30, 64)
        catalogue.create(market, CUSTOMER.stash, sold, deposit_grains=0)
        for place in range(offers):
            group = (number - 1) // OFFERS_PER_DEVICE_MAX
            device_id = blake2_256(f"{group}/{place}".encode())
            if devices.devices[device_id] is None:
                owner = chain.validators[place % owners].stash
                bound[Balances].credit(owner, DEVICE_BOND)
                bound[Balances].hold(owner, Hold(FREE_BOND, device_id), DEVICE_BOND)
                devices.devices[device_id] = Device(owner, DeviceClass.CPU, device_id, DEVICE_BOND, 0, 0)
            catalogue.place_offer(market, device_id, number, ask)
    chain.state = chain.state.updated(bound.overlay.changes())
    return chain


@pytest.fixture
def _unaudited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the audit: the crowd's bonds come from nowhere, and its books would take longer than its blocks."""
    monkeypatch.setattr(ChainBooks, "follow", lambda *_, **__: None)


def one_unit(offers: int) -> Weight:
    """Return the greatest weight of a draw of one racer among `offers` offers."""
    return reading_weight(offers) + draw_weight(offers, 1)


def post_each(services: int) -> list[Any]:
    """Return steps with one unit of each service, for less than its devices ask."""
    posts = (InferenceMarket.post(service=number, units=(terms(OGPU // 100, 1),)) for number in range(1, services + 1))
    return [signed(MALLORY.stash, post) for post in posts]


@pytest.mark.usefixtures("_unaudited")
def test_d1_units_that_nobody_can_serve_cost_no_block_anything(runs: list[HookRun]) -> None:
    """Many services with many offers each, and a unit for each: it was drawn again in every third block."""
    chain = crowded(services=30, offers=50, ask=per_thousand(OGPU))
    chain.blocks(2)
    chain.block(*post_each(30))
    chain.blocks(4)
    assert most_reads(runs) > 30 * 50, "each service was read for the one draw that its unit paid for"
    runs.clear()
    chain.blocks(30)
    assert most_reads(runs) <= IDLE_READS
    units = [unit for _, unit in chain.now()[InferenceMarket].units.items() if unit is not None]
    assert len(units) == 30
    assert all(unit.asleep_since for unit in units)


@pytest.mark.usefixtures("_unaudited")
def test_d1_draws_that_a_block_cannot_pay_wait_for_the_next(
    runs: list[HookRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = crowded(services=30, offers=50, ask=per_thousand(OGPU))
    budget = Weight(2 * one_unit(50).ref_time, 0)
    monkeypatch.setattr(inference, "DRAW_BUDGET", budget)
    chain.blocks(2)
    chain.block(*post_each(30))
    runs.clear()
    chain.blocks(24)
    offers_in_budget = budget.ref_time // SCAN_WEIGHT.ref_time + 50
    assert most_reads(runs) <= IDLE_READS + offers_in_budget * (SCAN_READS + 3)
    assert not list(chain.now()[InferenceMarket].draws.waiting.items()), "all had their turn"


@pytest.mark.usefixtures("_unaudited")
def test_d1_a_block_takes_in_no_more_than_it_can_draw() -> None:
    chain = crowded(services=2, offers=1_000, ask=per_thousand(OGPU))
    chain.blocks(2)
    many = [InferenceMarket.post(service=number, units=(terms(OGPU // 100, 2),) * 32) for number in (1, 2)]
    chain.block(signed(MALLORY.stash, many[0]), refused(CUSTOMER.stash, many[1], MarketBusy))
    chain.block(signed(CUSTOMER.stash, many[1]))


@pytest.mark.usefixtures("_unaudited")
def test_a_post_of_nothing_takes_up_no_room() -> None:
    """It charged the block with a read of the service. Three, for only their fees, excluded all others."""
    chain = crowded(services=1, offers=50, ask=per_thousand(OGPU))
    chain.blocks(2)
    bound = chain.block(refused(MALLORY.stash, InferenceMarket.post(service=1, units=()), UnsoundTerms))
    assert bound[InferenceMarket].admitted_draws.get().height == 0


@pytest.mark.usefixtures("_unaudited")
def test_prices_that_meet_asks_in_every_block_do_not_keep_a_freed_slot_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rising prices always came first: a few units of a large service used the wake budget of each block."""
    monkeypatch.setattr(inference, "WAKE_BUDGET", work(microseconds=1_000))
    chain = crowded(services=1, offers=80, ask=per_thousand(OGPU // 2))
    spoils = [(keys.stash, keys.device) for keys in chain.validators]
    chain.block(*(signed(stash, Devices.pause(device=device)) for stash, device in spoils))
    chain.blocks(2)
    (honest,) = chain.post(terms(OGPU, 1))
    chain.block(*[signed(MALLORY.stash, InferenceMarket.post(service=1, units=(terms(OGPU, 1),) * 32))] * 2)
    while chain.now()[InferenceMarket].price_rises.cursor.get() < chain.height:
        chain.block()
    while chain.now()[InferenceMarket].price_rises.cursor.get() == chain.height:
        chain.block()  # from here on, prices meet asks
    chain.block(*(signed(stash, Devices.resume(device=device)) for stash, device in spoils))
    chain.blocks(8)
    assert list(chain.now()[InferenceMarket].price_rises.waiting.items()), "more prices wait for their turn"
    assert chain.unit(honest).state is UnitState.RACING


@pytest.mark.usefixtures("_unaudited")
def test_d1_a_slot_that_changes_in_every_block_wakes_a_bounded_number(runs: list[HookRun]) -> None:
    chain = crowded(services=OFFERS_PER_DEVICE_MAX, offers=50, ask=per_thousand(OGPU))
    chain.blocks(2)
    for _ in range(6):
        chain.block(*post_each(OFFERS_PER_DEVICE_MAX))
    chain.blocks(4)
    device = blake2_256(b"0/0")
    runs.clear()
    for _ in range(12):
        chain.block(signed(chain.validators[0].stash, Devices.resume(device=device)))
    in_a_block = inference.WAKE_BUDGET.ref_time // (50 * SCAN_WEIGHT.ref_time)
    assert most_reads(runs) <= in_a_block * (50 * (SCAN_READS + 3) + 200)


@pytest.mark.usefixtures("_unaudited")
def test_d1_who_gets_into_a_full_block_is_drawn_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attacker fills each block's intake and wakes sleepers in each. Budgets are far below real ones."""
    unit = one_unit(30).ref_time
    monkeypatch.setattr(intake, "ADMITTED_MAX", Weight(unit * 7 // 2, 0))
    monkeypatch.setattr(inference, "DRAW_BUDGET", Weight(unit * 7, 0))
    monkeypatch.setattr(inference, "WAKE_BUDGET", Weight(unit * 7 // 4, 0))
    chain = crowded(services=OFFERS_PER_DEVICE_MAX, offers=30, ask=per_thousand(OGPU))
    chain.blocks(2)
    stir = signed(chain.validators[0].stash, Devices.resume(device=blake2_256(b"0/0")))
    junk = [
        InferenceMarket.post(service=number, units=(terms(OGPU // 100, 1),) * 2)
        for number in range(1, OFFERS_PER_DEVICE_MAX + 1)
    ]
    for turn in range(15):
        attack = [tolerant(signed(MALLORY.stash, junk[(turn + place) % len(junk)])) for place in range(len(junk))]
        honest = signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=(terms(OGPU, 1),)))  # a higher tip
        bound = chain.block(honest, *attack, stir)
        waiting = [height for (height, _), _ in bound[InferenceMarket].draws.waiting.items()]
        assert min(waiting) >= chain.height - 1, "what was posted four blocks ago has been drawn"
        assert bound[InferenceMarket].admitted_draws.get().weight.ref_time > unit * 2, (
            "and the attacker has his part of it"
        )


@pytest.mark.usefixtures("_unaudited")
@pytest.mark.parametrize("devices", [10, 1_000])
def test_p4_a_service_is_read_once_a_block_however_many_units_are_drawn(runs: list[HookRun], devices: int) -> None:
    chain = crowded(services=1, offers=devices, ask=per_thousand(OGPU // 100))
    chain.blocks(2)
    post = InferenceMarket.post(service=1, units=(terms(OGPU // 100, 1),) * 32)
    chain.block(signed(CUSTOMER.stash, post))
    runs.clear()
    chain.blocks(3)
    racing = [unit for _, unit in chain.now()[InferenceMarket].units.items() if unit and unit.state is UnitState.RACING]
    assert len(racing) == min(32, devices)
    assert most_reads(runs) <= IDLE_READS + devices * (SCAN_READS + 1) + 32 * 20


def test_d2_who_posts_and_cancels_has_a_deposit_locked_for_each_record() -> None:
    chain = MarketChain(named_keys(2), [MALLORY], constants={"InferenceMarket.unit_keep": 50})
    chain.blocks(3)
    post = signed(MALLORY.stash, InferenceMarket.post(service=0, units=(terms(OGPU // 100, 1),) * 32))
    ids = [unit_id_of(GENESIS_HASH, MALLORY.stash, place) for place in range(32)]
    bound = chain.block(post, *(signed(MALLORY.stash, InferenceMarket.cancel(unit=unit_id)) for unit_id in ids))
    assert bound[Balances].reserved_balance(MALLORY.stash) == 32 * bound[InferenceMarket].unit_deposit
    chain.blocks(50)
    assert not chain.now()[Balances].holds[MALLORY.stash]


def test_the_hook_says_what_it_weighed(runs: list[HookRun]) -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    chain.blocks(3)
    assert chain.unit(unit_id).state is UnitState.RACING
    scanned = 2 * (SCAN_WEIGHT.ref_time + ORDER_WEIGHT.ref_time)
    drawn = scanned + 2 * (LOOK_WEIGHT.ref_time + RACER_WEIGHT.ref_time)
    assert [weight.ref_time for weight in runs[:-1]] == [0] * 6
    assert runs[-1].weight == Weight(drawn, 0) + DRAW_WEIGHT + TAKE_WEIGHT == draw_weight(2, 2) + reading_weight(2)


def test_the_hook_says_what_waking_a_unit_and_dropping_its_record_weighed(runs: list[HookRun]) -> None:
    chain = MarketChain(named_keys(1), constants={"InferenceMarket.unit_keep": 5})
    device = chain.validators[0].device
    chain.block(signed(chain.validators[0].stash, Devices.pause(device=device)))
    (unit_id,) = chain.post(terms(OGPU, 1))
    chain.blocks(6)
    chain.block(signed(chain.validators[0].stash, Devices.resume(device=device)))
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)))
    assert runs[-1].weight == STIR_WEIGHT + TAKE_WEIGHT + Weight(DRAW_WEIGHT.ref_time, 0)
    chain.blocks(5)
    assert [weight.ref_time for weight in runs[-5:-1]] == [0] * 4
    assert runs[-1].weight == EXPIRY_WEIGHT + TAKE_WEIGHT


@pytest.mark.parametrize("racers", [1, 3])
def test_a_step_that_ends_a_race_weighs_its_racers(monkeypatch: pytest.MonkeyPatch, racers: int) -> None:
    """A flat weight of eight silent racers would let few races go on in a block."""
    spent = watched_hook(monkeypatch, InferenceMarket)
    chain = MarketChain(named_keys(9))
    unit_id, drawn = racing(chain, racers)
    chain.block(*(commit(who, unit_id, chain.unit(unit_id), root_of(b"R" * 32)) for who in drawn))
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()
    assert chain.unit(unit_id).state is UnitState.QUEUED, "nobody has revealed"
    assert spent[-1].ref_time == (STEP_WEIGHT + TAKE_WEIGHT).ref_time + racers * RACE_END_WEIGHT.ref_time
    assert all(each.ref_time <= (STEP_WEIGHT + TAKE_WEIGHT).ref_time for each in spent[-3:-1])


def test_the_hook_says_what_ending_offers_weighed(runs: list[HookRun]) -> None:
    chain = MarketChain(named_keys(2))
    chain.block(signed(CUSTOMER.stash, InferenceMarket.close_service(service=0)))
    chain.block()
    assert runs[-1].weight == END_OFFER_WEIGHT + END_OFFER_WEIGHT


def test_a_block_counts_the_reading_of_a_service_once_however_often_it_is_posted_to() -> None:
    chain = MarketChain(named_keys(3), [MALLORY])
    chain.blocks(2)
    post = InferenceMarket.post(service=0, units=(terms(OGPU, 2),))
    bound = chain.block(*(signed(stash, post) for stash in (MALLORY.stash, MALLORY.stash, CUSTOMER.stash)))
    drawn = draw_weight(3, 2)
    assert bound[InferenceMarket].admitted_draws.get().weight == reading_weight(3) + drawn + drawn + drawn


@pytest.fixture
def _one_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit wake-ups to one unit a block."""
    monkeypatch.setattr(inference, "WAKE_BUDGET", TURN_WEIGHT + Weight(1, 0))


@pytest.mark.usefixtures("_unaudited", "_one_wake_up")
def test_d1_services_whose_units_are_woken_take_turns_and_nobody_is_forgotten() -> None:
    """Units beyond a budget stay in the line, behind the other services, so no crowd takes all wake-ups."""
    chain = crowded(services=2, offers=2, ask=per_thousand(OGPU))
    chain.blocks(2)
    for _ in range(3):
        chain.block(*post_each(2))
    chain.blocks(8)
    chain.block(signed(chain.validators[0].stash, Devices.resume(device=blake2_256(b"0/0"))))
    changed_at = chain.height

    def woken() -> list[int]:
        units = [unit for _, unit in chain.now()[InferenceMarket].units.items() if unit is not None]
        return sorted(unit.service for unit in units if unit.recorded_at >= changed_at)

    chain.blocks(2)
    assert woken() == [1, 2]
    chain.blocks(6)
    assert woken() == [1, 1, 1, 2, 2, 2]


@pytest.mark.usefixtures("_unaudited")
def test_d1_looking_who_sleeps_uses_up_what_a_block_may_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "WAKE_BUDGET", TURN_WEIGHT)
    chain = crowded(services=2, offers=2, ask=per_thousand(OGPU))
    chain.blocks(2)
    chain.block(*post_each(2))
    chain.blocks(8)
    chain.block(signed(chain.validators[0].stash, Devices.resume(device=blake2_256(b"0/0"))))
    before = [turn.service for turn in chain.block()[InferenceMarket].services_to_retry.get()]
    after = [turn.service for turn in chain.block()[InferenceMarket].services_to_retry.get()]
    assert sorted(before) == [1, 2]
    assert after == before[::-1], "one turn in each block, and nobody woken"
