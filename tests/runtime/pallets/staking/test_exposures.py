"""Exposures: candidates by stake, and the validator's part of a reward."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.pallets.staking.slashing import Exposure, by_stake, own_part

VALIDATOR, ALICE, BOB = b"V" * 32, b"A" * 32, b"B" * 32


def test_the_largest_come_first_and_ties_are_broken_by_account() -> None:
    assert by_stake([(BOB, 5), (ALICE, 5), (VALIDATOR, 9)]) == [(VALIDATOR, 9), (ALICE, 5), (BOB, 5)]


def test_commission_comes_first() -> None:
    assert own_part(1_003, Exposure(100, 50, 100_000)) == 100 + 451
    assert own_part(1_003, Exposure(100, 0, 100_000)) == 100
    assert own_part(1_003, Exposure(0, 0)) == 0


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**14), st.integers(0, 10**6))
def test_a_validator_has_a_part_and_no_more(own: int, others: int, reward: int, commission: int) -> None:
    mine = own_part(reward, Exposure(own + others, own, commission))
    assert reward * commission // 10**6 <= mine <= reward
