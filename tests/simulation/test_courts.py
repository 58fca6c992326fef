"""The simulation of coalitions before the courts: honest play, some cheats, its books, bars that can fail."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from gpu_tasks.market.courts.cases import ClaimKind, PartyFault
from gpu_tasks.market.courts.events import CaseAppealed, CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome, chance_found
from gpu_tasks.market.inference.events import ProviderSlashed
from simulation.catalogue import check_books
from simulation.courts.__main__ import KNOWN, NETWORKS, known, page, problems, read_arguments
from simulation.courts.chances import chance_of_audit
from simulation.courts.habits import HABITS, HONEST, Habit
from simulation.courts.network import PRICE
from simulation.courts.results import Result, play
from simulation.courts.season import Season, Setting

PAGE = Path(__file__).parents[2] / "docs" / "courts.md"


def habit(name: str) -> Habit:
    return next(each for each in HABITS if each.name == name)


def row(**changed: object) -> dict[str, object]:
    result = {"racers": 0.5, "judges": 0.5, "convicted_after_appeal": 0, "over_honest": -1.0, **changed}
    return {"size": 10, "share_percent": 20, "habit": "lies", "with": result, "without": result}


def test_honest_play_convicts_nobody_and_pays_its_way() -> None:
    result = play(Setting(7, 14, HONEST, has_appeals=True, units=3))
    assert result.honest_convicted == 0
    assert result.racers > 0
    assert result.judges > 0
    assert set(result.outcomes) == {"AUDIT_RIGHT"}
    assert result.cases == 3, "each unit is played with an audit, and without"


def test_seasons_repeat() -> None:
    setting = Setting(7, 28, habit("sybil"), has_appeals=True, units=2)
    assert asdict(play(setting)) == asdict(play(setting))


@pytest.mark.parametrize("name", ["sybil", "withholds", "seals", "proposer"])
def test_a_coalition_with_its_own_customer_loses(name: str) -> None:
    result = play(Setting(10, 30, habit(name), has_appeals=True, units=3))
    assert result.coalition < 0
    assert result.convicted_after_appeal == 0
    assert result.cases >= 3


def test_without_appeals_honest_racers_are_convicted() -> None:
    setting = Setting(10, 30, habit("sybil"), has_appeals=False, units=12)
    assert play(setting).honest_convicted > 0
    assert play(replace(setting, has_appeals=True)).honest_convicted == 0


@pytest.mark.parametrize("name", [each.name for each in HABITS])
def test_every_habit_ends_with_balanced_books(name: str) -> None:
    """Over the real market: each grain, hold, agenda and offer, counted independently of the pallets."""
    season = Season(Setting(10, 30, habit(name), has_appeals=True, units=1), 0, is_audited=True)
    season.play()
    chain = season.chain
    check_books(chain.now(), chain.issued)


def test_honest_daemons_appeal() -> None:
    setting = Setting(10, 30, habit("sybil"), has_appeals=True, units=12)
    seasons = [Season(setting, number, is_audited=False) for number in range(setting.units)]
    for season in seasons:
        season.play()
    appellants = {event.appellant for season in seasons for event in season.chain.happened(CaseAppealed)}
    assert appellants
    assert not appellants & seasons[0].coalition


def seen_of(played: Habit) -> tuple[list[ClaimKind], list[CaseOutcome], list[tuple[PartyFault, int]]]:
    """Return the chain's view of the first unit with a declined racer: claims, outcome, charges."""
    for number in range(12):
        season = Season(Setting(10, 10, played, has_appeals=True, units=12), number, is_audited=False)
        season.play()
        claims = season.last_case.terms.claims if season.last_case is not None else ()
        if any(claim.kind is ClaimKind.DECLINED for claim in claims) and len(season.raced) == 2:
            ends = [event.outcome for event in season.chain.happened(CaseEnded)]
            charged = [(event.fault, event.amount) for event in season.chain.happened(ProviderSlashed)]
            return sorted(claim.kind for claim in claims), ends, charged
    raise AssertionError("nobody declined in twelve")


def test_a_chain_cannot_tell_an_input_that_comes_late_from_a_decline_without_a_reason() -> None:
    """A rule that charges one charges the other: in the first the racer is honest, in the second the coalition's."""
    late, groundless = seen_of(habit("waits")), seen_of(replace(habit("declines"), judges_lie=False))
    assert late == groundless
    assert late == (
        [ClaimKind.ANSWERED, ClaimKind.DECLINED],
        [CaseOutcome.AUDIT_RIGHT],
        [(PartyFault.DECLINED, 125 * PRICE // 100)],
    )


def test_who_lies_about_an_input_that_others_have_is_found_out() -> None:
    """The others of the same charge. If a decline were free, so would this be."""
    setting = Setting(10, 10, replace(habit("declines"), judges_lie=False), has_appeals=True, units=4)
    result = play(setting)
    assert result.racers > 0
    assert result.judges > 0


def test_both_sides_of_the_coin_count_as_they_are_likely() -> None:
    found, of = chance_found(50_000)
    assert chance_of_audit(50_000) == pytest.approx(found / of)
    assert 0 < chance_of_audit(50_000, chosen_percent=30) < chance_of_audit(50_000)


def test_every_bar_can_be_missed() -> None:
    assert list(problems(row())) == []
    amounts = {"coalition": ("over_honest", 0.1), "racers": ("racers", -0.1), "judges": ("judges", -0.1)}
    for bar, (name, amount) in {**amounts, "convicted": ("convicted_after_appeal", 1)}.items():
        changed = row(**{name: amount})
        assert [missed for missed, _ in problems(changed)] == [bar]
        assert not known(row(), bar)


def test_what_is_known_is_a_habit_and_a_bar_in_networks_of_some_size() -> None:
    for (name, bar), (greatest, why) in KNOWN.items():
        assert known({**row(), "habit": name, "size": greatest}, bar) == why
        assert not known({**row(), "habit": name, "size": greatest + 1}, bar)
    assert {name for name, _ in KNOWN} <= {each.name for each in HABITS}
    assert "coalition" not in {bar for _, bar in KNOWN}, "no way to cheat is known to pay"


def test_the_page_has_a_line_for_each_habit() -> None:
    heads = "| habit | 20 % of 10 |\n|---|---|\n"
    assert page([row()]) == f"{heads}| lies | -1.00 (-1.00) |\n\n{heads}| lies | +0.50 / +0.50 (+0.50 / +0.50) |\n"


def test_the_documents_show_every_habit_and_network() -> None:
    lines = PAGE.read_text().partition("## Coalitions")[2].splitlines()
    heads = " | ".join(f"{share} % of {size}" for size, share in NETWORKS)
    assert lines.count(f"| habit | {heads} |") == 2
    for each in HABITS:
        assert sum(line.startswith(f"| {each.name} |") for line in lines) == 3, each.name
        assert f"| {each.name} | {each.says} |" in lines


def test_a_result_is_complete() -> None:
    assert set(asdict(Result())) >= {"coalition", "racers", "judges", "cases", "appeals", "outcomes"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--units", "0"], "a setting has at least one unit"),
        (["--only", "lies,nothing"], "no habit is called nothing: there are lone, lies, "),
    ],
)
def test_what_cannot_be_played_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read_arguments(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_chosen_habits_are_read() -> None:
    assert read_arguments(["--only", "lies,sybil", "--units", "1"]).only == "lies,sybil"
