"""The limits of posts, offers and services, and a unit's numbers from its post on."""

import random
from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.market.claims.numbers import ClaimNumbers
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference import catalogue, intake
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.events import ProviderRebated, ProviderSlashed, RaceMissed, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import work_allowed
from gpu_tasks.market.inference.numbers import MarketNumbers
from gpu_tasks.market.inference.rules import DEFAULT_RULES, UnitRules
from gpu_tasks.market.inference.services import (
    PACE_MAX,
    UNIT_COMMIT_WINDOW_MAX,
    ServiceTerms,
    commit_window_of,
    is_sound,
    offer_hold,
)
from gpu_tasks.market.inference.units import Unit, UnitTerms, is_open, unit_id_of
from market_agents import Agent, Habit
from runtime.frame.errors import InvalidBlock
from runtime.frame.pallet import Parameter
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    MODEL,
    OGPU,
    WORKLOAD,
    Keys,
    MarketChain,
    named_keys,
    per_thousand,
    refused,
    root_of,
    signed,
    terms,
    tolerant,
)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (terms(price=1), ev.UnsoundTerms),
        (terms(price=11 * OGPU), ev.UnsoundTerms),
        (terms(racers=0), ev.UnsoundTerms),
        (terms(racers=9), ev.UnsoundTerms),
        (terms(tokens=257), ev.UnsoundTerms),
        (terms(tokens=0), ev.UnsoundTerms),
        (terms(price=OGPU // 100 - 1), ev.UnsoundTerms),
        (terms(price=10 * OGPU + 1), ev.UnsoundTerms),
        (replace(terms(), requests=0), ev.UnsoundTerms),
        (replace(terms(price=OGPU), requests=4_097, tokens_max=4_097), ev.UnsoundTerms),
        (replace(terms(tokens=1), requests=2), ev.UnsoundTerms),
        (replace(terms(price=20 * OGPU, tokens=513), requests=2), ev.UnsoundTerms),
        (terms(sealed_at=4), ev.StaleSealing),
    ],
)
def test_what_may_not_be_posted(bad: object, error: type[Exception]) -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    chain.block(refused(CUSTOMER.stash, InferenceMarket.post(service=0, units=(bad,)), error))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "good",
    [
        terms(price=OGPU // 100),
        terms(price=10 * OGPU),
        replace(terms(price=OGPU, tokens=2), requests=2, price_max=OGPU // 100),
        replace(terms(price=20 * OGPU, tokens=512), requests=2),
        replace(terms(price=OGPU, tokens=4_096), requests=4_096),
    ],
)
def test_what_may_just_be_posted(good: UnitTerms) -> None:
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    (unit_id,) = chain.post(good)
    assert chain.unit(unit_id).terms == good


SOLD = ServiceTerms(
    b"x", WORKLOAD, MODEL, 1_000, 1_000_000, ramp=0, commit_window=30, tokens_max=1_000, input_share=250_000, pace=64
)


def test_an_input_token_counts_the_share_that_the_service_names() -> None:
    """400 input and 100 output tokens equal 200 output tokens: of a thousand for 1,000,000, that is 200,000."""
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    chain.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=SOLD)))
    asked = replace(terms(price=200_000, tokens=100, sealed_at=3), tokens_in=400)
    dear, cheap = replace(asked, price_max=200_001), replace(asked, price_max=199)
    chain.block(
        refused(CUSTOMER.stash, InferenceMarket.post(service=1, units=(dear,)), ev.UnsoundTerms),
        refused(CUSTOMER.stash, InferenceMarket.post(service=1, units=(cheap,)), ev.UnsoundTerms),
        signed(CUSTOMER.stash, InferenceMarket.post(service=1, units=(asked, replace(asked, price_max=200)))),
    )
    unit = chain.unit(unit_id_of(GENESIS_HASH, CUSTOMER.stash, 0))
    assert unit.input_share == 250_000
    assert work_allowed(unit) == 200 * 1_000_000


def test_a_lease_is_longer_by_three_times_what_the_slowest_needs_and_has_an_end() -> None:
    """100 tokens at 64 a block take 1.6 blocks, and 4.7 are added. A paceless service adds none."""
    assert commit_window_of(SOLD, 100 * 1_000_000) == 30 + 5
    assert commit_window_of(SOLD, 64 * 1_000_000) == 30 + 3
    assert commit_window_of(replace(SOLD, pace=0), 10**12) == 30
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    slow = replace(SOLD, pace=1, tokens_max=10_000)
    chain.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=slow)))
    longest = (UNIT_COMMIT_WINDOW_MAX - 30) // 3
    fits, over = (terms(price=OGPU // 100, tokens=tokens, sealed_at=3) for tokens in (longest, longest + 1))
    chain.block(
        refused(CUSTOMER.stash, InferenceMarket.post(service=1, units=(over,)), ev.UnsoundTerms),
        signed(CUSTOMER.stash, InferenceMarket.post(service=1, units=(fits,))),
    )
    unit = chain.unit(unit_id_of(GENESIS_HASH, CUSTOMER.stash, 0))
    assert chain.now()[InferenceMarket].windows_of(unit).commit_window == UNIT_COMMIT_WINDOW_MAX


def test_a_service_keeps_to_its_limits() -> None:
    assert is_sound(SOLD)
    assert is_sound(replace(SOLD, input_share=1_000_000, pace=PACE_MAX))
    assert not is_sound(replace(SOLD, input_share=1_000_001))
    assert not is_sound(replace(SOLD, pace=PACE_MAX + 1))


def test_how_old_a_sealing_may_be_is_counted_from_the_final_block_and_not_from_the_newest() -> None:
    chain = MarketChain(named_keys(2), constants={"InferenceMarket.sealed_age_max": 3}, final_lag=5)
    chain.blocks(12)
    oldest = chain.height + 1 - 5 - 3
    stale = InferenceMarket.post(service=0, units=(terms(sealed_at=oldest - 1),))
    chain.block(refused(CUSTOMER.stash, stale, ev.StaleSealing))
    chain.post(terms(sealed_at=oldest + 1))


def test_no_more_units_are_open_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "UNITS_OPEN_MAX", 2)
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    three = InferenceMarket.post(service=0, units=(terms(),) * 3)
    chain.block(refused(CUSTOMER.stash, three, ev.TooManyOpen))
    chain.post(terms(), terms())
    chain.block(refused(CUSTOMER.stash, InferenceMarket.post(service=0, units=(terms(),)), ev.TooManyOpen))


def test_no_more_devices_offer_a_service_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "OFFERS_PER_SERVICE_MAX", 2)
    chain = MarketChain(named_keys(3))
    first, second, third = chain.validators
    offer = InferenceMarket.offer(device=first.device, service=0, ask=per_thousand(OGPU))
    chain.block(signed(first.provider, InferenceMarket.withdraw_offer(device=first.device, service=0)))
    chain.block(refused(first.provider, offer, ev.TooManyOpen))
    again = InferenceMarket.offer(device=second.device, service=0, ask=per_thousand(OGPU))
    leave = InferenceMarket.withdraw_offer(device=third.device, service=0)
    chain.block(signed(second.provider, again), signed(third.provider, leave), signed(first.provider, offer))


def test_only_its_owner_closes_a_service() -> None:
    chain = MarketChain(named_keys(2))
    create = InferenceMarket.create_service(terms=ServiceTerms(b"mine", bytes(32), bytes(32), 1, 2, 0, 1, 1))
    close = InferenceMarket.close_service(service=1)
    owner, other = CUSTOMER.stash, chain.validators[0].stash
    chain.block(signed(owner, create), refused(other, close, ev.NotServiceOwner), signed(owner, close))
    chain.block(refused(owner, close, ev.UnknownService))


# ---------------------------------------------------------------------------------------------------------------- rules


PROMISED = (ClaimNumbers.check_rate, ClaimNumbers.check_fee_min)
"""A unit's terms for its checks. The windows of a claim are those of the block that opens it."""
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


@pytest.mark.parametrize("member", [field.name for field in fields(UnitRules) if field.name != "check_ppm"])
def test_a_post_copies_every_rule(member: str) -> None:
    name = {"keep_blocks": "unit_keep", "check_rate_ppm": "check_rate"}.get(member, member)
    parameter = {**ClaimNumbers.parameters, **MarketNumbers.parameters}[name]
    chain = MarketChain(named_keys(4))
    value = 200_000 if name == "check_rate" else parameter.default + 1
    chain.block(changing({parameter: value}))
    (unit,) = chain.post(terms(racers=1))
    assert chain.unit(unit).rules == replace(DEFAULT_RULES, **{member: value})


@pytest.mark.parametrize(("rate", "played"), [(199_999, 100_000), (333_334, 333_333), (1_000_000, 1_000_000)])
def test_a_chance_without_a_game_counts_as_the_next_lower_one(rate: int, played: int) -> None:
    chain = MarketChain(named_keys(4))
    chain.block(changing({ClaimNumbers.check_rate: rate}))
    (unit,) = chain.post(terms(racers=1))
    assert chain.unit(unit).rules.check_rate_ppm == played


@pytest.mark.parametrize(("validators", "rate"), [(3, 0), (4, 100_000)])
def test_a_chain_for_development_checks_nothing(validators: int, rate: int) -> None:
    chain = MarketChain(named_keys(validators))
    (unit,) = chain.post(terms(racers=1))
    record = chain.unit(unit)
    assert record.rules.check_rate_ppm == rate
    assert record.escrow == OGPU * (1 if not rate else 1 + 2 * 6 / 5)


@pytest.mark.parametrize("check_ppm", [1, 200_000, 1_000_000])
def test_a_unit_pays_for_checks_by_the_cost_of_its_workload(check_ppm: int) -> None:
    chain = MarketChain(named_keys(4))
    sold = ServiceTerms(b"x", WORKLOAD, MODEL, 1, per_thousand(OGPU), 5, 5, 64, check_ppm=check_ppm)
    chain.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=sold)))
    chain.block(signed(CUSTOMER.stash, InferenceMarket.post(service=1, units=(terms(racers=1),))))
    ((_, record),) = chain.now()[InferenceMarket].units.items()
    assert record is not None
    fee = max(chain.now()[ResultClaims].check_fee_min, -(-OGPU * -(-check_ppm * 6 // 5) // 1_000_000))
    assert record.escrow == OGPU + 2 * fee


def test_what_a_post_pays_goes_by_the_parameters_of_its_block() -> None:
    chain = MarketChain(named_keys(4))
    chain.block(changing({InferenceMarket.customer_bond: 70_000, ClaimNumbers.check_fee_min: OGPU}))
    (unit,) = chain.post(terms(price=OGPU // 2, racers=2))
    record = chain.unit(unit)
    assert (record.bond, record.escrow) == (OGPU * 7 // 200, OGPU // 2 + OGPU * 3 // 20 + 2 * OGPU)


LIVES: dict[str, tuple[tuple[Habit | None, ...], int, type[Any]]] = {
    "settled": ((Habit.HONEST,) * 3, 2, UnitSettled),
    "checked": ((Habit.LIAR,) * 4 + (Habit.HONEST,) * 8, 3, ProviderSlashed),
    "missed": ((None, None), 2, RaceMissed),
    "declined": ((Habit.DECLINER,) * 9, 1, RaceMissed),
    "expired": ((Habit.HONEST,), 2, UnitRefunded),
}
"""By name: the providers' behaviour (None: absent), the number of racers, and the events that must occur."""


def life(name: str, change: dict[Parameter[Any], int]) -> tuple[Unit, list[Any], bytes]:
    """Run a unit from its post until its record is dropped, with a change in the block after its post."""
    habits, racers, _ = LIVES[name]
    short = {"InferenceMarket.queue_blocks": 60, "InferenceMarket.unit_keep": 20}
    chain = MarketChain(named_keys(len(habits)), constants=short)
    chance = random.Random(4)
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
    """Return a life without a change. It shows what it is there for."""
    ended, money, owned = life(name, {})
    assert not is_open(ended)
    assert any(isinstance(event, LIVES[name][2]) for event in money)
    return ended, money, owned


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
