"""The money and the records of sessions as pure rules: bounds, rounding, and the next step of every state."""

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from gpu_tasks.batches.requests import REQUESTS_MAX, TOKEN
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.collateral import RATES_PPM
from gpu_tasks.market.inference.money import earned
from gpu_tasks.market.inference.services import PACE_MAX, PRICE_MAX
from gpu_tasks.market.sessions import money, records
from gpu_tasks.market.sessions.records import (
    Leg,
    PeriodClaim,
    SessionRecord,
    SessionRules,
    SessionState,
    left_of,
)

ONE, TWO, TREASURY = (bytes((number,)) * 32 for number in (1, 2, 3))
RULES = SessionRules(600, 10_000, 333_333, 1_200_000, 100_000)


def session(**changed: object) -> SessionRecord:
    given_terms: dict[str, object] = {
        "customer": ONE, "signer": ONE, "customer_key": ONE, "service": 0, "workload": ONE, "model": ONE,
        "rate": 10**7, "input_share": 250_000, "pace": 10, "rules": RULES, "place_rate": 25_000, "exposure": 10**8,
        "deposit": 10**9, "record_deposit": 10**7, "opened_at": 1, "recorded_at": 1, "expires_at": 301,
    }  # fmt: skip
    return SessionRecord(**{**given_terms, **changed})  # type: ignore[arg-type]


def leg(**changed: object) -> Leg:
    return replace(Leg(ONE, ONE, since=4, first_period=0, collateral=10**9), **changed)  # type: ignore[arg-type]


@given(st.integers(1, PRICE_MAX), st.integers(1, PACE_MAX))
def test_a_place_earns_a_quarter_of_the_slowest_devices_pay_at_most(rate: int, pace: int) -> None:
    assert 0 <= rate * pace - 4_000 * money.place_rate_of(rate, pace) < 4_000


@given(st.integers(0, 10**15), st.integers(0, 50_000))
def test_the_shares_of_a_payment_add_up_and_rounding_goes_against_no_payer(gross: int, fee_ppm: int) -> None:
    shares = earned(gross, fee_ppm, ONE, TREASURY)
    assert sum(share.amount for share in shares) == gross
    assert all(share.amount >= 0 for share in shares)


@given(
    deposit=st.integers(1, 10**12),
    paid=st.integers(0, 10**12),
    reserved=st.integers(0, 10**12),
    number=st.sampled_from((0, records.SPARE_LEG)),
    claimed=st.integers(0, 10**9),
    blocks=st.integers(0, records.TERM_MAX),
    is_refuted=st.booleans(),
)
def test_the_pay_of_a_place_is_at_most_what_is_owed_and_what_is_left(
    deposit: int, paid: int, reserved: int, number: int, claimed: int, blocks: int, *, is_refuted: bool
) -> None:
    assume(paid + reserved <= deposit)
    served = session(deposit=deposit, paid=paid, reserved=reserved)
    over = leg(left_at=4 + blocks, claimed=claimed, is_refuted=is_refuted)
    served = replace(served, legs=(over,), spare=over)
    pay = money.place_pay(served, number)
    assert 0 <= pay <= left_of(served)
    rate = served.place_rate if number == 0 else served.place_rate // 4
    assert pay + claimed <= max(claimed, rate * blocks)
    assert not (is_refuted and pay)
    assert not (number and not claimed and pay), "a spare without a proof"


@given(
    st.integers(1, 10**12),
    st.integers(1, 10**12),
    st.integers(1, REQUESTS_MAX),
    st.sampled_from((0, *RATES_PPM)),
    st.integers(0, 1_200_000),
)
def test_the_collateral_of_a_session_covers_any_claim_up_to_its_exposure(
    exposure: int, amount: int, items: int, rate_ppm: int, check_ppm: int
) -> None:
    rules = replace(RULES, check_rate_ppm=rate_ppm, check_ppm=check_ppm)
    one_item = money.collateral_of(rules, exposure)
    assert money.collateral_of(rules, min(amount, exposure), items) <= one_item
    assert one_item >= exposure


@given(
    st.integers(1, REQUESTS_MAX),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, TOKEN),
    st.integers(1, PACE_MAX),
)
def test_a_claim_within_the_longest_run_fits_its_fields(
    requests: int, tokens_in: int, tokens_out: int, share: int, pace: int
) -> None:
    served, totals = session(input_share=share, pace=pace), Totals(requests, tokens_in, tokens_out, ONE)
    if money.run_blocks_of(served, totals) <= money.RUN_BLOCKS_MAX:
        assert money.weight_of(served, totals) < 2**64


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("claim", "last", "prove", "leave", "end", "close", "hand over", "wait")), st.integers(0, 1)
    )
)


@given(STEPS)
def test_every_state_of_a_session_has_a_next_step_or_an_open_claim(steps: list[tuple[str, int]]) -> None:
    """Each leg claims its own periods, each once, and nothing of the deposit is reserved without a claim."""
    served = session(state=SessionState.OPEN, legs=(leg(),), spare=leg(owner=TWO, device=TWO, collateral=0))
    claims: list[PeriodClaim] = []
    periods: dict[int, int] = {}
    height = 10
    for name, which in steps:
        height += 1
        number = min(which, len(served.legs) - 1)
        serving = served.legs[number]
        if name in ("claim", "last") and not serving.is_over:
            period = records.period_of(served, number)
            assert period not in periods, "a period becomes one claim"
            periods[period] = number
            claims.append(PeriodClaim(ONE, number, period, 1_000, 200, 5_000))
            served = records.claimed(served, claims[-1], height, is_last=name == "last")
        elif name == "leave" and not serving.is_over:
            served = records.with_leg(served, number, records.over(serving, height))
        elif name == "prove" and (spare := records.spare_of(served)) is not None and not spare.is_over:
            claims.append(PeriodClaim(ONE, records.SPARE_LEG, records.SPARE_PERIOD, 1_000, 200, 5_000))
            spare = replace(spare, claims=1, claimed=1_000, engaged=5_000, is_over=True)
            served = replace(served, spare=spare, reserved=served.reserved + 1_200)
        elif name == "end" and claims:
            claim = claims.pop(0)
            ended = records.leg_at(served, claim.leg)
            ended = replace(ended, claims=ended.claims - 1, engaged=ended.engaged - claim.collateral)
            served = replace(records.with_leg(served, claim.leg, ended), reserved=served.reserved - 1_200)
        elif name == "close" and served.state is SessionState.OPEN:
            served = records.closed(served, height)
        elif name == "hand over" and served.state is SessionState.OPEN and records.spare_of(served) is not None:
            served = records.handed_over(served, replace(leg(owner=TWO), since=height), height)
        assert records.next_step(served) is not None or claims
        assert served.reserved == 1_200 * len(claims)
        assert sum(each.claims for _, each in records.all_legs(served)) == len(claims)
    order = [periods[period] for period in sorted(periods)]
    assert order == sorted(order), "the periods of a leg come before those of the next one"


def test_a_released_session_that_closes_has_its_step_at_once() -> None:
    over = leg(left_at=20, is_over=True, is_released=True)
    served = session(state=SessionState.OPEN, legs=(over,))
    assert records.next_step(served) == served.expires_at
    assert records.next_step(records.closed(served, 30)) == 0
