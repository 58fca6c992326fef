"""The money table, to the grain, and nothing made or lost in any row."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.market.claims.collateral import check_share
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.numbers import CUSTOMER_BOND_PPM
from gpu_tasks.market.inference.rules import DEFAULT_RULES as RULES
from gpu_tasks.market.inference.units import Racer, Refund, Reveal, Unit, UnitTerms
from runtime.pallets.staking.slashing import (
    SLASH_FLOOR_PPM,
    SLASH_SLOPE,
    Share,
    SlashCurve,
    SlashSplit,
    equivocation_ppm,
    slash_shares,
)

CUSTOMER, WINNER, WITNESS, TREASURY = (letter * 32 for letter in (b"C", b"W", b"S", b"T"))
OGPU = 10**8
TOKENS = 64
CURVE = SlashCurve(SLASH_FLOOR_PPM, SLASH_SLOPE)


def unit(price_max: int = OGPU, price: int | None = None, racers: int = 2) -> Unit:
    terms = UnitTerms(price_max, racers, bytes(32), bytes(32), 1, TOKENS)
    return Unit(
        service=0,
        customer=CUSTOMER,
        terms=terms,
        escrow=money.escrow(RULES, price_max, racers),
        bond=money.customer_bond(price_max, CUSTOMER_BOND_PPM),
        deposit=OGPU // 10,
        posted_at=1,
        recorded_at=1,
        price=price_max if price is None else price,
        racers=tuple(Racer(bytes([place]) * 32, bytes(32), 1) for place in range(racers)),
    )


def by_payee(shares: tuple[Share, ...]) -> dict[bytes | None, int]:
    totals: dict[bytes | None, int] = {}
    for share in shares:
        totals[share.payee] = totals.get(share.payee, 0) + share.amount
    return totals


def answering(owner: bytes, tokens: int = TOKENS, tokens_in: int = 0) -> Racer:
    return Racer(owner, bytes(32), 1, reveal=Reveal(bytes(32), bytes(32), tokens, 9, tokens_in))


def settled(
    posted: Unit, witness: bytes | None = None, tokens: int = TOKENS, tokens_in: int = 0
) -> dict[bytes | None, int]:
    held, winner = posted.escrow + posted.bond, answering(WINNER, tokens, tokens_in)
    second = None if witness is None else answering(witness, tokens, tokens_in)
    return by_payee(money.settlement(posted, held, winner=winner, witness=second, treasury=TREASURY))


def test_a_fee_that_is_odd_burns_the_grain_that_does_not_divide() -> None:
    paid = settled(unit(price_max=OGPU, price=150))
    assert (paid[WINNER], paid[TREASURY], paid[None]) == (147, 1, 2)


def test_agreed_by_two() -> None:
    assert settled(unit(price=80_000_000), WITNESS) == {
        WINNER: 78_400_000,
        WITNESS: 23_520_000,
        TREASURY: 800_000 + 240_000,
        None: 800_000 + 240_000,
        CUSTOMER: 100_000_000 + 240_000_000 + 30_000_000 + 5_000_000 - 80_000_000 - 24_000_000,
    }


def test_a_lone_racer() -> None:
    assert settled(unit(racers=1)) == {
        WINNER: 98_000_000,
        TREASURY: 1_000_000,
        None: 1_000_000,
        CUSTOMER: 240_000_000 + 5_000_000,
    }


def test_a_lone_answer_of_two_whose_checks_the_customer_paid() -> None:
    posted = unit()
    held = posted.escrow + posted.bond - 240_000_000
    paid = by_payee(money.settlement(posted, held, winner=answering(WINNER), witness=None, treasury=TREASURY))
    assert paid[CUSTOMER] == 5_000_000 + 30_000_000


@pytest.mark.parametrize(
    ("reason", "burned"),
    [
        (Refund.CANCELLED, 500_000),
        (Refund.EXPIRED, 0),
        (Refund.INPUT_BAD, 0),
        (Refund.INCONCLUSIVE, 0),
        (Refund.REFUTED, 0),
    ],
)
def test_what_a_refund_burns(reason: Refund, burned: int) -> None:
    posted = unit()
    held = posted.escrow + posted.bond
    paid = by_payee(money.refund(posted, held, reason))
    assert paid.get(None, 0) == burned
    assert sum(paid.values()) == held == 375_000_000


@pytest.mark.parametrize(
    ("price", "check_ppm", "fee"),
    [(OGPU, 1_000_000, 120_000_000), (OGPU, 200_000, 24_000_000), (OGPU, 1, 100_000), (0, 1_000_000, 100_000)],
)
def test_the_fee_of_a_check_has_a_margin_over_its_cost_and_a_least(price: int, check_ppm: int, fee: int) -> None:
    rules = replace(RULES, check_ppm=check_share(check_ppm))
    assert money.check_fee_max(rules, price) == fee
    assert money.check_fees_max(rules, price) == 2 * fee
    assert money.check_fees_max(replace(rules, check_rate_ppm=0), price) == 0


@given(st.integers(0, 21 * 10**14), st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 1_000_000))
def test_what_is_locked_at_the_highest_price_is_enough_at_any_other(
    price_max: int, ppm: int, racers: int, witness: int
) -> None:
    rules = replace(RULES, witness_share=witness)
    price = price_max * ppm // 10**6
    assert money.escrow(rules, price, racers) <= money.escrow(rules, price_max, racers)


def test_voters_about_an_input_share_the_customers_bond() -> None:
    assert money.input_fee(unit()) == 5_000_000 // 9
    assert money.input_fee(unit(price_max=1_000)) == RULES.check_fee_min


@pytest.mark.parametrize("racers", [1, 2, 8])
def test_a_post_prepays_two_calls_a_racer_and_four_of_checks(racers: int) -> None:
    assert money.duty_calls(racers) == 2 * racers + 4


@given(st.integers(1, 21 * 10**12), st.tuples(*[st.integers(0, 10**7)] * 2), st.integers(0, 1_000_000), st.data())
def test_an_answer_is_paid_for_the_part_of_the_allowed_work_that_it_took(
    price: int, tokens: tuple[int, int], share: int, data: st.DataObject
) -> None:
    """The price x work done / work allowed, rounded down. An input token counts its share."""
    posted, (tokens_in, allowed) = unit(price), (tokens[0], tokens[1] + 1)
    said, said_in = data.draw(st.integers(0, allowed)), data.draw(st.integers(0, tokens_in))
    terms = replace(posted.terms, tokens_max=allowed, tokens_in=tokens_in, requests=2)
    posted = replace(posted, terms=terms, input_share=share)
    due = price * (said * TOKEN + said_in * share) // (allowed * TOKEN + tokens_in * share)
    witness = due * RULES.witness_share // 10**6
    paid = settled(posted, WITNESS, said, said_in)
    assert money.due(posted, answering(WINNER, said, said_in)) == due
    assert [paid.get(who, 0) for who in (WINNER, WITNESS)] == [
        earned - earned * RULES.settlement_fee // 10**6 for earned in (due, witness)
    ]


@given(st.integers(0, 21 * 10**14))
def test_a_rebate_is_less_than_the_fee(price: int) -> None:
    assert money.rebate(RULES, price) < money.fee(RULES, price) or not money.fee(RULES, price)


@pytest.mark.parametrize(
    ("price", "racers", "requests", "rate_ppm", "needed"),
    [
        (OGPU, 1, 1, 100_000, 3_720_000_000),
        (OGPU, 2, 1, 100_000, 4_836_000_000),
        (OGPU, 8, 1, 100_000, 4_836_000_000),
        (OGPU, 1, 1, 333_333, 2_160_000_000),
        (OGPU, 1, 39, 100_000, 3_720_000_000),
        (OGPU, 1, 40, 100_000, 2_160_000_000),
        (OGPU, 1, 1, 0, 2_160_000_000),
        (1_000, 1, 1, 100_000, 18 * 100_000),
    ],
)
def test_collateral(price: int, racers: int, requests: int, rate_ppm: int, needed: int) -> None:
    """37.2 prices at a rate of 1/10, with the witness's pay in races; else twice the fees of nine voters."""
    assert money.collateral(replace(RULES, check_rate_ppm=rate_ppm), price, racers, requests) == needed


@pytest.mark.parametrize(("age", "price"), [(0, 100), (5, 150), (10, 200), (99, 200)])
def test_the_price_ramps(age: int, price: int) -> None:
    assert money.ramped_price(100, 200, age, 10) == price


@given(
    st.integers(0, 21 * 10**14), st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 100), st.integers(0, TOKENS)
)
def test_every_outcome_pays_out_exactly_what_is_held(
    price_max: int, ppm: int, racers: int, spent: int, tokens: int
) -> None:
    """For any part of the fees that checkers have earned, and any tokens of the winner."""
    posted = unit(price_max, price_max * ppm // 10**6, racers)
    fees = money.check_fees_max(RULES, posted.price)
    held = posted.escrow + posted.bond
    left = held - fees * spent // 100
    first, second = answering(WINNER, tokens), answering(WITNESS, tokens)
    outcomes = [
        (left, money.settlement(posted, left, winner=first, witness=second if racers > 1 else None, treasury=TREASURY)),
        (left, money.settlement(posted, left, winner=first, witness=None, treasury=TREASURY)),
        *((left, money.refund(posted, left, reason)) for reason in Refund),
    ]
    for there, shares in outcomes:
        assert sum(share.amount for share in shares) == there
        assert all(share.amount > 0 for share in shares)


@given(
    st.integers(0, 21 * 10**14), st.lists(st.binary(min_size=32, max_size=32), max_size=7), st.booleans(),
    st.none() | st.integers(0, 10**14),
)  # fmt: skip
def test_a_slash_is_split_exactly(amount: int, rewarded: list[bytes], has_victim: bool, reward_max: int | None) -> None:
    shares = slash_shares(
        amount,
        SlashSplit(400_000, 100_000),
        treasury=TREASURY,
        victim=CUSTOMER if has_victim else None,
        rewarded=tuple(rewarded),
        reward_max=reward_max,
    )
    assert sum(share.amount for share in shares) == amount
    assert by_payee(shares).get(None, 0) >= amount // 2
    most = amount // 10 if reward_max is None else min(amount // 10, reward_max)
    assert sum(by_payee(shares).get(payee, 0) for payee in set(rewarded)) <= most
    assert by_payee(shares).get(CUSTOMER, 0) == (amount * 4 // 10 if has_victim else 0)


@pytest.mark.parametrize(
    ("offending", "total", "ppm"),
    [
        (1, 100, 50_000),
        (10, 100, 90_000),
        (20, 100, 360_000),
        (25, 100, 562_500),
        (1, 3, 1_000_000),
        (9, 10, 1_000_000),
        (0, 0, 50_000),
    ],
)
def test_equivocation_costs_more_the_more_do_it(offending: int, total: int, ppm: int) -> None:
    assert equivocation_ppm(offending, total, CURVE) == ppm
