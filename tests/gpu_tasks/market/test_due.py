"""The order of due cases."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.due import case_of, due_case

PRICES = st.integers(0, 2**128 - 1)
CASES = st.binary(min_size=32, max_size=32)


@given(st.lists(st.tuples(PRICES, CASES), min_size=2, max_size=5))
def test_keys_are_in_the_order_of_falling_prices(cases: list[tuple[int, bytes]]) -> None:
    keys = sorted(due_case(price, case) for price, case in cases)
    assert [case_of(key) for key in keys] == [case for _, case in sorted(cases, key=lambda row: (-row[0], row[1]))]
    assert {len(key) for key in keys} == {48}
