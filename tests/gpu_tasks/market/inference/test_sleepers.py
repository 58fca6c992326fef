"""Waiting units: the events that wake them, their order, and the longest wait."""

import random

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference import inference, money
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.queue import WELCOME_WEIGHT
from gpu_tasks.market.inference.sleepers import SLOTS_STIRRED_MAX, WAKES_PER_SLOT, lay_down, of_turn, stir
from gpu_tasks.market.inference.units import UnitState
from market_agents import Agent, Habit
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    BOND,
    CUSTOMER,
    DEVICE_BOND,
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    joins,
    named_keys,
    per_thousand,
    registers,
    root_of,
    signed,
    terms,
    validates,
)

BEACON_AND_FINALITY = 3
"""Blocks from a recording to its draw on these chains."""
RIGHT = root_of(b"right")


def asleep(chain: MarketChain, unit_id: bytes) -> bool:
    return bool(chain.unit(unit_id).asleep_since)


def sleeping_for_want_of(chain: MarketChain, spoil: Call, racers: int = 2) -> bytes:
    """A unit that sleeps because the first validator's device was spoilt for it."""
    first = chain.validators[0]
    chain.blocks(3)
    chain.block(signed(first.stash, spoil))
    (unit_id,) = chain.post(terms(OGPU // 10, racers))
    chain.blocks(20)
    assert asleep(chain, unit_id)
    return unit_id


def device_of(number: int = 0) -> bytes:
    return named_keys(2)[number].device


@pytest.mark.parametrize(
    ("spoil", "cure"),
    [
        (Devices.pause(device=device_of()), Devices.resume(device=device_of())),
        (
            InferenceMarket.withdraw_offer(device=device_of(), service=0),
            InferenceMarket.offer(device=device_of(), service=0, ask=1),
        ),
        (
            InferenceMarket.offer(device=device_of(), service=0, ask=per_thousand(OGPU)),
            InferenceMarket.offer(device=device_of(), service=0, ask=per_thousand(OGPU // 50)),
        ),
    ],
)
def test_a_slot_that_changes_wakes_a_unit(spoil: Call, cure: Call) -> None:
    chain = MarketChain(named_keys(2))
    unit_id = sleeping_for_want_of(chain, spoil)
    chain.block(signed(chain.validators[0].stash, cure))
    changed_at = chain.height
    chain.blocks(1 + BEACON_AND_FINALITY)
    unit = chain.unit(unit_id)
    assert unit.state is UnitState.RACING
    assert unit.recorded_at == changed_at, "recorded anew, with those who were posted as the slot changed"


def test_more_bond_wakes_a_unit_that_it_can_secure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(money, "collateral", lambda *_: DEVICE_BOND + OGPU)
    chain = MarketChain(named_keys(1))
    first = chain.validators[0]
    chain.blocks(3)
    (unit_id,) = chain.post(terms(OGPU, 1))
    chain.blocks(20)
    assert asleep(chain, unit_id)
    chain.block(signed(first.stash, Devices.bond_device_extra(device=first.device, value=OGPU)))
    chain.blocks(1 + BEACON_AND_FINALITY)
    assert chain.unit(unit_id).state is UnitState.RACING


@pytest.mark.parametrize("asks", [(OGPU // 4, OGPU // 4), (OGPU // 8, OGPU // 4), (OGPU // 2, OGPU // 2)])
def test_a_price_that_meets_the_asks_wakes_a_unit_and_nothing_before(asks: tuple[int, int]) -> None:
    """The last pair asks the unit's greatest price. With the pair before it, one owner alone would match earlier."""
    chain = MarketChain(named_keys(2))
    ask = max(asks)
    offers = [
        InferenceMarket.offer(device=keys.device, service=0, ask=per_thousand(low))
        for keys, low in zip(chain.validators, asks, strict=True)
    ]
    chain.blocks(3)
    chain.block(*(signed(keys.stash, offer) for keys, offer in zip(chain.validators, offers, strict=True)))
    (unit_id,) = chain.post(terms(OGPU // 2, 2))
    posted_at = chain.height
    chain.blocks(BEACON_AND_FINALITY)
    assert asleep(chain, unit_id)
    met = posted_at + money.age_of_price(OGPU // 100, OGPU // 2, ask, 10)
    assert dict(chain.now()[InferenceMarket].price_rises.places.items()) == {unit_id: met}
    while asleep(chain, unit_id):
        chain.block()
    assert chain.height == met
    chain.blocks(BEACON_AND_FINALITY)
    assert chain.unit(unit_id).state is UnitState.RACING
    assert chain.unit(unit_id).price >= ask


def test_a_price_that_meets_no_ask_wakes_nobody() -> None:
    chain = MarketChain(named_keys(1))
    first = chain.validators[0]
    chain.block(signed(first.stash, InferenceMarket.offer(device=first.device, service=0, ask=per_thousand(OGPU))))
    (unit_id,) = chain.post(terms(OGPU // 2, 1))
    chain.blocks(8)
    assert asleep(chain, unit_id)
    assert not list(chain.now()[InferenceMarket].price_rises.waiting.items())


def test_a_slot_that_changed_between_a_recording_and_its_draw_is_for_the_next() -> None:
    """The change came before the unit slept, so no other event would wake it."""
    chain = MarketChain(named_keys(2))
    first = chain.validators[0]
    chain.blocks(3)
    chain.block(signed(first.stash, Devices.pause(device=first.device)))
    (unit_id,) = chain.post(terms())
    chain.block(signed(first.stash, Devices.resume(device=first.device)))
    chain.blocks(2 + BEACON_AND_FINALITY)
    assert chain.unit(unit_id).state is UnitState.RACING


def test_who_slept_longest_is_woken_first_and_a_few_for_each_slot() -> None:
    chain = MarketChain(named_keys(1))
    keys = chain.validators[0]
    chain.block(signed(keys.stash, Devices.pause(device=keys.device)))
    units = [chain.post(terms(OGPU, 1))[0] for _ in range(6)]
    chain.blocks(6)
    chain.block(signed(keys.stash, Devices.resume(device=keys.device)))
    chain.block()
    assert [unit_id for unit_id in units if not asleep(chain, unit_id)] == units[:WAKES_PER_SLOT]


def test_many_units_that_nobody_can_serve_do_not_outlast_those_behind_them() -> None:
    """Four were tried in a block: 2,400 of them ahead, for 2 oGPU in fees, kept others of a service asleep."""
    chain = MarketChain(named_keys(2))
    first = chain.validators[0]
    chain.blocks(3)
    chain.block(*(signed(keys.stash, Devices.pause(device=keys.device)) for keys in chain.validators))
    for _ in range(5):
        chain.post(*[terms(OGPU, 3, 3)] * 32)
    chain.blocks(4)
    (honest,) = chain.post(terms(OGPU, 1, 3))
    chain.blocks(6)
    assert asleep(chain, honest)
    chain.block(signed(first.stash, Devices.resume(device=first.device)))
    chain.blocks(8 + BEACON_AND_FINALITY)
    assert chain.unit(honest).state is UnitState.RACING
    assert not chain.now()[InferenceMarket].services_to_retry.get(), "each was tried once"


def unit_named(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_one_turn_is_for_a_bounded_number_of_slots() -> None:
    market, most = MarketChain(named_keys(1)).now()[InferenceMarket], WAKES_PER_SLOT * SLOTS_STIRRED_MAX
    for number in range(most + 10):
        lay_down(market, 7, 1, unit_named(number))
    lay_down(market, 8, 2, unit_named(0))
    stir(market, {7: 10 * SLOTS_STIRRED_MAX, 8: 1}, before=2)
    turn, too_late = market.services_to_retry.get()
    assert of_turn(market, turn) == ([unit_named(number) for number in range(most)], True)
    assert of_turn(market, too_late) == ([], False), "who sleeps since the block of the change was tried with it"


def test_a_unit_whose_beacon_was_dropped_is_recorded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finality stood still for longer than the beacon remembers."""
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(terms())
    with monkeypatch.context() as dropped:
        dropped.setattr(Beacon, "value_at", lambda *_: None)
        chain.blocks(BEACON_AND_FINALITY)
    recorded_at = chain.height
    assert chain.unit(unit_id).recorded_at == recorded_at
    chain.blocks(BEACON_AND_FINALITY)
    assert chain.unit(unit_id).state is UnitState.RACING


def test_a_bond_that_a_race_gives_back_wakes_a_unit_that_it_can_secure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device itself was free before: it had committed."""
    monkeypatch.setattr(money, "collateral", lambda *_: DEVICE_BOND * 6 // 10)
    chain = MarketChain(named_keys(1))
    keys = chain.validators[0]
    chain.blocks(3)
    (running,) = chain.post(terms(OGPU, 1))
    (waiting,) = chain.post(terms(OGPU, 1))
    chain.blocks(2)
    racing = chain.unit(running)
    assert racing.state is UnitState.RACING
    chain.block(commit(keys, running, racing, RIGHT))
    chain.blocks(8)
    assert asleep(chain, waiting)
    chain.block(attach(attestation(keys, running, racing, RIGHT)))
    while chain.unit(running).state is UnitState.CLAIMED:  # it is liable for its result
        assert asleep(chain, waiting)
        chain.block()
    assert chain.unit(running).state is UnitState.SETTLED
    chain.blocks(1 + BEACON_AND_FINALITY)
    assert chain.unit(waiting).state is UnitState.RACING


# ------------------------------------------------------------------------------------------------ owners who come back

LATE = Keys("late")
REGISTERED, VALIDATES = registers(LATE), validates(LATE)


def with_somebody_late(final_lag: int = 1) -> MarketChain:
    """Return a chain with one active validator, and an inactive provider that may chill."""
    chain = MarketChain(named_keys(1), [LATE], final_lag=final_lag)
    chain.block(*joins(LATE))
    chain.blocks(3 + final_lag)
    return chain


def asleep_for_want_of_late(chain: MarketChain) -> bytes:
    (unit_id,) = chain.post(terms(OGPU, 2, chain.height - chain.final_lag))
    chain.blocks(6 + chain.final_lag)
    assert asleep(chain, unit_id)
    return unit_id


def test_an_owner_who_chilled_and_validates_again_wakes_a_unit() -> None:
    chain = with_somebody_late()
    chain.block(signed(LATE.stash, TrustStake.chill()))
    unit_id = asleep_for_want_of_late(chain)
    chain.block(signed(LATE.stash, VALIDATES))
    chain.blocks(2 + BEACON_AND_FINALITY)
    assert chain.unit(unit_id).state is UnitState.RACING
    assert not list(chain.now()[TrustStake].new_candidates.keys()), "the market has been told"


def test_an_owner_whose_stake_suffices_again_wakes_a_unit() -> None:
    chain = with_somebody_late()
    chain.check = lambda *_: None  # the stake below has no grains behind it
    least = chain.now()[TrustStake].validator_bond_min
    chain.block(lambda bound: bound[TrustStake].set_bond(LATE.stash, least - 1))
    unit_id = asleep_for_want_of_late(chain)
    chain.block(signed(LATE.stash, TrustStake.bond_extra(value=1)))
    chain.blocks(2 + BEACON_AND_FINALITY)
    assert chain.unit(unit_id).state is UnitState.RACING


def test_an_owner_who_comes_back_once_the_beacon_is_known_is_not_in_that_draw() -> None:
    """Without the rule, a chilled owner could read the beacon and validate again where it draws him."""
    chain = with_somebody_late(final_lag=3)
    first = chain.validators[0]
    chain.block(signed(first.stash, Devices.pause(device=first.device)), signed(LATE.stash, TrustStake.chill()))
    (unit_id,) = chain.post(terms(OGPU, 1, chain.height - chain.final_lag))
    posted_at = chain.height
    chain.blocks(2)
    chain.block(signed(LATE.stash, VALIDATES))
    back_at = chain.height
    assert chain.unit(unit_id).state is UnitState.QUEUED
    chain.blocks(3)
    unit = chain.unit(unit_id)
    assert unit.state is UnitState.QUEUED
    chain.blocks(8)
    unit = chain.unit(unit_id)
    assert unit.state is UnitState.RACING
    assert posted_at < back_at <= unit.recorded_at


def test_who_was_never_away_is_no_newcomer() -> None:
    chain = with_somebody_late()
    since = chain.now()[TrustStake].candidate_since[LATE.stash]
    chain.block(signed(LATE.stash, VALIDATES), signed(LATE.stash, TrustStake.bond_extra(value=1)))
    assert chain.now()[TrustStake].candidate_since[LATE.stash] == since
    assert not list(chain.now()[TrustStake].new_candidates.keys())


def test_many_who_come_back_at_once_are_told_of_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in a block, as the budget allows, and none is forgotten."""
    monkeypatch.setattr(inference, "TENDING_BUDGET", WELCOME_WEIGHT)
    late = [Keys(f"late {number}") for number in range(3)]
    chain = MarketChain(named_keys(1), late)
    for keys in late:
        chain.block(signed(keys.stash, TrustStake.bond(value=BOND)), signed(keys.stash, validates(keys)))

    def all_at_once(bound: Bound) -> None:
        for keys in late:
            bound[TrustStake].new_candidates[keys.stash] = True

    chain.block(all_at_once)
    left = [len(list(chain.block()[TrustStake].new_candidates.keys())) for _ in range(3)]
    assert left == [2, 1, 0]


# ----------------------------------------------------------------------------------------------------------- first come


LATE_BLOCKS = 30
"""A unit drawn in vain just before a slot becomes free comes after those drawn later."""


def most_overtaken(chain: MarketChain, *, units: int, blocks: int) -> tuple[int, int]:
    """Post `units` in each block. Return by how many blocks a younger one came first at most, and the number drawn."""
    agents = [Agent(keys, Habit.HONEST, random.Random(place)) for place, keys in enumerate(chain.validators)]
    waiting: dict[bytes, int] = {}
    most = drawn = 0
    for _ in range(blocks):
        wanted = (terms(OGPU, 1, chain.height),) * units
        post = signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=wanted))
        seen = len(chain.all_events)
        chain.block(post, *(step for agent in agents for step in agent.steps(chain)))
        for event in chain.all_events[seen:]:
            if isinstance(event, ev.UnitPosted):
                waiting[event.unit] = chain.height
            elif isinstance(event, ev.UnitMatched) and event.unit in waiting:
                posted, drawn = waiting.pop(event.unit), drawn + 1
                most = max(most, posted - min(waiting.values(), default=posted))
    return most, drawn


@pytest.mark.parametrize(("validators", "units"), [(2, 1), (4, 2)])
def test_a_market_that_is_full_serves_who_came_first(validators: int, units: int) -> None:
    """In the order of hashes, one of four units waited for 241 blocks while new ones kept coming."""
    chain = MarketChain(named_keys(validators))
    chain.blocks(3)
    most, drawn = most_overtaken(chain, units=units, blocks=60)
    assert drawn > 10
    assert most <= LATE_BLOCKS
