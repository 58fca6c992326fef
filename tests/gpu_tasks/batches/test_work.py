import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.batches.requests import due_of, price_of, rate_of, work_of

WORK = st.integers(1, 10**16)
PRICE = st.integers(0, 10**15)


@pytest.mark.parametrize(
    ("share", "tokens_in", "tokens_out", "work"),
    [(0, 9, 0, 0), (0, 9, 2, 2_000_000), (250_000, 4, 2, 3_000_000), (1_000_000, 4, 2, 6_000_000), (1, 1, 0, 1)],
)
def test_work(share: int, tokens_in: int, tokens_out: int, work: int) -> None:
    assert work_of(share, tokens_in, tokens_out) == work


@pytest.mark.parametrize(
    ("per_thousand", "work", "price"),
    [(1_000, 1_000_000, 1), (1_000, 1_000_001, 2), (1, 1, 1), (0, 5, 0), (5_000_000, 66 * 1_000_000, 330_000)],
)
def test_a_price_is_rounded_up(per_thousand: int, work: int, price: int) -> None:
    assert price_of(per_thousand, work) == price


@given(PRICE, WORK, PRICE)
def test_an_ask_is_met_exactly_if_what_it_comes_to_is_the_price_at_most(ask: int, work: int, price: int) -> None:
    assert (ask <= rate_of(price, work)) == (price_of(ask, work) <= price)


@given(PRICE, WORK, st.data())
def test_what_is_due_rises_with_what_was_done_up_to_the_price(price: int, allowed: int, data: st.DataObject) -> None:
    done = data.draw(st.integers(0, allowed))
    more = data.draw(st.integers(done, allowed))
    assert 0 <= due_of(price, done, allowed) <= due_of(price, more, allowed) <= due_of(price, allowed, allowed) == price


def test_no_more_is_due_than_was_allowed() -> None:
    with pytest.raises(AssertionError, match="its unit allows"):
        due_of(10, 3, 2)
