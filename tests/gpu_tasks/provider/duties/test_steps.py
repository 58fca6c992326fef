"""What to do next, as tables: every state of chain and journal that matters."""

from dataclasses import replace

import pytest

from gpu_tasks.market.attestations.statement import Usage
from gpu_tasks.market.inference.commitments import InputBad, Recomputed
from gpu_tasks.market.inference.committees import Committee, Judge
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties import cases, races
from gpu_tasks.provider.duties.cases import Case, JudgeStep
from gpu_tasks.provider.duties.races import OMITTED_BLOCKS, Race, RaceStep
from gpu_tasks.provider.journal.records import CaseEntry, RaceEntry, Sent, WorkResult

ME, DEVICE = b"m" * 32, b"d" * 32
TERMS = UnitTerms(100, 2, b"i" * 32, b"c" * 32, 0, 64)
RACER = Racer(ME, DEVICE, 25)
UNIT = Unit(0, b"k" * 32, TERMS, 130, 5, 7, 10, 10, UnitState.RACING, 1, 100, Round(20), (RACER,))
RESULT = WorkResult(b"out", b"r" * 32, b"b" * 32, b"s" * 32, Usage(0, 0, 0, 0, 0, 0), 21, 21)
COMMITTED = replace(RACER, commitment=b"h" * 32, committed_at=22)
REVEALED = replace(COMMITTED, reveal=Reveal(b"r" * 32, b"b" * 32, 3, 25))
NEW, DONE = RaceEntry(DEVICE), RaceEntry(DEVICE, RESULT)


def a_race(
    racer: Racer = RACER, *, closed_at: int = 0, reveals_from: int = 0, state: UnitState = UnitState.RACING
) -> Race:
    unit = replace(UNIT, racers=(racer,), round=Round(20, closed_at=closed_at), state=state)
    return Race(b"u" * 32, unit, 0, 50, reveals_from, 44)


@pytest.mark.parametrize(
    ("race", "entry", "height", "step"),
    [
        (a_race(), None, 21, RaceStep.EXECUTE),
        (a_race(), NEW, 21, RaceStep.EXECUTE),  # it stopped while it worked
        (a_race(), DONE, 21, RaceStep.COMMIT),
        (a_race(), RaceEntry(DEVICE, RESULT, {Sent.COMMIT}), 21, RaceStep.COMMIT),  # sent, not in the chain: again
        (a_race(), RaceEntry(DEVICE, sent={Sent.DECLINE}), 21, RaceStep.DECLINE),
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
        (a_race(replace(RACER, has_declined=True)), RaceEntry(DEVICE, sent={Sent.DECLINE}), 21, RaceStep.NOTHING),
        (a_race(COMMITTED, closed_at=30, reveals_from=32, state=UnitState.JUDGING), DONE, 40, RaceStep.NOTHING),
        (a_race(state=UnitState.SETTLED), DONE, 40, RaceStep.NOTHING),
    ],
)
def test_the_next_step_of_a_race(race: Race, entry: RaceEntry | None, height: int, step: RaceStep) -> None:
    assert races.next_step(race, entry, View(height, ())) is step


def test_where_finality_is_late_a_reveal_goes_by_itself_before_its_window_ends() -> None:
    race = replace(a_race(COMMITTED, closed_at=28, reveals_from=30), reveals_until=42)
    steps = {newest: races.next_step(race, DONE, View(31, (), newest)) for newest in (31, 37, 38, 42)}
    assert steps == {31: RaceStep.ATTEST, 37: RaceStep.ATTEST, 38: RaceStep.REVEAL, 42: RaceStep.REVEAL}


MEMBER = Judge(ME)
PROMISED = Judge(ME, commitment=b"h" * 32)
FOUND = CaseEntry(Recomputed(b"r" * 32), b"s" * 32)


def a_case(member: Judge = MEMBER, *, closed_at: int = 0, reveals_from: int = 0) -> Case:
    committee = Committee(0, 30, 3, Round(33, closed_at=closed_at), (member,))
    return Case(b"u" * 32, UNIT, committee, member, reveals_from)


@pytest.mark.parametrize(
    ("case", "entry", "step"),
    [
        (a_case(), None, JudgeStep.JUDGE),
        (a_case(), FOUND, JudgeStep.COMMIT),
        (a_case(closed_at=40), None, JudgeStep.NOTHING),
        (a_case(closed_at=40), FOUND, JudgeStep.NOTHING),
        (a_case(PROMISED), FOUND, JudgeStep.NOTHING),
        (a_case(PROMISED, closed_at=40), FOUND, JudgeStep.NOTHING),
        (a_case(PROMISED, closed_at=40, reveals_from=42), FOUND, JudgeStep.REVEAL),
        (a_case(PROMISED, closed_at=40, reveals_from=42), None, JudgeStep.NOTHING),
        (a_case(replace(PROMISED, verdict=InputBad()), closed_at=40, reveals_from=42), FOUND, JudgeStep.NOTHING),
    ],
)
def test_the_next_step_of_a_case(case: Case, entry: CaseEntry | None, step: JudgeStep) -> None:
    assert cases.next_step(case, entry) is step
