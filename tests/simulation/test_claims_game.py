"""The game of claims and checks: derived numbers, rows of the table, rules taken back, simulator against formulas."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from simulation.claims_game import (
    AS_WRITTEN,
    BAR,
    HALF,
    ONE,
    RATES,
    REVERTS,
    ROWS,
    SECOND,
    ZERO,
    Game,
    Row,
    Rules,
    bribes,
    chance_found,
    comparisons,
    disputes_falsely,
    farms_fees,
    games,
    hazards,
    lies,
    limit,
    says_wrong,
    serves_friends,
)

SOME = Game(HALF, colluding=Fraction(1, 5), buying=Fraction(1, 10), lazy=Fraction(3, 10))
CHEAP = [row for row in ROWS if row.name != "does so when friends write the beacons"]


def row(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)


@pytest.mark.parametrize("rate", RATES)
def test_all_draws_together_have_the_rate(rate: Fraction) -> None:
    left = ONE
    for hazard in hazards(rate, 16):
        left *= 1 - hazard
    assert 1 - left == rate


@pytest.mark.parametrize(("rate", "least"), list(zip(RATES, (30, 14, 7, 4, 1), strict=True)))
def test_collateral(rate: Fraction, least: int) -> None:
    game = Game(rate)
    assert int(game.collateral) in (least, least + 1)
    assert game.collateral == max(Fraction(8, 5), (1 - game.q) / game.q, 2 * game.committee)
    assert game.finder == game.collateral / 2
    assert replace(game, has_few_owners=True).collateral > game.collateral
    caught = 1 + game.collateral
    assert rate * min(caught, game.finder + SECOND * (caught + game.collateral)) >= 1


def test_committee_is_paid_from_the_collateral() -> None:
    game = Game(ONE, check=HALF)
    assert game.collateral == 2 * game.committee
    assert game.committee == 9 * Fraction(6, 5) / 2


def test_q_is_the_chance_of_the_worst_claim() -> None:
    """By hand: a friend of 1/3, a second check of 1/4, no lazy checkers, no authors, no error."""
    game = Game(HALF, colluding=Fraction(1, 3), slots=(ZERO,) * 16, later_slots=ZERO)
    assert chance_found(game, 1) == HALF * (Fraction(2, 3) + Fraction(1, 3) * SECOND * Fraction(2, 3))
    assert chance_found(game, 2) == 1 - (1 - chance_found(game, 1)) ** 2


def test_replacements_by_hand() -> None:
    """All strangers fail. The liar passes if a friend is first, or if friends pass the replacements in time."""
    third = Fraction(1, 3)
    game = Game(ONE, colluding=third, lazy=2 * third, slots=(ZERO,) * 16, later_slots=ZERO)
    second = SECOND * (1 - passes(third, 1, 2, 2))
    assert 1 - chance_found(game, 1) == passes(third * (1 - second), 1, 2, 2)
    written = replace(game, rules=AS_WRITTEN)
    assert passes(third, 1, 4, 1) == 1 - (1 - third) ** 5
    assert chance_found(written, 1) < chance_found(game, 1) / 2


def passes(friend: Fraction, pending: int, failures: int, replacements: int) -> Fraction:
    if not pending:
        return ONE
    found = friend * passes(friend, pending - 1, failures, replacements)
    failed = passes(friend, pending - 1 + replacements, failures - 1, replacements) if failures else ZERO
    return found + Fraction(2, 3) * failed


@pytest.mark.parametrize("row", CHEAP, ids=[row.name for row in CHEAP])
def test_no_behaviour_gains(row: Row) -> None:
    """A part of the grid; `make game` plays all of it."""
    gains = [row.gain(game) for game in list(games(Rules()))[::17]]
    assert (max(gains) > BAR) is bool(row.exempt)


def test_a_false_fingerprint_loses_the_buyer_money() -> None:
    wage = SOME.fee - SOME.check
    assert row("guesses, copies, or buys a false fingerprint").gain(SOME) == -2 * SOME.fee - wage
    assert row("buys from an honest provider").gain(SOME) == SOME.check


def test_limits() -> None:
    assert limit(says_wrong, Game(ONE)) == limit(disputes_falsely, Game(ONE)) == 38
    assert limit(says_wrong, Game(ONE, rules=AS_WRITTEN)) == 32
    assert limit(farms_fees, Game(ONE)) is None


def test_the_appeal_share_is_the_largest_that_asks_no_more_than_half_of_all_stake() -> None:
    game = Game(ONE, colluding=Fraction(33, 100), turnout=Fraction(3, 4))
    assert game.can_convict
    assert not replace(game, turnout=Fraction(74, 100)).can_convict
    assert not replace(game, rules=replace(Rules(), appeal_share=Fraction(2, 3))).can_convict


@pytest.mark.parametrize(
    ("rule", "game"),
    [
        ("splits_fetch", Game(ONE, colluding=Fraction(3, 10))),
        ("appeal_share", Game(ONE, colluding=Fraction(33, 100))),
        ("covers_committee", Game(ONE, colluding=Fraction(33, 100), check=HALF)),
        ("has_weighed_premium", Game(RATES[0], colluding=Fraction(33, 100), check=HALF)),
        ("floor", Game(ONE, check=Fraction(1, 20))),
    ],
)
def test_without_the_rule_its_behaviour_gains(rule: str, game: Game) -> None:
    gain = row(REVERTS[rule]).gain
    assert gain(game) <= BAR
    assert gain(replace(game, rules=replace(Rules(), **{rule: getattr(AS_WRITTEN, rule)}))) > BAR


def test_bribes_lies_and_withholding_under_the_rules_as_written() -> None:
    game = Game(RATES[0], colluding=Fraction(3, 10), rules=AS_WRITTEN)
    assert lies(replace(game, colluding=ZERO)) < 0
    assert serves_friends(game) > BAR
    assert bribes(replace(game, rate=ONE)) > BAR


def test_the_simulator_agrees_with_the_formulas() -> None:
    for name, formula, middle, error in comparisons(random.Random(3), 3_000):
        assert abs(middle - formula) <= 3 * error, name


def test_plays_repeat() -> None:
    assert [*comparisons(random.Random(5), 20)] == [*comparisons(random.Random(5), 20)]
