"""Random steps and interleavings against a simple model, in small. Planted errors are found, and a seed repeats."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from runtime.frame.runtime import Bound
from runtime.pallets.staking import delegations, held_slashes, holdings, share_pool
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.books import BooksBroken
from simulation.runs import Stretch, in_turn, stretches
from simulation.stakes import __main__ as program
from simulation.stakes.__main__ import LIVELY_FROM_STEPS, lacks, lacks_leaving, too_far_apart
from simulation.stakes.crowds import STEPS, Backed, Compared, backed, compared, measure
from simulation.stakes.leaving import GRAINS_MAX, WAYS, Interleaving, Leaving, interleavings
from simulation.stakes.naive import Naive
from simulation.stakes.season import KINDS, Season
from simulation.stakes.seasons import SEASON_STEPS, Told, leave_all, play, together
from simulation.stakes.shadow import RuleBroken

SEED, STEPS_PLAYED = 1, 1_200


@pytest.fixture(scope="module")
def played() -> Season:
    """Return a chain in the middle of its life, which no test changes."""
    season = Season(SEED, 0)
    season.play(STEPS_PLAYED)
    return season


@pytest.fixture(scope="module")
def young() -> Season:
    """Return a chain without slashes so far, in which all grains are present."""
    season = Season(SEED, 2)
    season.play(60)
    assert not season.happened["SlashTaken"]
    return season


# ----------------------------------------------------------------------------------------------------- random steps


def test_a_season_goes_as_the_naive_rule_says_and_shows_most_steps(played: Season) -> None:
    assert played.steps == STEPS_PLAYED
    assert played.shadow.comparisons > 10 * STEPS_PLAYED
    assert len([name for name in KINDS if played.done[name]]) > len(KINDS) - 3
    assert played.happened["SlashTaken"] > 0
    assert sum(played.done.values()) + sum(played.refused.values()) == STEPS_PLAYED


@pytest.mark.parametrize("number", [1, 2])
def test_so_it_goes_under_other_numbers_of_eras_and_evidence(number: int) -> None:
    season = Season(SEED, number)
    season.play(STEPS_PLAYED)
    assert season.happened["SlashTaken"] > 0


def test_the_same_seed_gives_the_same_season_and_another_another(played: Season) -> None:
    again, other = Season(SEED, 0), Season(SEED + 1, 0)
    for season in (again, other):
        season.play(STEPS_PLAYED // 4)
    same = Season(SEED, 0)
    same.play(STEPS_PLAYED // 4)
    assert again.chain.state.values == same.chain.state.values
    assert again.chain.state.values != other.chain.state.values


def a_grain_more(bound: Bound) -> None:
    (pair, position), *_ = bound[TrustStake].delegations.items()
    assert position is not None
    bound[TrustStake].delegations[pair] = replace(position, shares=position.shares + 10**6)


def a_reward_more(bound: Bound) -> None:
    (pair, position), *_ = bound[TrustStake].delegations.items()
    assert position is not None
    bound[TrustStake].delegations[pair] = replace(position, owed=position.owed + 2)


def half_a_position(bound: Bound) -> None:
    pair, position = max(bound[TrustStake].delegations.items(), key=lambda entry: entry[1].shares if entry[1] else 0)
    assert position is not None
    bound[TrustStake].delegations[pair] = replace(position, shares=position.shares // 2)


def a_bond_more(bound: Bound) -> None:
    stash, value = next(bound[TrustStake].bonds.items())
    bound[TrustStake].bonds[stash] = value + 1


@pytest.mark.parametrize("planted", [a_grain_more, a_reward_more, half_a_position, a_bond_more])
def test_what_is_not_as_the_rule_says_is_found(young: Season, planted: Callable[[Bound], None]) -> None:
    bound = young.chain.now()
    stashes = [keys.stash for keys in young.everybody]
    young.shadow.check(bound, stashes, stashes)
    planted(bound)
    with pytest.raises(RuleBroken, match="by the naive rule"):
        young.shadow.check(bound, stashes, stashes)


def test_what_waits_and_never_left_is_found(played: Season) -> None:
    bound = played.chain.now()
    (staker, chunks), *_ = bound[TrustStake].unlocking.items()
    bound[TrustStake].unlocking[staker] = (replace(chunks[0], until_epoch=10**6), *chunks)
    with pytest.raises(RuleBroken, match="has unbonding stake that never left"):
        played.shadow.check(bound, [], [staker])


def test_a_grain_that_is_made_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(self: Any, holder: bytes, validator: bytes, dust: int) -> None:
        del holder, validator, dust

    monkeypatch.setattr(TrustStake, "burn", generous)
    with pytest.raises((BooksBroken, AssertionError, RuleBroken)):
        Season(SEED, 0).play(STEPS_PLAYED)


def always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


BUGS: dict[str, tuple[Any, str, Any]] = {
    "a slash rounded down": (share_pool, "lost", lambda amount, step: amount * (step.wanted - step.taken) // 10**6),
    "an answer forgotten at once": (holdings, "_may_be_called", always(False)),
    "what waits is free while a slash does": (holdings, "is_kept", always(False)),
    "what left bears nothing": (holdings, "left_of", lambda amount, *_: amount),
    "what moved bears nothing": (delegations, "left_of", lambda amount, *_: amount),
    "no factor is kept": (held_slashes, "remembered", lambda factors, *_: factors),
    "who came late is paid": (
        delegations, "earned",
        lambda pool, position, _: position.shares * (pool.index - position.index) // delegations.INDEX_SCALE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_of_the_pallet_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, planted = BUGS[name]
    monkeypatch.setattr(where, what, planted)
    with pytest.raises((RuleBroken, BooksBroken, AssertionError)):
        for number in range(4):
            Season(SEED, number).play(STEPS_PLAYED)


# ---------------------------------------------------------------------------------------------------------- leaving


@pytest.mark.nightly
def test_nobody_escapes_in_any_way(monkeypatch: pytest.MonkeyPatch) -> None:
    told = leave_all(interleavings(SEED, 6 * len(WAYS)))
    assert told.problems == []
    assert not lacks_leaving(told, [way for way in WAYS if way not in ("own bond", "there and back")])
    assert told.furthest < GRAINS_MAX
    monkeypatch.setattr(holdings, "_may_be_called", always(False))
    assert leave_all(interleavings(SEED, 4 * len(WAYS))).problems


EDGE = Interleaving("redelegate to an idle validator", 11, 9, False, 1, True, 22, True)


def test_a_raise_reaches_what_moved() -> None:
    Leaving(EDGE).play()


def test_who_escapes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "_is_struck", always(False))
    told = leave_all([EDGE])
    assert len(told.problems) == 1
    assert "leaver has 39049460953 grains more than it must" in told.problems[0]
    assert "raised_at=22" in told.problems[0]


def test_interleavings_repeat_and_have_every_way() -> None:
    assert interleavings(3, 50) == interleavings(3, 50) != interleavings(4, 50)
    assert {case.way for case in interleavings(3, len(WAYS))} == set(WAYS)
    assert sum(map(len, together(interleavings(3, 60)))) == 60


# ------------------------------------------------------------------------------------------------------ the naive rule


def test_the_naive_rule_by_hand() -> None:
    naive = Naive()

    def has() -> list[int]:
        amounts = [naive.stake((1, 0)), naive.stake((1, 9)), naive.waiting[0].amount]
        assert all(amount.denominator == 1 for amount in amounts)
        return [amount.numerator for amount in amounts]

    naive.enter((1, 0), Fraction(100))
    naive.waiting.append(naive.leave((1, 0), (), Fraction(40)))
    naive.waiting[0].answers = ((0, 3),)
    naive.enter((1, 9), naive.leave((1, 0), (), Fraction(24)).amount, ((0, 3),))
    naive.slash(0, 4, SlashStep(0, 500_000))
    assert has() == [18, 24, 40], "an offence after it left"
    naive.slash(0, 3, SlashStep(500_000, 750_000))
    assert has() == [9, 12, 20], "a step of another, of what the first one left"
    naive.forget((1, 9), set())
    naive.enter((1, 0), Fraction(1))
    naive.slash(0, 3, SlashStep(0, 500_000))
    assert has() == [5, 12, 10], "too old to be called"


# ------------------------------------------------------------------------------------------------------------ crowds


def test_crowds_are_measured_in_the_same_state() -> None:
    crowds = [backed(count, 30) for count in (3, 20)]
    assert len({len(crowd.chain.state.values) for crowd in crowds}) == 1
    measure(crowds, 2)
    for one in compared(crowds):
        assert len(one.execution) == 2
        assert min(*one.execution, *one.root) > 0
    assert [pool.delegators for crowd in crowds for _, pool in sorted_pools(crowd)] == [4, 27, 10, 21]
    assert all(100 < crowd.bytes_each < 300 for crowd in crowds)


def sorted_pools(crowd: Backed) -> list[tuple[bytes, Any]]:
    return sorted(crowd.chain.now()[TrustStake].pools.items(), key=lambda entry: entry[1].delegators)


def test_what_is_apart_is_told() -> None:
    near, far = Compared("claim", (10.0, 11.0), (10.0, 10.0)), Compared("bond", (10.0, 20.0), (10.0, 10.0))
    assert too_far_apart([near]) == []
    assert too_far_apart([near, far]) == ["bond costs 50.0 % more with some crowds than with others"]


# --------------------------------------------------------------------------------------------------------- the program


def test_steps_are_divided_into_chains() -> None:
    assert [part.steps for part in stretches(1, 2 * SEASON_STEPS + 7, SEASON_STEPS)] == [SEASON_STEPS, SEASON_STEPS, 7]


def test_chains_come_out_the_same_however_many_are_played_at_a_time() -> None:
    parts = [Stretch(SEED, number, 60) for number in range(3)]
    one, two = (list(in_turn(play, parts, jobs)) for jobs in (1, 2))
    assert [(told.done, told.errors) for told in one] == [(told.done, told.errors) for told in two]


def test_a_run_that_shows_too_little_says_what() -> None:
    assert lacks(Told(steps=LIVELY_FROM_STEPS - 1)) == []
    told = Told(steps=LIVELY_FROM_STEPS)
    told.done.update(KINDS)
    found = lacks(told)
    assert "unbond is never refused" in found
    assert "SlashTaken never happens" in found
    assert not any("succeeds" in line for line in found)
    del told.done["unbond"]
    assert "unbond never succeeds" in lacks(told)
    unslashed = ["no slash was taken", "no slash was raised"]
    assert lacks_leaving(Told(), ["undelegate"]) == ["nobody left: undelegate", *unslashed]


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["stakes", *arguments])
    monkeypatch.setattr(program, "OUT", tmp_path / "out" / "stakes.json")
    return program.main()


SMALL = ("--steps", "80", "--interleavings", "24", "--counts", "2", "5", "--rounds", "1")


def test_the_program_writes_what_it_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "too_far_apart", always([]))
    monkeypatch.setattr(program, "lacks_leaving", always([]))
    assert run(monkeypatch, tmp_path, *SMALL) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("stakes hold: 80 steps on 1 chains (")
    assert "24 interleavings of leaving and offending" in line
    assert "none escapes" in line
    found = json.loads((tmp_path / "out" / "stakes.json").read_text())
    assert found["random_steps"]["steps"] == 80
    assert {one["step"] for one in found["crowds"]["steps"]} == set(STEPS)
    assert found["problems"] == []


def test_a_broken_rule_names_the_season_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(share_pool, "lost", always(0))
    assert run(monkeypatch, tmp_path, "--steps", "5000", "--season", "1", "--seed", "5") == 1
    told = capsys.readouterr()
    assert "`make stakes SEED=5 SEASON=1` repeats it" in told.err
    assert told.out.startswith("stakes DO NOT HOLD: ")
    assert "nobody above it" not in told.out


def test_a_season_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for arguments in (("--steps", "5000", "--season", "2"), ("--steps", "0")):
        with pytest.raises(SystemExit):
            run(monkeypatch, tmp_path, *arguments)
