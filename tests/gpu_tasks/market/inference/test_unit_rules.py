"""A unit goes by the numbers of its post: whatever Root changes afterwards, its life and its money are the same."""

import random
from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.market.courts.money import case_collateral
from gpu_tasks.market.courts.numbers import CourtNumbers
from gpu_tasks.market.inference.events import ProviderRebated, ProviderSlashed, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.numbers import MarketNumbers
from gpu_tasks.market.inference.rules import DEFAULT_RULES, UnitRules
from gpu_tasks.market.inference.services import ServiceTerms, offer_hold
from gpu_tasks.market.inference.units import Unit, is_open
from market_agents import Agent, Habit
from runtime.frame.errors import InvalidBlock
from runtime.frame.pallet import Parameter
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import (
    CUSTOMER,
    OGPU,
    Keys,
    MarketChain,
    attach,
    attestation,
    commit,
    named_keys,
    root_of,
    signed,
    terms,
    tolerant,
)

PROMISED = (CourtNumbers.judge_fee_ppm, CourtNumbers.judge_fee_min, CourtNumbers.audit_rate_ppm)
"""What a unit says of its cases; the windows of a case are those of the block that opens it."""
NUMBERS = (*MarketNumbers.parameters.values(), *PROMISED)
MOVABLE = tuple(number for number in NUMBERS if not number.is_frozen)
MONEY = (UnitSettled, UnitRefunded, ProviderSlashed, ProviderRebated, RaceMissed)
BLOCKS = 250
RIGHT = root_of(b"right")
OTHER = Keys("other")
DEPOSITS = (InferenceMarket.service_deposit, InferenceMarket.offer_deposit, InferenceMarket.unit_deposit)


def changing(values: dict[Parameter[Any], int]) -> Callable[[Bound], None]:
    def step(bound: Bound) -> None:
        for parameter, value in values.items():
            bound.parameters.change(parameter, value)

    return step


def test_the_defaults_of_the_rules_are_those_of_the_parameters() -> None:
    bound = MarketChain(named_keys(1)).now()
    assert bound[InferenceMarket].rules() == DEFAULT_RULES


@pytest.mark.parametrize("member", [field.name for field in fields(UnitRules)])
def test_a_post_copies_every_rule(member: str) -> None:
    name = {"keep_blocks": "unit_keep"}.get(member, member)
    parameter = {**CourtNumbers.parameters, **MarketNumbers.parameters}[name]
    chain = MarketChain(named_keys(1))
    value = parameter.default + 1
    chain.block(changing({parameter: value}))
    (unit,) = chain.post(terms(racers=1))
    assert chain.unit(unit).rules == replace(DEFAULT_RULES, **{member: value})


def test_what_a_post_pays_goes_by_the_parameters_of_its_block() -> None:
    chain = MarketChain(named_keys(1))
    chain.block(changing({InferenceMarket.customer_bond: 70_000, CourtNumbers.judge_fee_ppm: 600_000}))
    (unit,) = chain.post(terms(price=OGPU, racers=2))
    assert (chain.unit(unit).bond, chain.unit(unit).escrow) == (OGPU * 7 // 100, OGPU + OGPU * 6 // 5 + OGPU * 6 // 100)


def test_a_change_in_the_block_of_a_post_comes_too_late_for_it() -> None:
    chain = MarketChain(named_keys(1))
    post = signed(CUSTOMER.stash, InferenceMarket.post(service=0, units=(terms(racers=1),)))
    chain.block(changing({InferenceMarket.race_close: 99}), post)
    (record,) = [record for _, record in chain.now()[InferenceMarket].units.items()]
    assert record is not None
    assert record.rules == DEFAULT_RULES


LIVES: dict[str, tuple[tuple[Habit | None, ...], int, type[Any]]] = {
    "settled": ((Habit.HONEST,) * 3, 2, UnitSettled),
    "judged": ((Habit.LIAR,) * 4 + (Habit.HONEST,) * 5, 3, ProviderSlashed),
    "missed": ((None, None), 2, RaceMissed),
    "declined": ((Habit.DECLINER,) * 4, 2, ProviderSlashed),
    "expired": ((Habit.HONEST,), 2, UnitRefunded),
}
"""By name: how providers behave (None: not at all), how many race, and what of it must be seen."""


def life(name: str, change: dict[Parameter[Any], int]) -> tuple[Unit, list[Any], bytes]:
    """A unit from its post until its record is dropped, with a change in the block after its post."""
    habits, racers, _ = LIVES[name]
    short = {"InferenceMarket.queue_blocks": 60, "InferenceMarket.unit_keep": 20}
    chain = MarketChain(named_keys(len(habits)), constants=short)
    chance = random.Random(1)
    pairs = zip(chain.validators, habits, strict=True)
    agents = [Agent(keys, habit, chance) for keys, habit in pairs if habit is not None]
    (unit,) = chain.post(terms(racers=racers))
    chain.block(changing(change))
    ended = chain.unit(unit)
    for _ in range(BLOCKS):
        record = chain.now()[InferenceMarket].units[unit]
        if record is None:
            break
        ended = record
        chain.block(*(tolerant(step, InvalidBlock) for agent in agents for step in agent.steps(chain)))
    else:
        pytest.fail("a record that is never dropped")
    owned = [chain.now()[Balances].free_balance(keys.stash) for keys in (*chain.validators, CUSTOMER)]
    return ended, [event for event in chain.all_events if isinstance(event, MONEY)], str((chain.height, owned)).encode()


@lru_cache
def untouched(name: str) -> tuple[Unit, list[Any], bytes]:
    return life(name, {})


@pytest.mark.parametrize("name", LIVES)
def test_each_life_shows_what_it_is_there_for(name: str) -> None:
    ended, money, _ = untouched(name)
    assert not is_open(ended)
    assert any(isinstance(event, LIVES[name][2]) for event in money)


@pytest.mark.parametrize("name", LIVES)
@pytest.mark.parametrize("bound", ["least", "greatest"])
def test_no_change_after_the_post_changes_anything_for_the_unit(name: str, bound: str) -> None:
    assert life(name, {number: getattr(number, bound) for number in MOVABLE}) == untouched(name)


@settings(max_examples=15)
@given(st.sampled_from(sorted(LIVES)), st.dictionaries(st.sampled_from(MOVABLE), st.integers(0, 100), max_size=5))
def test_nor_does_any_other(name: str, hundredths: dict[Parameter[Any], int]) -> None:
    change = {
        number: number.least + (number.greatest - number.least) * part // 100 for number, part in hundredths.items()
    }
    assert life(name, change) == untouched(name)


@pytest.mark.parametrize("number", PROMISED, ids=str)
@pytest.mark.parametrize("bound", ["least", "greatest"])
def test_its_case_pays_and_is_likely_as_was_promised(number: Parameter[Any], bound: str) -> None:
    chain = MarketChain(named_keys(5))
    (unit,) = chain.post(terms(racers=1))
    chain.block(changing({number: getattr(number, bound)}))
    while not (racers := chain.unit(unit).racers):
        chain.block()
    (racer,) = (chain.keys_of(each.owner) for each in racers)
    chain.block(commit(racer, unit, chain.unit(unit), RIGHT))
    chain.block()
    chain.block(attach(attestation(racer, unit, chain.unit(unit), RIGHT)))
    case, price = chain.case(unit), chain.unit(unit).price
    fee, seat = price // 2, case_collateral(price, 50_000, price // 2)
    assert (case.fee, case.seat, case.terms.pot_max, case.rules.rate_ppm) == (fee, seat, 5 * fee, 50_000)


def test_a_cancellation_goes_by_what_was_posted() -> None:
    chain = MarketChain(named_keys(1))
    (unit,) = chain.post(terms(racers=2))
    chain.block(changing({InferenceMarket.cancel_burn: 1_000_000}))
    bond = chain.unit(unit).bond
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit)))
    (refunded,) = chain.happened(UnitRefunded)
    assert refunded.lost == bond // 10


def test_deposits_come_back_as_they_were_held() -> None:
    chain = MarketChain(named_keys(1), [OTHER])
    device, offering = chain.validators[0].device, chain.validators[0].provider
    create = InferenceMarket.create_service(terms=ServiceTerms(b"other", bytes(32), bytes(32), 1, 2, 0, 1, 1))
    offer = InferenceMarket.offer(device=device, service=1, ask=1)
    chain.block(signed(OTHER.stash, create), signed(offering, offer))
    held = {deposit: 3 * deposit.default for deposit in DEPOSITS}
    chain.block(changing(held))
    assert [chain.now()[InferenceMarket].service_deposit, chain.now()[InferenceMarket].offer_deposit] == [
        3 * 10 * OGPU,
        3 * OGPU // 10,
    ]
    chain.block(
        signed(offering, InferenceMarket.withdraw_offer(device=device, service=1)),
        signed(OTHER.stash, InferenceMarket.close_service(service=1)),
        signed(OTHER.stash, create),
    )
    assert chain.now()[Balances].reserved_balance(OTHER.stash) == 30 * OGPU
    assert chain.now()[Balances].case_totals[offer_hold(1, device)] == 0
