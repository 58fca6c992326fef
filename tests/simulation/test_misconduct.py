"""Misconduct in a batch: each party loses exactly the sum of its formula, over the real pallets, to the grain.

A seeded search: 1,000 batches of each misdeed in `make properties`, a dozen otherwise.
"""

import os
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from nightly_but import nightly_but
from simulation.misconduct import misdeeds
from simulation.misconduct.__main__ import page, read_arguments, score
from simulation.misconduct.misdeeds import MISDEEDS
from simulation.misconduct.parts import PartsChain, fresh
from simulation.misconduct.scores import BatchScore, Misdeed, missed, summary

BATCHES = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") in ("properties", "soak") else 12
LOSES = BatchScore(*map(Fraction, (1, 1, -1, 0, -1, 0)))


@pytest.mark.parametrize("name", nightly_but(2, MISDEEDS))
def test_it_costs_who_does_it_what_the_formula_says_and_nobody_else_anything(name: str) -> None:
    found = summary([score(name, number) for number in range(BATCHES)])
    assert list(missed(MISDEEDS[name], found)) == []
    assert found.batches == BATCHES


def test_a_court_that_a_third_of_the_stake_keeps_from_deciding_undoes_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three in a committee are the customer's, and so is more than a third of the rest, which forms a court."""
    stages: list[PartsChain] = []

    def kept(seed: str) -> tuple[PartsChain, Random]:
        stage, chance = fresh(seed)
        stages.append(stage)
        return stage, chance

    monkeypatch.setattr(misdeeds, "fresh", kept)
    found = misdeeds.false_dispute_of_a_third("false_dispute_of_a_third 6")
    (ended,) = stages[0].chain.happened(CaseEnded)
    assert stages[0].chain.happened(CaseAppealed)
    assert CaseOutcome(ended.outcome) is CaseOutcome.AUDIT_RIGHT, "the court did not decide: what was settled stands"
    assert found.harm == 0
    assert found.gain < 0


def test_batches_repeat() -> None:
    assert score("pair", 3) == score("pair", 3)
    assert score("pair", 3) != score("pair", 4)


@pytest.mark.parametrize(
    ("score", "says"),
    [
        (replace(LOSES, gain=Fraction(-2)), "where the formula says"),
        (replace(LOSES, gain=Fraction(-1, 2)), "where the formula says"),
        (replace(LOSES, gain=Fraction(1, 9), formula=Fraction(1, 9)), "does not lose"),
        (replace(LOSES, gain=Fraction(1, 9), formula=Fraction(-1, 9), variance=Fraction(9)), "does not lose"),
        (replace(LOSES, harm=Fraction(1)), "costs an honest account"),
        (replace(LOSES, found=Fraction(9, 10)), "made to pay 90.0%"),
    ],
)
def test_every_bar_can_be_missed(score: BatchScore, says: str) -> None:
    misdeed = Misdeed("something", lambda _: score, found_min=Fraction(1))
    assert list(missed(misdeed, summary([LOSES] * 2))) == []
    assert any(says in problem for problem in missed(misdeed, summary([score])))


def test_a_bound_may_be_fallen_short_of_and_a_lone_batch_may_gain_where_the_mean_loses() -> None:
    found = summary([replace(LOSES, gain=Fraction(-9)), replace(LOSES, gain=Fraction(1))])
    bound = Misdeed("something", lambda _: LOSES, is_bound=True)
    assert list(missed(bound, found)) == []
    assert any("once" in problem for problem in missed(replace(bound, always_loses=True), found))


def test_the_table_is_in_hundredths() -> None:
    rows = page({"pair": summary([replace(LOSES, formula=Fraction(-2, 3))])}).splitlines()
    assert rows[-1] == "| both racers give the same false leaves | 100 | 100.0 % | -66.7 | -100 | -100 | 0 |"


def test_what_cannot_be_played_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--batches", "0"], ["--only", "pair,nothing"], ["--jobs", "0"]):
        with pytest.raises(SystemExit):
            read_arguments(words)
    assert "lazy_third" in capsys.readouterr().err
