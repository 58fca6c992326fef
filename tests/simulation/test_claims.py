"""The behaviours of the game of claims on the real pallets: honest play, lies, every habit's books, failures."""

from dataclasses import asdict, replace

import pytest

from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.collateral import CLAIM_POINTS, PPM, RATIO_OF_RATE
from gpu_tasks.market.claims.result_claims import ResultClaims
from simulation.chains.claim_chain import WEIGHT
from simulation.claims.__main__ import BAR, GAIN, KNOWN, SETTINGS, known, line, problems, read_arguments, title
from simulation.claims.habits import HABITS, Habit, Party, honest
from simulation.claims.network import Setting, drawn
from simulation.claims.play import CHECK, Play
from simulation.claims.results import Result, measured, ratio

SMALL, MIDDLE = Setting(6, 33), Setting(12, 33)
FEE = CHECK * 6 // 5


def habit(name: str) -> Habit:
    return next(each for each in HABITS if each.name == name)


@pytest.mark.parametrize("setting", [Setting(4, 25), SMALL, MIDDLE])
def test_honest_play_pays_everybody(setting: Setting) -> None:
    result = measured(setting, habit("honest"), 3)
    assert (result.gain, result.error, result.losses, result.appeals) == (0.0, 0.0, {}, 0)
    assert result.outcomes == {ClaimOutcome.PASSED.name: 3}


@pytest.mark.parametrize("each", HABITS, ids=[each.name for each in HABITS])
def test_every_habit_ends_with_balanced_books_and_no_hold(each: Habit) -> None:
    """`Play.run` compares each grain and hold, counted independently of the pallets."""
    for setting in (MIDDLE, replace(MIDDLE, has_appeals=False)):
        play = Play(setting, each, 0)
        play.run()
        assert sum(play.moved.values()) <= 0, "no grain is made"


def test_plays_repeat() -> None:
    assert asdict(measured(MIDDLE, habit("lies"), 2)) == asdict(measured(MIDDLE, habit("lies"), 2))


@pytest.mark.parametrize("name", ["lies", "serves friends", "frames", "shows nothing", "withholds"])
def test_a_provider_with_a_fifth_of_the_stake_loses(name: str) -> None:
    result = measured(Setting(12, 20), habit(name), 4)
    assert result.gain < 0
    assert result.losses == {}


def test_a_false_part_of_a_batch_is_found_by_its_points_alone() -> None:
    setting, tenth = Setting(12, 20), habit("lies in a tenth")
    plays = [Play(setting, tenth, number) for number in range(12)]
    for play in plays:
        play.run()
        points = play.start.chain.now()[ResultClaims].open_claim(play.claim_id).points
        assert len(points) == CLAIM_POINTS
        is_drawn = any(point // WEIGHT % 10 == 0 for point in points)
        assert is_drawn or play.outcome is ClaimOutcome.PASSED
        assert play.losses() == {}
    outcomes = {play.outcome for play in plays}
    assert outcomes == {ClaimOutcome.PASSED, ClaimOutcome.REFUTED}
    assert measured(setting, tenth, 12).gain < 0


def test_fewer_than_three_voters_convict_nobody() -> None:
    result = measured(Setting(4, 25), habit("lies"), 2)
    assert result.outcomes == {ClaimOutcome.RETURNED.name: 2}
    assert result.gain == pytest.approx(-0.1), "it gets neither its price nor a loss, and has computed nothing"


def test_the_first_checker_of_a_deviating_one_is_a_member() -> None:
    for number in range(3):
        claim = drawn(SMALL, Party.CHECKER, number)
        play = Play(SMALL, habit("is silent"), number)
        play.run()
        assert play.moved[claim.first] == -FEE
        assert claim.first in play.coalition


def test_a_lower_rate_has_more_collateral_and_weighs_the_plays() -> None:
    rare = replace(MIDDLE, rate_ppm=100_000)
    caught = next(number for number in range(9) if not is_passed(MIDDLE, number))
    losses = []
    for setting in (MIDDLE, rare):
        play = Play(setting, habit("shows nothing"), caught)
        play.run()
        losses.append(-play.moved[play.provider])
    assert losses[1] > 10 * losses[0]
    result = measured(rare, habit("shows nothing"), 2)
    assert result.gain > -RATIO_OF_RATE[100_000] / PPM / 9


def is_passed(setting: Setting, number: int) -> bool:
    play = Play(setting, habit("shows nothing"), number)
    play.run()
    return play.outcome is ClaimOutcome.PASSED


def test_a_gain_a_duty_has_the_error_of_its_rest() -> None:
    assert ratio([1.0, 2.0], [1, 2]) == (1.0, 0.0)
    mean, error = ratio([0.0, 2.0], [1, 1])
    assert mean == 1.0
    assert error == pytest.approx(3.0)


def test_the_honest_behaviour_keeps_a_lone_liar() -> None:
    assert honest(habit("dissents")).is_false
    assert not honest(habit("lies")).is_false


def test_every_requirement_can_fail() -> None:
    lies = habit("lies")
    assert list(problems(MIDDLE, lies, Result(BAR, 0.0))) == []
    assert list(problems(MIDDLE, lies, Result(1.0, 1.0))) == [], "within the error"
    assert [kind for kind, _ in problems(MIDDLE, lies, Result(1.0, 0.5))] == [GAIN]
    assert [kind for kind, _ in problems(MIDDLE, lies, Result(-1.0, 0.5, {"voter": 0.1}))] == ["voter"]
    assert list(problems(MIDDLE, habit("buys true"), Result(1.0, 0.0))) == [], "a lazy checker with a true source"
    assert list(problems(replace(MIDDLE, has_appeals=False), lies, Result(1.0, 0.0, {"voter": 0.1}))) == []


def test_known_failures_are_of_some_habit_and_size() -> None:
    for (name, kind), (greatest, why) in KNOWN.items():
        assert habit(name).name == name
        assert known(Setting(greatest, 33), name, kind) == why
        assert not known(Setting(greatest + 1, 33), name, kind)


def test_settings_have_coalitions_below_a_third() -> None:
    for setting in SETTINGS:
        assert 3 * setting.share_percent < 100
        assert title(setting)
    assert line("lies", Result(0.5, 0.25, {"voter": 1}, {"PASSED": 2}, 1)) == (
        "| lies | +0.500 | 0.250 | voter 1.00 | 2 passed | 1 |"
    )


@pytest.mark.parametrize("words", [["--plays", "7"], ["--only", "lies,nothing"]])
def test_arguments_outside_the_limits_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(words)
    assert ended.value.code == 2


def test_chosen_habits_are_read() -> None:
    assert read_arguments(["--only", "lies,frames", "--plays", "8"]).only == "lies,frames"
    assert MIDDLE.rate_ppm == PPM


def test_friends_on_both_sides_cost_no_voter_a_fee() -> None:
    """A provider's friend disputes its lie, and their five seats decide for the lie: an outvoted voter appeals."""
    # In this claim, and in no earlier one, the friends have five seats.
    play = Play(Setting(33, 33), habit("disputes itself"), 20)
    play.run()
    assert play.is_appealed
    assert play.losses() == {}
