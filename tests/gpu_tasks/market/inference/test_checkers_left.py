"""A race leaves enough active validators to check it. Otherwise its unit waits or is refused."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.draws import RACING_PART, FreeSlot, Spare, Wanted, spare_of_stake
from gpu_tasks.market.inference import catalogue
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.checkers_left import (
    LOOK_WEIGHT,
    CheckersFound,
    CheckersLeft,
    checkers_needed,
    find_checkers,
    read_checkers,
)
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.services import ServiceTerms
from gpu_tasks.market.inference.slots import ServiceSlots, Slots
from gpu_tasks.market.inference.units import UnitState
from runtime.encoding.types import Signed, Weight
from runtime.frame.runtime import Bound
from runtime.frame.schedule import WeightMeter
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    CUSTOMER,
    MODEL,
    OGPU,
    WORKLOAD,
    Keys,
    MarketChain,
    Step,
    joins,
    named_keys,
    per_thousand,
    refused,
    registers,
    signed,
    terms,
)
from unit_cases import TO_THE_DRAW, declines, matched, post_unit, racers_of, racing

OUTSIDE = [Keys(f"outside {number}") for number in range(3)]
"""Providers that are no validators: they race, and cannot checker."""
TO_A_RACE = 5
"""Blocks from a slot's change to the race that waited for it."""


def chain_of(in_office: int, outside: int = 0) -> MarketChain:
    chain = MarketChain(named_keys(in_office), OUTSIDE)
    chain.block(*(step for who in OUTSIDE[:outside] for step in joins(who)))
    chain.blocks(3)
    return chain


def posted(chain: MarketChain, racers: int, customer: Keys = CUSTOMER) -> bytes:
    """Post a unit and draw it if possible."""
    unit_id = post_unit(chain, customer, service=0, price=OGPU, racers=racers)
    assert unit_id is not None
    chain.blocks(TO_THE_DRAW + 1)
    return unit_id


def is_racing(chain: MarketChain, unit_id: bytes) -> bool:
    unit = chain.unit(unit_id)
    assert unit.state is UnitState.RACING or unit.asleep_since, "it races, or it sleeps until a slot changes"
    return unit.state is UnitState.RACING


def in_office(chain: MarketChain, unit_id: bytes) -> int:
    """Return the number of its racers in the active set."""
    return sum(who in chain.validators for who in racers_of(chain, unit_id))


# ------------------------------------------------------------------------------------------------------------- the rule


def test_three_must_stay_two_of_four_and_nobody_where_that_is_for_development() -> None:
    assert [checkers_needed(count) for count in range(9)] == [0, 0, 0, 0, 2, 3, 3, 3, 3]


def test_who_cannot_read_the_input_and_who_is_barred_is_no_checker_and_each_counts_once() -> None:
    checkers = CheckersLeft(2, {b"a": 1, b"b": 5, b"c": 9, b"d": 10}, dict.fromkeys((b"a", b"b", b"c", b"d"), 10))

    def spare(sealed_at: int, *barred: bytes) -> int:
        return checkers.spare(sealed_at, barred, 8).count

    assert spare(10) == 2
    assert spare(9) == 1
    assert spare(4) == -1
    assert spare(10, b"a", b"a", b"stranger") == 1
    assert spare(9, b"d") == 1, "who could not check takes nobody away"


def test_of_owners_so_many_race_as_are_to_spare_and_all_who_check_nothing() -> None:
    checkers = CheckersLeft(2, {b"a": 1, b"b": 5, b"c": 9}, {b"a": 10, b"b": 20, b"c": 30})
    owners = (b"a", b"b", b"x")
    assert [checkers.racing(owners, Spare(count, 30)) for count in (-1, 0, 1, 2, 3)] == [1, 1, 2, 3, 3]
    assert [checkers.racing(owners, Spare(2, heaviest)) for heaviest in (9, 10, 20)] == [1, 2, 3]


# ------------------------------------------------------------------------------------------------------------- the draw


@pytest.mark.parametrize(("validators", "most"), [(2, 2), (3, 3), (4, 2), (5, 2), (6, 2), (7, 2), (9, 3)])
def test_a_unit_is_drawn_as_long_as_enough_stay_to_check_it(validators: int, most: int) -> None:
    chain = chain_of(validators)
    assert is_racing(chain, posted(chain, most))
    if most < validators:
        chain = chain_of(validators)
        assert not is_racing(chain, posted(chain, most + 1)), "of the same free slots"


@pytest.mark.parametrize(("validators", "most"), [(5, 1), (6, 1), (7, 1), (9, 2)])
def test_a_customer_in_office_checks_nothing_of_its_own(validators: int, most: int) -> None:
    for more in (0, 1):
        chain = chain_of(validators)
        assert is_racing(chain, posted(chain, most + more, chain.validators[1])) is not bool(more)


def test_a_sleeping_unit_is_drawn_when_who_checks_nothing_has_a_slot_free_again() -> None:
    chain = chain_of(5, outside=1)
    chain.block(signed(OUTSIDE[0].stash, Devices.pause(device=OUTSIDE[0].device)))
    unit_id = posted(chain, 3)
    assert not is_racing(chain, unit_id)
    chain.block(signed(OUTSIDE[0].stash, Devices.resume(device=OUTSIDE[0].device)))
    chain.blocks(TO_A_RACE)
    assert is_racing(chain, unit_id)
    assert in_office(chain, unit_id) == 2


# ------------------------------------------------------------------------------------------------------ a filled place


@pytest.mark.parametrize(
    ("validators", "racers", "is_filled"), [(5, 2, False), (6, 2, False), (9, 2, True), (9, 3, False)]
)
def test_a_place_is_filled_out_of_those_in_office_only_if_enough_stay(
    *, validators: int, racers: int, is_filled: bool
) -> None:
    chain = chain_of(validators)
    unit_id, drawn = racing(chain, racers)
    chain.block(declines(drawn[0], unit_id))
    chain.blocks(TO_THE_DRAW)
    assert bool(chain.happened(ev.PlaceRefilled)) is is_filled
    assert not chain.unit(unit_id).is_refilling, "nothing is awaited, the race goes on"
    assert (racers_of(chain, unit_id) == drawn) is not is_filled


# ------------------------------------------------------------------------------------------------------------- a post


def without_key(chain: MarketChain, who: Keys) -> Step:
    """Return a validator that is no longer a provider."""

    def step(bound: Bound) -> None:
        del bound[Devices].providers[who.stash]

    chain.check = lambda *_: None  # its device stays without an owner that the books would know
    return step


@pytest.mark.parametrize(("validators", "least"), [(4, 2), (6, 3)])
def test_a_post_is_refused_where_too_few_in_office_may_check(validators: int, least: int) -> None:
    chain = chain_of(validators, outside=2)
    for who in chain.validators[least:]:
        chain.block(without_key(chain, who))
    chain.blocks(2)
    asked = InferenceMarket.post(service=0, units=(terms(racers=1, sealed_at=chain.height - 1),))
    chain.block(
        signed(CUSTOMER.stash, asked),
        refused(chain.validators[0].stash, asked, ev.TooFewCheckers),
        refused(chain.validators[0].provider, asked, ev.TooFewCheckers),
        signed(chain.validators[-1].stash, asked),
    )
    chain.block(without_key(chain, chain.validators[0]), refused(CUSTOMER.stash, asked, ev.TooFewCheckers))


def test_of_several_inputs_the_oldest_needs_its_checkers() -> None:
    chain = chain_of(4)
    for who in chain.validators[1:]:
        chain.block(signed(who.stash, registers(who, "new")))
    changed_at = chain.height
    chain.blocks(2)
    new, old = terms(sealed_at=changed_at), terms(sealed_at=1)
    post = [InferenceMarket.post(service=0, units=units) for units in ((new,), (new, old))]
    chain.block(signed(CUSTOMER.stash, post[0]), refused(CUSTOMER.stash, post[1], ev.TooFewCheckers))


def test_who_is_no_candidate_checks_nothing() -> None:
    chain = chain_of(4)
    bound = chain.now()
    checkers, weight = read_checkers(bound[Devices])
    assert sorted(checkers.since) == sorted(who.stash for who in chain.validators)
    assert weight.ref_time > 0
    first, *others = by_stash(chain)
    bound[TrustStake].tombstone(first.stash)
    left, _ = read_checkers(bound[Devices])
    assert sorted(left.since) == [who.stash for who in others]
    assert find_checkers(bound[Devices], CUSTOMER.stash, 1) == CheckersFound(is_enough=True, looks=3)
    for who in others[:2]:
        bound[TrustStake].tombstone(who.stash)
    assert find_checkers(bound[Devices], CUSTOMER.stash, 1) == CheckersFound(is_enough=False, looks=4)


@pytest.mark.parametrize(("gone", "looks"), [(0, 3), (2, 5), (5, 8)])
def test_a_post_pays_for_each_in_office_that_it_looked_at_and_for_no_other(gone: int, looks: int) -> None:
    """It stops at the third that can vote."""
    chain = chain_of(8)
    bound = chain.block(*(without_key(chain, who) for who in by_stash(chain)[:gone]))
    call = InferenceMarket.post(service=0, units=(terms(sealed_at=chain.height - 1),))
    declared = call.weight.ref_time
    paid = bound.dispatch(call, Signed(CUSTOMER.stash)).actual_weight
    assert paid is not None
    assert declared - paid.ref_time == (VALIDATORS_MAX - looks) * LOOK_WEIGHT.ref_time
    assert paid.proof_size == call.weight.proof_size


def by_stash(chain: MarketChain) -> list[Keys]:
    """Return the validators in the order of reads."""
    return sorted(chain.validators, key=lambda who: who.stash)


# ---------------------------------------------------------------------------------------------------------------- stake


@pytest.mark.parametrize(
    ("stakes", "barred", "places", "spare"),
    [
        ([10] * 6, 0, 8, Spare(2, 10)),
        ([10] * 7, 0, 8, Spare(2, 10)),
        ([10] * 9, 0, 8, Spare(3, 10)),
        ([10] * 9, 0, 1, Spare(1, 10)),
        ([10] * 9, 2, 8, Spare(1, 10)),
        ([10] * 9, 3, 8, Spare(0, 0)),
        ([30, 10, 10, 10, 10, 10, 10], 0, 1, Spare(1, 30)),
        ([30, 10, 10, 10, 10, 10, 10], 0, 2, Spare(2, 10)),
        ([30, 10, 10, 10, 10, 10, 10], 0, 4, Spare(3, 10)),
        ([40, 10, 10, 10, 10, 10], 0, 1, Spare(1, 10)),
        ([20, 20, 10, 10, 10, 10], 0, 2, Spare(2, 10)),
        ([20, 20, 20, 10, 10, 10], 0, 2, Spare(2, 10)),
        ([23, 22, 21, 12, 11, 11], 0, 2, Spare(2, 21)),
    ],
)
def test_of_a_set_that_is_not_small_a_third_by_stake_may_race(
    stakes: list[int], barred: int, places: int, spare: Spare
) -> None:
    """The heaviest stay out until the rest holds no more than a third, together with those that the unit bars."""
    held = {bytes([number]): stake for number, stake in enumerate(stakes)}
    out = list(reversed(held))[:barred]
    assert CheckersLeft(3, dict.fromkeys(held, 1), held).spare(1, out, places) == spare


@given(
    stakes=st.lists(st.integers(1, 10**6), min_size=6, max_size=20),
    places=st.integers(1, 8),
    barred=st.sets(st.integers(0, 19)),
    chance=st.randoms(use_true_random=False),
)
def test_whoever_may_race_holds_a_third_with_who_is_barred(
    stakes: list[int], places: int, barred: set[int], chance: random.Random
) -> None:
    held = {bytes([number]): stake for number, stake in enumerate(stakes)}
    out = {bytes([number]): None for number in sorted(barred)}
    spare = spare_of_stake(held, out, places)
    may = [stake for stash, stake in held.items() if stash not in out and stake <= spare.heaviest]
    assert spare.count <= min(places, len(may))
    racing = sum(chance.sample(may, spare.count)) + sum(held.get(stash, 0) for stash in out)
    assert spare.count == 0 or RACING_PART * racing <= sum(stakes)


# --------------------------------------------------------------------------------------------------- slots of a service


CONSUMER = DeviceClass.CONSUMER


def slot(owner: int, ask: int, changed_at: int = 1) -> FreeSlot:
    device = bytes([owner, ask]) * 16
    return FreeSlot(device, bytes([owner]) * 32, 100, 100, ask, key_since=1, changed_at=changed_at)


def wanted(rate: int, classes: tuple[DeviceClass, ...] = tuple(DeviceClass)) -> Wanted:
    return Wanted(rate, 1, 1, 1, (), classes=classes)


def test_only_asks_of_the_wanted_classes_count() -> None:
    """Otherwise slots that may not race would wake a unit, and a cheaper one that may race would not."""
    found = ServiceSlots([slot(1, 10), replace(slot(1, 30), kind=CONSUMER), replace(slot(2, 20), kind=CONSUMER)])
    assert not found.is_affordable(wanted(29, (CONSUMER,)), 2)
    assert found.is_affordable(wanted(30, (CONSUMER,)), 2)
    assert found.is_affordable(wanted(20, (DeviceClass.CPU, CONSUMER)), 2)
    assert not found.is_affordable(wanted(99, (DeviceClass.CPU,)), 2)
    assert [found.next_ask(wanted(10, (kind,)), 1) for kind in DeviceClass] == [None, 20, None]


def test_the_lowest_ask_of_each_owner_counts() -> None:
    found = ServiceSlots([slot(1, 10), slot(1, 90), slot(2, 80), slot(2, 20)])
    assert not found.is_affordable(wanted(9), 1)
    assert found.is_affordable(wanted(10), 1)
    assert not found.is_affordable(wanted(19), 2)
    assert found.is_affordable(wanted(20), 2)
    assert not found.is_affordable(wanted(100), 3)


def test_the_next_ask_is_the_first_that_may_bring_enough_owners() -> None:
    found = ServiceSlots([slot(1, 10), slot(2, 20), slot(3, 30)])
    assert [found.next_ask(wanted(9), racers) for racers in (1, 2, 3, 4)] == [10, 20, 30, None]
    assert [found.next_ask(wanted(20), racers) for racers in (1, 2, 3)] == [30, 30, 30], "those below it did not do"
    assert found.next_ask(wanted(30), 1) is None


def test_the_newest_change_is_that_of_any_slot() -> None:
    assert ServiceSlots([slot(1, 10, 7), slot(2, 10, 3)]).changed_at == 7
    assert ServiceSlots([]).changed_at == 0


def test_where_others_race_one_place_is_to_be_filled() -> None:
    """The checkers to keep are computed for that place: one more racer, not the requested number."""
    chain = MarketChain(named_keys(27))
    _, unit, racers = matched(chain, 3)
    slots = Slots(chain.now()[InferenceMarket], WeightMeter(Weight(10**12, 0)))
    wanted = slots.wanted(unit, unit.price)
    assert {racer.stash for racer in racers} < set(wanted.excluded)
    assert wanted.spare.count == 1
    queued = replace(unit, racers=(), declined_by=())
    assert slots.wanted(queued, unit.price).spare.count == 3


@pytest.mark.parametrize("price", [OGPU, 12 * OGPU])
def test_what_one_service_was_given_counts_once_for_another(price: int) -> None:
    """A device for two units and, at a high price, with a bond for two: one of each service in one block."""
    chain = MarketChain(named_keys(4), queue=1)
    only = chain.validators[0]
    chain.block(*(signed(one.stash, Devices.pause(device=one.device)) for one in chain.validators[1:]))
    chain.blocks(3)
    bound = chain.now()
    sold = ServiceTerms(b"x", WORKLOAD, MODEL, per_thousand(price // 100), per_thousand(price), 1, 30, 64)
    numbers = (1, 2)
    for number in numbers:
        catalogue.create(bound[InferenceMarket], CUSTOMER.stash, sold, deposit_grains=0)
        catalogue.place_offer(bound[InferenceMarket], only.device, number, per_thousand(price // 100))
    chain.state = chain.state.updated(bound.overlay.changes())
    chain.blocks(3)
    asked = terms(price, 1, chain.height - 1)
    chain.block(*(signed(CUSTOMER.stash, InferenceMarket.post(service=number, units=(asked,))) for number in numbers))
    chain.blocks(4)
    units = [unit for _, unit in chain.now()[InferenceMarket].units.items() if unit is not None]
    assert [unit.state for unit in units] == [UnitState.RACING] * 2
    held = chain.device(only)
    assert price == OGPU or held.bond < held.secured * 3 // 2, "there is not room for three"
