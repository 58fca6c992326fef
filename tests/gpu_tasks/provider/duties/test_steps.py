"""The next step of a race, as a table: every relevant state of chain and journal."""

from dataclasses import replace

import pytest

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties import race_steps
from gpu_tasks.provider.duties.race_steps import OMITTED_BLOCKS, Race, RaceStep
from gpu_tasks.provider.journal.records import Basis, RaceEntry, Sent, UnitResult

ME, DEVICE = b"m" * 32, b"d" * 32
TERMS = UnitTerms(100, 2, b"i" * 32, b"c" * 32, 0, 64)
RACER = Racer(ME, DEVICE, 25)
UNIT = Unit(0, b"k" * 32, TERMS, 130, 5, 7, 10, 10, UnitState.RACING, 1, 100, Round(20), (RACER,))
RESULT = UnitResult(
    b"out", b"r" * 32, b"b" * 32, Totals(1, 0, 3, b"t" * 32), b"s" * 32, Usage(0, 0, 0, 0, 0, 0), 21, 21
)
BASIS = Basis(TERMS.input_root, TERMS.input_commitment, b"w" * 32, b"m" * 32)
COMMITTED = replace(RACER, commitment=b"h" * 32, committed_at=22)
REVEALED = replace(COMMITTED, reveal=Reveal(b"r" * 32, b"b" * 32, 3, 25))
NEW, DONE = RaceEntry(DEVICE), RaceEntry(DEVICE, RESULT, basis=BASIS)


def a_race(
    racer: Racer = RACER,
    *,
    closed_at: int = 0,
    reveals_from: int = 0,
    state: UnitState = UnitState.RACING,
    first_commit: int = 0,
) -> Race:
    current = Round(20, closed_at=closed_at, first_commit=first_commit)
    unit = replace(UNIT, racers=(racer,), round=current, state=state)
    return Race(b"u" * 32, unit, 0, 0, 50, reveals_from, 44)


@pytest.mark.parametrize(
    ("race", "entry", "height", "step"),
    [
        (a_race(), None, 21, RaceStep.EXECUTE),
        (a_race(), NEW, 21, RaceStep.EXECUTE),  # it stopped while it worked
        (a_race(), DONE, 21, RaceStep.COMMIT),
        (
            a_race(),
            RaceEntry(DEVICE, RESULT, (Sent.COMMIT,), basis=BASIS),
            21,
            RaceStep.COMMIT,
        ),  # sent, not in the chain: again
        (a_race(), RaceEntry(DEVICE, sent=(Sent.DECLINE,)), 21, RaceStep.DECLINE),
        (a_race(closed_at=30), None, 31, RaceStep.NOTHING),  # shut out
        (a_race(closed_at=30), DONE, 31, RaceStep.NOTHING),
        (a_race(COMMITTED), DONE, 31, RaceStep.NOTHING),  # wait for the close
        (a_race(COMMITTED, closed_at=30), DONE, 31, RaceStep.NOTHING),  # wait until it is final
        (a_race(COMMITTED, closed_at=30, reveals_from=32), DONE, 32, RaceStep.ATTEST),
        (a_race(COMMITTED, closed_at=30, reveals_from=32), DONE, 31 + OMITTED_BLOCKS, RaceStep.ATTEST),
        (a_race(COMMITTED, closed_at=30, reveals_from=32), DONE, 32 + OMITTED_BLOCKS, RaceStep.REVEAL),
        (
            a_race(COMMITTED, closed_at=30, reveals_from=32),
            NEW,
            32,
            RaceStep.NOTHING,
        ),  # committed by a journal that is lost
        (a_race(COMMITTED, closed_at=30, reveals_from=32), None, 32, RaceStep.NOTHING),
        (a_race(REVEALED, closed_at=30, reveals_from=32), DONE, 33, RaceStep.NOTHING),
        (a_race(replace(RACER, has_declined=True)), RaceEntry(DEVICE, sent=(Sent.DECLINE,)), 21, RaceStep.NOTHING),
        (a_race(COMMITTED, closed_at=30, reveals_from=32, state=UnitState.DISPUTED), DONE, 40, RaceStep.NOTHING),
        (a_race(REVEALED, closed_at=30, reveals_from=32, state=UnitState.CLAIMED), DONE, 40, RaceStep.NOTHING),
        # The window ends with block 50.
        (a_race(), NEW, 48, RaceStep.EXECUTE),
        (a_race(), NEW, 49, RaceStep.PASS),
        (a_race(), None, 49, RaceStep.EXECUTE),
        (a_race(), DONE, 49, RaceStep.COMMIT),
        (a_race(), RaceEntry(DEVICE, RESULT, (Sent.PASS,), basis=BASIS), 30, RaceStep.PASS),
        (a_race(first_commit=40), NEW, 49, RaceStep.EXECUTE),  # a racer that is shut out pays nothing
        (replace(a_race(), commits_until=0), NEW, 49, RaceStep.EXECUTE),  # it waits for its device
        (a_race(state=UnitState.SETTLED), DONE, 40, RaceStep.NOTHING),
    ],
)
def test_the_next_step_of_a_race(race: Race, entry: RaceEntry | None, height: int, step: RaceStep) -> None:
    assert race_steps.next_step(race, entry, View(height, ())) is step


def test_where_finality_is_late_a_reveal_goes_by_itself_before_its_window_ends() -> None:
    race = replace(a_race(COMMITTED, closed_at=28, reveals_from=30), reveals_until=42)
    steps = {newest: race_steps.next_step(race, DONE, View(31, (), newest)) for newest in (31, 37, 38, 42)}
    assert steps == {31: RaceStep.ATTEST, 37: RaceStep.ATTEST, 38: RaceStep.REVEAL, 42: RaceStep.REVEAL}
