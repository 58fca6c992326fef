"""Random steps with balanced books: planted errors are found at once, and a seed repeats."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_tasks.market.claims.findings import CANNOT_FETCH
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import schedules
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import is_open
from gpu_tasks.market.training.tasks import TASK_ESCROW
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.types import Signed, Weight
from runtime.execution.transaction_checks import TransactionChecks
from runtime.frame.errors import InvalidReason, InvalidTransaction
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.state.overlay import Changes, Memory
from simulation.actors import ACTORS, BY_STASH
from simulation.books import Books, BooksBroken
from simulation.catalogue import WORLDS
from simulation.economy import __main__ as program
from simulation.economy import season as season_module
from simulation.economy.claim_watch import HONEST, MARKETS
from simulation.economy.season import (
    CALM_EVERY,
    CALM_LIARS,
    LARGE,
    SEASON_STEPS,
    SMALL,
    Crowd,
    KeptState,
    Season,
    play,
)
from simulation.pallets.inference import BROUGHT_STATES
from simulation.replay import claim_deeds, dispute_deeds
from simulation.replay.calls import draw
from simulation.runs import Stretch, in_turn, stretches

SEED, STEPS = 1, 900
ALICE = ACTORS[0].stash.account
ELSEWHERE = b"e" * 32


@pytest.fixture(scope="module")
def played() -> Season:
    """Return a chain in the middle of its life, which no test changes."""
    season = Season(SEED, 0)
    live(season)
    return season


def live(season: Season) -> None:
    """Make some steps, and more until everything exists that bugs are planted in."""
    for steps in range(STEPS, 10 * STEPS, 50):
        season.play(steps)
        bound = season.runtime.at(season.state)
        is_for_sale = next(iter(bound[TrainingMarket].open_auctions.keys()), None) is not None
        if is_for_sale and any(unit is not None and unit.racers for _, unit in bound[InferenceMarket].units.items()):
            return
    raise AssertionError("nothing is ever for sale, or nobody races")


def test_the_same_seed_gives_the_same_chain_and_another_another(played: Season) -> None:
    again, other = Season(SEED, 0), Season(SEED, 1)
    live(again)
    live(other)
    # another test counts its books again
    assert again.tally == replace(played.tally, full_counts=again.tally.full_counts)
    assert again.state.values == played.state.values
    assert other.state.values != played.state.values


# ------------------------------------------------------------------------------------------------------ what is planted


def first(items: Any) -> Any:
    return next(iter(items))


def one_grain_more(bound: Bound) -> None:
    account = bound[System].account
    account[ALICE] = replace(account[ALICE], data=replace(account[ALICE].data, free=account[ALICE].data.free + 1))


def moved_to_nobody(bound: Bound) -> None:
    bound[Balances].debit(ALICE, 1)


def issuance_without_owner(bound: Bound) -> None:
    bound[Balances].total_issuance.set(bound[Balances].total_issuance.get() + 1)


def burned_and_still_there(bound: Bound) -> None:
    one_grain_more(bound)
    issuance_without_owner(bound)


def reserved_for_nothing(bound: Bound) -> None:
    account = bound[System].account
    data = account[ALICE].data
    moved = replace(data, free=data.free - 1, reserved=data.reserved + 1)
    account[ALICE] = replace(account[ALICE], data=moved)


def held_for_another_case(bound: Bound) -> None:
    (who, hold), _ = first(bound[Balances].held_cases.items())
    bound[Balances].rededicate(who, hold, replace(hold, case=ELSEWHERE), 1)


def shown_for_another_reason(bound: Bound) -> None:
    holds = bound[Balances].holds
    who, entries = first(pair for pair in holds.items() if len(pair[1]) > 1)
    low, high, *others = entries
    holds[who] = (replace(low, amount=low.amount + 1), replace(high, amount=high.amount - 1), *others)


def total_of_a_case(bound: Bound) -> None:
    hold, total = first(bound[Balances].case_totals.items())
    bound[Balances].case_totals[hold] = total + 1


def open_unit(bound: Bound) -> tuple[bytes, Any]:
    """Return a unit without a claim or a dispute, which the market's own agenda calls."""
    return first(  # type: ignore[no-any-return]
        (unit_id, unit)
        for unit_id, unit in bound[InferenceMarket].units.items()
        if unit and is_open(unit) and unit.state not in BROUGHT_STATES
    )


def unit_that_says_more(bound: Bound) -> None:
    unit_id, unit = open_unit(bound)
    bound[InferenceMarket].units[unit_id] = replace(unit, escrow=unit.escrow + 1)


def device_that_secures_more(bound: Bound) -> None:
    device_id, device = first(bound[Devices].devices.items())
    bound[Devices].devices[device_id] = replace(device, bond=device.bond + 1, secured=device.secured + 1)


def stake_that_nobody_holds(bound: Bound) -> None:
    stash, value = first(bound[TrustStake].bonds.items())
    bound[TrustStake].bonds[stash] = value + 1


def a_pool_without_owners(bound: Bound) -> None:
    validator, _ = first(bound[TrustStake].bonds.items())
    pool = bound[TrustStake].pools[validator]
    bound[TrustStake].pools[validator] = replace(pool, delegators=pool.delegators + 1)


def a_service_too_busy(bound: Bound) -> None:
    number, service = first(bound[InferenceMarket].services.items())
    bound[InferenceMarket].services[number] = replace(service, open_units=service.open_units + 1)


def an_offer_uncounted(bound: Bound) -> None:
    number, count = first(bound[InferenceMarket].offer_count.items())
    bound[InferenceMarket].offer_count[number] = count + 1


def a_place_that_nobody_waits_at(bound: Bound) -> None:
    unit_id, _ = first(bound[InferenceMarket].agenda.places.items())
    bound[InferenceMarket].agenda.places[unit_id] += 1


def a_unit_that_nothing_calls(bound: Bound) -> None:
    unit_id, unit = open_unit(bound)
    schedules.drop(bound[InferenceMarket], unit.posted_at, unit_id)


def a_record_that_nothing_drops(bound: Bound) -> None:
    expiring = bound[InferenceMarket].expiring
    expiring.drop(first(expiring.places.keys()))


def a_cursor_that_passes_over_somebody(bound: Bound) -> None:
    market = bound[InferenceMarket]
    market.agenda.cursor.set(max(height for (height, _), _ in market.agenda.waiting.items()))


def a_unit_that_waits_where_nobody_comes_again(bound: Bound) -> None:
    agenda = bound[InferenceMarket].agenda
    (height, unit_id), _ = first(agenda.waiting.items())
    done = agenda.cursor.get()
    del agenda.waiting[height, unit_id]
    agenda.waiting[done, unit_id], agenda.places[unit_id] = True, done


def task_on_sale(bound: Bound) -> bytes:
    return first(bound[TrainingMarket].open_auctions.keys())  # type: ignore[no-any-return]


def a_task_that_nothing_looks_at(bound: Bound) -> None:
    bound[TrainingMarket].agenda.drop(task_on_sale(bound))


def a_task_uncounted(bound: Bound) -> None:
    market = bound[TrainingMarket]
    market.open_task_count.set(market.open_task_count.get() - 1)


def a_task_that_is_not_for_sale(bound: Bound) -> None:
    del bound[TrainingMarket].open_auctions[task_on_sale(bound)]


def a_task_whose_deposit_is_not_held(bound: Bound) -> None:
    market = bound[TrainingMarket]
    task = market.tasks[task_on_sale(bound)]
    assert task is not None
    market.tasks[task_on_sale(bound)] = replace(task, deposit=task.deposit + 1)


def escrow_of_a_task_that_is_gone(bound: Bound) -> None:
    (who, hold), amount = first(pair for pair in bound[Balances].held_cases.items() if pair[0][1].reason is TASK_ESCROW)
    bound[Balances].rededicate(who, hold, replace(hold, case=ELSEWHERE), amount)


PLANTED = (
    one_grain_more, moved_to_nobody, issuance_without_owner, burned_and_still_there, reserved_for_nothing,
    held_for_another_case, shown_for_another_reason, total_of_a_case, unit_that_says_more, device_that_secures_more,
    stake_that_nobody_holds, a_pool_without_owners, a_service_too_busy, an_offer_uncounted,
    a_place_that_nobody_waits_at, a_unit_that_nothing_calls, a_record_that_nothing_drops,
    a_cursor_that_passes_over_somebody, a_unit_that_waits_where_nobody_comes_again,
    a_task_that_nothing_looks_at, a_task_uncounted, a_task_that_is_not_for_sale,
    a_task_whose_deposit_is_not_held, escrow_of_a_task_that_is_gone,
)  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED)
def test_what_is_planted_in_a_step_is_found_after_it(played: Season, plant: Callable[[Bound], None]) -> None:
    bound = played.runtime.at(played.state)
    books = Books(bound, WORLDS)
    with bound.overlay.transaction():
        plant(bound)
        with pytest.raises(BooksBroken):
            books.step(bound, bound.overlay.keys_in_layers())


def test_what_changes_unseen_is_found_when_all_is_counted_anew(played: Season) -> None:
    """Alice paid Bob between two blocks. Both accounts balance, and no step did it."""
    bound = played.runtime.at(played.state)
    books = Books(bound, WORLDS)
    bound[Balances].transfer(ALICE, ACTORS[1].stash.account, 1)
    after = played.runtime.at(Memory({**played.state.values, **kept(bound.overlay.changes())}))
    with pytest.raises(BooksBroken, match="changed unseen"):
        books.compare(after)


def kept(changes: Changes) -> dict[bytes, bytes]:
    return {key: value for key, value in changes.items() if value is not None}


@pytest.mark.parametrize("name", ["remark", "remark_with_event"])
def test_a_grain_from_a_call_stops_the_run_at_that_step(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The call creates a grain. The run ends with the first step in which it succeeds."""
    season = Season(SEED, 6)
    method = season.runtime.method("System", name)
    right = method.function

    def generous(system: System, origin: Signed, remark: bytes) -> object:
        if given:
            raise AssertionError("the run went on")
        given.append(season.tally.steps.total())
        account = system.account[ALICE]
        system.account[ALICE] = replace(account, data=replace(account.data, free=account.data.free + 1))
        return right(system, origin, remark)

    given: list[int] = []
    monkeypatch.setattr(method, "function", generous)
    with pytest.raises(BooksBroken, match="claimed"):
        season.play(STEPS)
    assert given == [season.tally.steps.total()]


def test_a_grain_from_a_hook_stops_the_run_at_that_block(monkeypatch: pytest.MonkeyPatch) -> None:
    season = Season(SEED, 0)
    right = InferenceMarket.on_initialize

    def generous(market: InferenceMarket) -> Weight:
        one_grain_more(market.context)  # type: ignore[arg-type]  # the context of a block is its Bound
        return right(market)

    monkeypatch.setattr(InferenceMarket, "on_initialize", generous)
    with pytest.raises(BooksBroken, match="claimed"):
        season.block()
    assert not season.tally.steps


def test_what_a_refused_extrinsic_writes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    season = Season(SEED, 0)

    def writes(checks: TransactionChecks, *_: Any) -> int:
        account = checks._account
        account[ALICE] = account[ALICE]
        raise InvalidTransaction(InvalidReason.PAYMENT)

    monkeypatch.setattr(TransactionChecks, "check", writes)
    with pytest.raises(BooksBroken, match="refused"):
        season.play(STEPS)


def test_hooks_above_their_budgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(season_module, "HOOKS_MAX", Weight(1, 0))
    with pytest.raises(BooksBroken, match="hooks weigh"):
        Season(SEED, 0).play(STEPS)


def test_a_full_count_asks_the_tests_own_books_too(monkeypatch: pytest.MonkeyPatch, played: Season) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("not so")

    monkeypatch.setattr(season_module, "check_books", refuse)
    with pytest.raises(BooksBroken, match="not so"):
        played.count_anew()


def test_every_call_of_every_pallet_is_drawn(played: Season) -> None:
    crowd = Crowd(played.runtime.at(played.state), random.Random(1), bytes(32), directory=played.directory)
    chance = random.Random(2)
    drawn = {draw(crowd, chance.choice(ACTORS)).name for _ in range(3_000)}
    methods = [method for pallet in played.runtime.pallets for method in pallet.methods if not method.is_inherent]
    assert drawn == {f"{method.pallet.__name__}.{method.name}" for method in methods}


def test_every_second_chain_has_validators_enough_for_nine_voters_and_the_others_have_not() -> None:
    for number, sizes in enumerate((LARGE, SMALL, LARGE, SMALL)):
        season = Season(SEED, number)
        seats = season.runtime.at(season.state)[TrustStake].validators(0)
        assert len(seats) in sizes
        assert {seat.stash for seat in seats} <= BY_STASH.keys(), "who sits can sign"


def test_no_party_of_a_claim_or_a_dispute_loses_anything_without_liars(monkeypatch: pytest.MonkeyPatch) -> None:
    season = Season(SEED, calm(0))
    assert not season.liars
    tally = season.play(2 * STEPS)
    assert tally.claims["claim PASSED"] > 0
    assert tally.claims["check PASSED"] > 0
    monkeypatch.setattr(claim_deeds, "is_withheld", lambda *_: True)
    with pytest.raises(BooksBroken, match="honest"):
        season.play(4 * STEPS)


def calm(liars: int) -> int:
    return next(number for number, count in CALM_LIARS.items() if count == liars)


def test_a_few_liars_convict_no_honest_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    season = Season(SEED, calm(3))
    assert len(season.liars) == 3
    passed = [f"{subject}: {HONEST} PASSED" for subject in MARKETS.values()]
    tally = season.play(STEPS)
    for steps in range(2 * STEPS, 10 * STEPS, STEPS):
        if all(tally.truths[end] for end in passed):
            break
        tally = season.play(steps)
    assert all(tally.truths[end] for end in passed)
    monkeypatch.setattr(dispute_deeds, "true_vote", lambda *_: CANNOT_FETCH)
    monkeypatch.setattr(dispute_deeds, "_vote_about", lambda *_, **__: CANNOT_FETCH)
    with pytest.raises(BooksBroken, match="honest provider"):
        season.play(20 * STEPS)


# -------------------------------------------------------------------------------------------------------- the program


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(program, "OUT", tmp_path / "out" / "economy.json")
    return program.OUT


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["economy", *arguments])
    return program.main()


def test_a_run_ends_with_one_line_and_writes_its_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: Path
) -> None:
    monkeypatch.setattr(program, "SEASON_STEPS", 200)
    assert run(monkeypatch, "--steps", "300", "--seed", "5") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("economy holds: ")
    told = json.loads(out.read_text())
    assert told["total_steps"] >= 300
    assert told["full_counts"] == 2
    assert not told["problems"]


def test_a_run_that_breaks_says_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: Path
) -> None:
    monkeypatch.setattr(program, "SEASON_STEPS", 200)
    monkeypatch.setattr(season_module, "HOOKS_MAX", Weight(1, 0))
    assert run(monkeypatch, "--steps", "400", "--seed", "5", "--season", "1") == 1
    told = capsys.readouterr()
    assert "DOES NOT HOLD" in told.out
    assert "`make economy SEED=5 SEASON=1` repeats it" in told.err
    assert "block" in json.loads(out.read_text())["problems"][0]


def test_chains_played_side_by_side_show_the_same_in_the_same_order() -> None:
    chosen = [Stretch(SEED, number, 60) for number in range(3)]
    alone, beside = (list(in_turn(play, chosen, jobs)) for jobs in (1, 2))
    assert [played.tally for played in beside] == [played.tally for played in alone]
    assert all(played.problem is None and played.seconds > 0 for played in beside)


def test_a_kept_state_lists_what_a_state_made_anew_does() -> None:
    chance = random.Random(4)
    kept_state, values = KeptState({}), dict[bytes, bytes]()
    items = [blake2_256(bytes([number])) for number in range(3)]
    for _ in range(60):
        names = [chance.choice(items) + bytes([chance.randrange(4)]) * chance.randrange(1, 4) for _ in range(4)]
        changes = {name: chance.choice((None, b"v", chance.randbytes(2))) for name in names}
        kept_state.apply(changes)
        values = kept({**values, **changes})
        memory = Memory(values)
        assert kept_state.values == values
        for item in items:
            for start in (b"", *names):
                assert list(kept_state.keys(item, start)) == list(memory.keys(item, start))


def test_each_chain_of_a_million_steps_can_begin() -> None:
    """About one chain in twenty had fewer validators than liars."""
    seasons = [Season(part.seed, part.number) for part in stretches(1, 1_000_000, SEASON_STEPS)]
    assert len(seasons) == 1_000_000 // SEASON_STEPS
    assert min(len(season.liars) for season in seasons if not season.is_calm) >= 3
    assert [len(season.liars) for season in seasons if season.is_calm] == [*CALM_LIARS.values()] * (40 // CALM_EVERY)
