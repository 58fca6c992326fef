"""The simulation of coalitions before the courts: honest play, some cheats, its books, requirements that can fail."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.events import BenchDrawn, CaseAppealed
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from simulation.catalogue import check_books
from simulation.chains.court_chain import PRICE
from simulation.courts.__main__ import KNOWN, NETWORKS, known, page, problems, read_arguments
from simulation.courts.habits import HABITS, Brought, Habit, honest, opinion_of_coalition
from simulation.courts.results import COST, Result, play
from simulation.courts.season import Season, Setting

PAGE = Path(__file__).parents[2] / "docs" / "courts.md"


def habit(name: str) -> Habit:
    return next(each for each in HABITS if each.name == name)


def row(**changed: object) -> dict[str, object]:
    result = {"gain": -1.0, "provider": 0.0, "judges": 0.5, "convicted_after_appeal": 0, **changed}
    return {"size": 10, "share_percent": 20, "habit": "lies", "with": result, "without": result}


def played(name: str, number: int = 0, *, size: int = 10, share: int = 30, has_appeals: bool = True) -> Season:
    season = Season(Setting(size, share, habit(name), has_appeals, cases=1), number)
    season.play()
    return season


def test_honest_play_convicts_nobody_and_pays_the_judges() -> None:
    result = play(Setting(7, 14, honest(habit("frames")), has_appeals=True, cases=3))
    assert (result.gain, result.provider, result.honest_convicted, result.appeals) == (0.0, 0.0, 0, 0)
    assert result.judges > 0
    assert result.outcomes == {"AUDIT_RIGHT": 3}


def test_seasons_repeat() -> None:
    setting = Setting(7, 28, habit("proposer"), has_appeals=True, cases=2)
    assert asdict(play(setting)) == asdict(play(setting))


@pytest.mark.parametrize("name", [each.name for each in HABITS])
def test_no_coalition_gains_and_no_honest_party_loses(name: str) -> None:
    setting = Setting(10, 30, habit(name), has_appeals=True, cases=3)
    result = play(setting)
    assert result.gain < 0
    assert result.provider >= 0
    assert result.convicted_after_appeal == 0
    if habit(name).brought is Brought.WRONG:
        assert result.gain > -2, "a lie is rarely audited"


@pytest.mark.parametrize("name", [each.name for each in HABITS])
def test_every_habit_ends_with_balanced_books(name: str) -> None:
    """Each grain, hold and agenda, counted independently of the pallets."""
    chain = played(name).chain
    check_books(chain.now(), chain.issued)


def test_a_lie_costs_the_collateral_and_a_false_report_its_fee() -> None:
    lie, report = played("lies"), played("declines")
    assert (lie.fault, report.fault) == (PartyFault.LIED, PartyFault.DECLINED)
    assert lie.owned()[lie.provider.stash] < report.owned()[report.provider.stash] - 10 * PRICE


def test_without_appeals_a_third_convicts_honest_providers() -> None:
    setting = Setting(33, 33, habit("frames"), has_appeals=False, cases=24)
    assert play(setting).honest_convicted > 0
    assert play(setting).provider < 0
    assert play(replace(setting, has_appeals=True)).honest_convicted == 0


def test_honest_judges_and_providers_appeal() -> None:
    appellants = {
        event.appellant
        for number in range(24)
        for season in [played("proposer", number, size=33, share=33)]
        for event in season.chain.happened(CaseAppealed)
    }
    assert appellants
    assert not appellants & played("proposer", size=33, share=33).coalition


def test_proposers_that_choose_seat_more_of_their_judges() -> None:
    def seated(name: str) -> int:
        seasons = [played(name, number, size=33, share=33) for number in range(24)]
        drawn = [(season, event) for season in seasons for event in season.chain.happened(BenchDrawn)]
        first = [(season, event) for season, event in drawn if event.bench == BenchKind.PAIR]
        return sum(judge in season.coalition for season, event in first for judge in event.judges)

    assert seated("proposer") > seated("lies")


def test_a_result_that_stands_is_paid() -> None:
    result = play(Setting(10, 30, habit("blocks"), has_appeals=True, cases=2))
    assert result.provider == pytest.approx(0.0)
    assert 0 < COST < PRICE


def test_opinions_of_coalitions() -> None:
    assert isinstance(opinion_of_coalition(habit("declines")), Unanswerable)
    assert isinstance(opinion_of_coalition(habit("seals")), Answered)
    assert opinion_of_coalition(habit("silent")) is None
    assert opinion_of_coalition(honest(habit("lies"))) == Brought.RIGHT.truth


def test_every_requirement_can_fail() -> None:
    assert list(problems(row())) == []
    amounts = {"coalition": ("gain", 0.1), "provider": ("provider", -0.1), "judges": ("judges", -0.1)}
    for bar, (name, amount) in {**amounts, "convicted": ("convicted_after_appeal", 1)}.items():
        assert [missed for missed, _ in problems(row(**{name: amount}))] == [bar]
        assert not known(row(), bar)


def test_known_failures_are_of_some_habit() -> None:
    assert {name for name, _ in KNOWN} <= {each.name for each in HABITS}
    assert "coalition" not in {bar for _, bar in KNOWN}, "no way to cheat is known to pay"


def test_the_page_has_a_line_for_each_habit() -> None:
    heads = "| habit | 20 % of 10 |\n|---|---|\n"
    assert page([row()]) == f"{heads}| lies | -1.00 (-1.00) |\n\n{heads}| lies | +0.00 / +0.50 (+0.00 / +0.50) |\n"


def test_the_documents_show_every_habit_and_network() -> None:
    lines = PAGE.read_text().partition("## Coalitions")[2].splitlines()
    heads = " | ".join(f"{share} % of {size}" for size, share in NETWORKS)
    assert lines.count(f"| habit | {heads} |") == 2
    for each in HABITS:
        assert sum(line.startswith(f"| {each.name} |") for line in lines) == 3, each.name
        assert f"| {each.name} | {each.says} |" in lines


def test_a_result_is_complete() -> None:
    assert set(asdict(Result())) >= {"gain", "provider", "judges", "appeals", "outcomes"}


@pytest.mark.parametrize("words", [["--cases", "0"], ["--only", "lies,nothing"]])
def test_arguments_outside_the_limits_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(words)
    assert ended.value.code == 2


def test_chosen_habits_are_read() -> None:
    assert read_arguments(["--only", "lies,frames", "--cases", "1"]).only == "lies,frames"
