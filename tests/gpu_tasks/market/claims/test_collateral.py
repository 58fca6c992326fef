"""Collateral, fees and rates of claims."""

import pytest

from gpu_tasks.market.claims import collateral
from gpu_tasks.market.claims.collateral import PPM, RATES_PPM, RATIO_OF_RATE
from gpu_tasks.market.claims.disputes import SEATS
from gpu_tasks.market.claims.numbers import ClaimNumbers

PRICE = 1_000_000


@pytest.mark.parametrize(("rate", "listed"), [(100_000, 100_000), (199_999, 100_000), (333_333, 333_333), (PPM, PPM)])
def test_a_rate_without_a_game_counts_as_the_next_lower_one(rate: int, listed: int) -> None:
    held = collateral.least_collateral(PRICE, items=1, rate_ppm=rate, vote_fee=0)
    assert held == RATIO_OF_RATE[listed]


def test_every_value_of_the_parameter_has_a_game() -> None:
    parameter = ClaimNumbers.check_rate
    assert parameter.least == min(RATES_PPM)
    assert parameter.greatest == max(RATES_PPM) == PPM
    with pytest.raises(ValueError, match="max"):
        collateral.game_rate(parameter.least - 1)


def test_a_claim_that_expects_four_points_needs_the_least_collateral() -> None:
    assert collateral.least_collateral(PRICE, items=40, rate_ppm=100_000, vote_fee=0) == RATIO_OF_RATE[PPM]
    assert collateral.least_collateral(PRICE, items=39, rate_ppm=100_000, vote_fee=0) == RATIO_OF_RATE[100_000]


def test_collateral_covers_the_voters_twice() -> None:
    fee = RATIO_OF_RATE[PPM] // (2 * SEATS) + 1
    assert collateral.least_collateral(PRICE, items=1, rate_ppm=PPM, vote_fee=fee) == 2 * SEATS * fee
    assert collateral.least_collateral(PRICE, items=1, rate_ppm=PPM, vote_fee=fee - 1) == RATIO_OF_RATE[PPM]


@pytest.mark.parametrize(("items", "rate"), [(1, 100_000), (40, 100_000), (41, 97_560), (4_096, 976)])
def test_a_large_claim_expects_four_points(items: int, rate: int) -> None:
    assert collateral.item_rate(items, 100_000) == rate


def test_a_fee_is_that_of_the_weight_rounded_up_and_at_least_the_minimum() -> None:
    share = collateral.check_share(200_000)
    assert share == 240_000
    assert collateral.check_fee(1_001, share, 0, weight=1, of=3) == 81
    assert collateral.check_fee(1_001, share, 82, weight=1, of=3) == 82
    assert collateral.fees_max(1_000, share, 1) == 480
