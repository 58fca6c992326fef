"""The game of claims and checks: derived numbers, rows of the table, rules taken back, simulator against formulas."""

import random
from dataclasses import replace
from math import ceil, log10

import pytest

from gpu_tasks.market.claims.collateral import ALWAYS_PPM, CLAIM_POINTS, PPM, RATIO_OF_RATE, least_collateral
from simulation.claims_game import (
    BAR,
    BATCHES,
    FOUND,
    RATES,
    ROWS,
    SECOND,
    TAKEN_BACK,
    THIRD,
    Draw,
    Game,
    Row,
    Rules,
    bribes,
    comparisons,
    cost_of_lie,
    disputes_falsely,
    games,
    least_bribe,
    limit,
    says_wrong,
)

SOME = Game(1 / 2, colluding=0.2, buying=0.1, lazy=0.3)
NO_AUTHORS = (0.0,) * 16
CHEAP = [row for row in ROWS if row.name != "lies when friends write the beacons"]
LEAST_CHECK = 1 / 1_000
"""A check so cheap that the ratio alone gives the collateral."""


def row(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


def rounded_up(number: float, digits: int = 3) -> float:
    unit = 10.0 ** (int(log10(number)) + 1 - digits)
    return round(ceil(number / unit) * unit, 9)


@pytest.mark.parametrize("points", [*RATES, 2, 3, 4])
def test_all_beacons_together_draw_all_points(points: float) -> None:
    sure = [{"honest": (1.0, 1.0)}] * (ceil(points) + 1)
    assert Draw(points, NO_AUTHORS, sure).cost() == pytest.approx(min(1, points))


@pytest.mark.parametrize(("rate", "ppm"), list(zip(RATES, RATIO_OF_RATE, strict=True)))
def test_the_table_of_collateral_is_that_of_the_game(rate: float, ppm: int) -> None:
    game = Game(rate, check=LEAST_CHECK)
    assert RATIO_OF_RATE[ppm] / PPM == rounded_up(game.collateral)
    assert least_collateral(10**9, items=1, rate_ppm=ppm, vote_fee=1) == 10**9 * RATIO_OF_RATE[ppm] // PPM


@pytest.mark.parametrize("items", [40, 4_096])
def test_claims_with_four_points_have_the_collateral_of_their_worst(items: int) -> None:
    game = Game(RATES[0], items, check=LEAST_CHECK)
    assert game.points == CLAIM_POINTS
    assert RATIO_OF_RATE[ALWAYS_PPM] / PPM == rounded_up(game.collateral)
    held = least_collateral(10**9, items=items, rate_ppm=100_000, vote_fee=1)
    assert held == 10**9 * RATIO_OF_RATE[ALWAYS_PPM] // PPM


@pytest.mark.parametrize(("rate", "items"), [*BATCHES, (RATES[0], 20), (RATES[0], 30), (RATES[1], 10), (RATES[2], 3)])
@pytest.mark.parametrize("share", [1 / 16, 1 / 4, 3 / 4, 1])
def test_a_lie_about_a_part_is_found_often_enough(rate: float, items: int, share: float) -> None:
    """A heavy item is a share of nearly 1. A found liar loses the whole price."""
    for lazy in (0, THIRD, 2 * THIRD):
        game = Game(rate, items, check=LEAST_CHECK, colluding=THIRD, lazy=lazy, slots=(0.5,) * 16, later_slots=0.5)
        found = cost_of_lie(game, FOUND, share) * (1 - game.error)
        assert share <= found * (1 + game.collateral * 5 / 6) + 1e-9


@pytest.mark.parametrize("game", [Game(rate) for rate in RATES] + [Game(rate, items) for rate, items in BATCHES])
def test_no_lie_without_friends_costs_less_than_it_gains(game: Game) -> None:
    caught = 1 + game.collateral
    assert least_bribe(game) == game.drawn * min(caught, game.finder + SECOND * (caught + game.collateral)) >= 1


def test_voters_are_paid_from_the_collateral() -> None:
    game = Game(1, check=1 / 2)
    assert game.collateral == pytest.approx(2 * game.votes)
    assert game.votes == pytest.approx(9 * 1.2 / 2)


def test_chances_by_hand() -> None:
    """A friend of 1/3 and a second check of 1/4, without lazy checkers and authors."""
    game = Game(1 / 2, colluding=1 / 3, slots=NO_AUTHORS, later_slots=0)
    first = 2 / 3 + 1 / 3 * SECOND * 2 / 3
    assert cost_of_lie(game, FOUND) == pytest.approx(first / 2)
    assert cost_of_lie(replace(game, items=8), FOUND) == pytest.approx(first), "one checker checks all points"


def test_replacements_by_hand() -> None:
    """All strangers fail. The liar passes if friends pass all pending checks in time, in both draws."""
    game = Game(1, colluding=1 / 3, lazy=2 / 3, slots=NO_AUTHORS, later_slots=0)
    passed = passes(1, 2)
    assert cost_of_lie(game, FOUND) == pytest.approx(1 - passed * (1 - SECOND * (1 - passed)))


def passes(pending: int, failures: int) -> float:
    if not pending:
        return 1
    return passes(pending - 1, failures) / 3 + (2 / 3 * passes(pending + 1, failures - 1) if failures else 0)


def test_an_undelivered_item_is_found_by_voters() -> None:
    """Strangers without a delivery have voters compute one of four points. It is false with the share of the lie."""
    game = Game(1, 4, slots=NO_AUTHORS, later_slots=0)
    for share in (1 / 4, 1):
        assert cost_of_lie(game, FOUND, share) == pytest.approx(share + (1 - share) * SECOND * share, abs=0.1)


@pytest.mark.parametrize("row", CHEAP, ids=[row.name for row in CHEAP])
def test_no_behaviour_gains(row: Row) -> None:
    """A part of the grid; `make game` plays all of it."""
    gains = [row.gain(game) for game in list(games())[::7]]
    assert (max(gains) > BAR) is bool(row.exempt)


def test_a_false_sample_loses_the_buyer_money() -> None:
    assert row("guesses, copies, or buys a false sample").gain(SOME) == pytest.approx(-2 * SOME.fee - SOME.wage)
    assert row("buys from an honest provider").gain(SOME) == SOME.check


def test_limits() -> None:
    rising = [replace(Game(1), colluding=percent / 100) for percent in range(50)]
    assert limit(says_wrong, *rising) == limit(disputes_falsely, *rising) == 38
    assert limit(bribes, *rising) is None


def test_the_appeal_share_is_the_largest_that_asks_no_more_than_half_of_all_stake() -> None:
    game = Game(1, colluding=0.33, turnout=0.75)
    assert game.can_convict
    assert not replace(game, turnout=0.74).can_convict
    assert not replace(game, rules=Rules(appeal_share=2 / 3)).can_convict


@pytest.mark.parametrize("rule", TAKEN_BACK)
def test_without_the_rule_its_behaviour_gains_or_more_collateral_is_needed(rule: str) -> None:
    rules, gain, game = TAKEN_BACK[rule]
    before = replace(game, rules=rules)
    assert gain(game) <= BAR
    assert gain(before) > BAR or before.collateral > 1.5 * game.collateral


def test_the_simulator_agrees_with_the_formulas() -> None:
    for name, formula, middle, error in comparisons(random.Random(3), 3_000):
        assert abs(middle - formula) <= 3 * error, name


def test_plays_repeat() -> None:
    assert [*comparisons(random.Random(5), 20)] == [*comparisons(random.Random(5), 20)]
