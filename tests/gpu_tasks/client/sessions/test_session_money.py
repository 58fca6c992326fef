"""The part of a deposit that may pay for tokens, by the rules of the pallet."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.client.sessions.session_money import for_tokens, left_for_tokens
from gpu_tasks.market.sessions.money import fees_of
from gpu_tasks.market.sessions.records import SessionRecord
from gpu_tasks.market.sessions.vouchers import Voucher
from played_sessions import FakeSessions

SESSION = bytes([31]) * 32


def session(**changed: int) -> SessionRecord:
    """Return an open session: a token costs 1,000 grains, and its checks at most 480."""
    record = FakeSessions().open(SESSION, deposit=10**9)
    return replace(record, **changed)  # type: ignore[arg-type]


def voucher(period: int, tokens: int) -> Voucher:
    """Return a voucher for output tokens."""
    return Voucher(SESSION, period, Totals(1, 0, tokens, bytes(32)))


@given(left=st.integers(-5, 10**12), rate_ppm=st.sampled_from([0, 333_333]))
def test_the_greatest_amount_is_covered_with_its_fees_and_one_more_is_not(left: int, rate_ppm: int) -> None:
    record = session()
    rules = replace(record.rules, check_rate_ppm=rate_ppm)

    def fees(amount: int) -> int:
        return fees_of(rules, amount)

    amount = for_tokens(left, fees)
    assert amount == 0 or amount + fees(amount) <= left
    assert amount + 1 + fees(amount + 1) > left


def test_vouchers_that_no_claim_covers_are_spent_with_their_fees() -> None:
    """Those of claimed periods are part of the chain's sums. The newest one grows into its own claim."""
    whole = left_for_tokens(session(), ())
    assert whole + fees_of(session().rules, whole) <= 10**9
    assert left_for_tokens(session(), [voucher(0, 50)]) == whole - 50_000
    assert left_for_tokens(session(period=1), [voucher(0, 50)]) == whole
    with_older = left_for_tokens(session(), [voucher(0, 50), voucher(1, 7)])
    assert with_older == for_tokens(10**9 - 74_000, lambda amount: fees_of(session().rules, amount)) - 7_000
    assert left_for_tokens(session(paid=10**9), ()) == 0
    assert left_for_tokens(session(paid=10**9), [voucher(0, 1)]) == 0
