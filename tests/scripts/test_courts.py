"""The simulation of coalitions before the courts: its honest line, one cheat, and bars that can be missed."""

from dataclasses import asdict

import pytest

from scripts.courts.__main__ import page, problems, read_arguments
from scripts.courts.habits import HABITS, HONEST, Habit
from scripts.courts.season import Result, Setting, play


def habit(name: str) -> Habit:
    return next(each for each in HABITS if each.name == name)


def row(**changed: object) -> dict[str, object]:
    result = {"coalition": -1.0, "honest": 0.5, "convicted_after_appeal": 0, "over_honest": -1.0, **changed}
    return {"size": 10, "share_percent": 20, "habit": "lies", "with": result, "without": result}


def test_honest_play_convicts_nobody_and_pays_its_way() -> None:
    result = play(Setting(7, 14, HONEST, has_appeals=True, units=8))
    assert result.honest_convicted == 0
    assert result.honest > 0
    assert set(result.outcomes) <= {"AUDIT_RIGHT"}


def test_seasons_repeat() -> None:
    setting = Setting(7, 28, habit("sybil"), has_appeals=True, units=8)
    assert asdict(play(setting)) == asdict(play(setting))


@pytest.mark.parametrize("name", ["sybil", "withholds", "seals"])
def test_a_coalition_with_its_own_customer_loses(name: str) -> None:
    result = play(Setting(10, 30, habit(name), has_appeals=True, units=8))
    assert result.coalition < 0
    assert result.convicted_after_appeal == 0
    assert result.cases >= 4


def test_without_appeals_honest_racers_are_convicted() -> None:
    setting = Setting(10, 30, habit("sybil"), has_appeals=False, units=24)
    assert play(setting).honest_convicted > 0


def test_every_bar_can_be_missed() -> None:
    assert list(problems(row())) == []
    for changed in ({"over_honest": 0.1}, {"honest": -0.1}, {"convicted_after_appeal": 1}):
        assert len(list(problems(row(**changed)))) == 1
    assert list(problems({**row(over_honest=1.0), "size": 4})) == [], "there is no court"


def test_the_page_has_a_line_for_each_habit() -> None:
    assert page([row()]) == "| habit | 20 % of 10 |\n|---|---|\n| lies | -1.00 (-1.00) |\n"


def test_a_result_is_complete() -> None:
    assert set(asdict(Result(0.0, 0.0, 0, 0, 0, 0))) >= {"coalition", "honest", "cases", "appeals", "outcomes"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--units", "0"], "a setting has at least one unit"),
        (["--only", "lies,nothing"], "no habit is called nothing: there are lies, "),
    ],
)
def test_what_cannot_be_played_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_chosen_habits_are_read() -> None:
    assert read_arguments(["--only", "lies,sybil", "--units", "1"]).only == "lies,sybil"
