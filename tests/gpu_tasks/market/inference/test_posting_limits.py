"""What may be posted, offered and sold: each limit at its edge, and what a unit's work and lease come to."""

from dataclasses import replace

import pytest

from gpu_tasks.market.inference import catalogue, intake
from gpu_tasks.market.inference import events as ev
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import work_allowed
from gpu_tasks.market.inference.services import PACE_MAX, UNIT_LEASE_MAX, ServiceTerms, is_sound, lease_of
from gpu_tasks.market.inference.units import UnitTerms, unit_id_of
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    MODEL,
    OGPU,
    WORKLOAD,
    MarketChain,
    named_keys,
    per_thousand,
    refused,
    signed,
    terms,
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
        (replace(terms(price=OGPU * 1_000), requests=4_097, tokens_max=4_097), ev.UnsoundTerms),
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
    b"x", WORKLOAD, MODEL, 1_000, 1_000_000, ramp=0, lease=30, tokens_max=1_000, input_share=250_000, pace=64
)


def test_an_input_token_counts_the_share_that_the_service_names() -> None:
    """400 input and 100 output tokens come to 200 output tokens: of a thousand that ask 1,000,000, 200,000."""
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
    """100 tokens at 64 a block take 1.6 blocks, and 4.7 are added; of no pace none."""
    assert lease_of(SOLD, 100 * 1_000_000) == 30 + 5
    assert lease_of(SOLD, 64 * 1_000_000) == 30 + 3
    assert lease_of(replace(SOLD, pace=0), 10**12) == 30
    chain = MarketChain(named_keys(2))
    chain.blocks(3)
    slow = replace(SOLD, pace=1, tokens_max=10_000)
    chain.block(signed(CUSTOMER.stash, InferenceMarket.create_service(terms=slow)))
    longest = (UNIT_LEASE_MAX - 30) // 3
    fits, over = (terms(price=OGPU // 100, tokens=tokens, sealed_at=3) for tokens in (longest, longest + 1))
    chain.block(
        refused(CUSTOMER.stash, InferenceMarket.post(service=1, units=(over,)), ev.UnsoundTerms),
        signed(CUSTOMER.stash, InferenceMarket.post(service=1, units=(fits,))),
    )
    unit = chain.unit(unit_id_of(GENESIS_HASH, CUSTOMER.stash, 0))
    assert chain.now()[InferenceMarket].racing.windows_of(unit).lease == UNIT_LEASE_MAX


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
