"""The next step, as tables: every relevant state of chain and journal."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import (
    CaseKind,
    CaseRules,
    CaseStage,
    CaseTerms,
    ClaimKind,
    CourtCase,
    DrawnBench,
    JudgeSeat,
    PartyClaim,
)
from gpu_tasks.market.courts.courts_api import CaseStatus, SeatStatus
from gpu_tasks.market.courts.opinions import Answered, Statement, Unanswerable
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties import cases, race_steps
from gpu_tasks.provider.duties.appeals import LAST_CALL_BLOCKS, is_found_lying, is_outvoted
from gpu_tasks.provider.duties.cases import JudgeStep, SeatedCase
from gpu_tasks.provider.duties.race_steps import OMITTED_BLOCKS, Race, RaceStep
from gpu_tasks.provider.journal.records import Basis, CaseEntry, RaceEntry, Sent, UnitResult
from gpu_tasks.provider.tasks.judging_tasks import TaskJudgeDuty
from gpu_tasks.provider.tasks.task_verdicts import TaskCase
from gpu_tasks.provider.telemetry import Detail

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


SEAT = JudgeSeat(BenchKind.COMMITTEE, 1, 5, b"p" * 32)
PROMISED = replace(SEAT, commitment=b"h" * 32)
SAID = Statement(Answered(b"r" * 32), b"q" * 32)
FOUND = CaseEntry(SAID, b"s" * 32)
DECLINED = PartyClaim(ME, ClaimKind.DECLINED, None, 25)
ANSWERED = PartyClaim(ME, ClaimKind.ANSWERED, b"r" * 32, 25)


def a_record(*claims: PartyClaim, closed_at: int = 0) -> CourtCase:
    terms = CaseTerms(b"k" * 32, 100, 5, 100, 30, 1_900, 250, 0, 30, (), claims)
    rules = CaseRules(50_000, 33, 20, 12, 20)
    stage, current = CaseStage.COMMITTEE, Round(33, closed_at=closed_at)
    return CourtCase(TrainingMarket.index, CaseKind.DISPUTE, terms, 50, 2_000, rules, None, stage, 30, current)


class ACase(SeatedCase):
    """A case without a subject."""

    @property
    def key(self) -> tuple[bytes, int]:
        return self.id, 0

    @property
    def subject(self) -> dict[str, Detail]:
        return {"case": self.id}


def a_case(seat: JudgeSeat = SEAT, *, closed_at: int = 0, opens_from: int = 0) -> ACase:
    return ACase(b"u" * 32, a_record(closed_at=closed_at), seat, 50, opens_from)


def test_each_seat_has_a_number_of_its_own() -> None:
    numbers = [cases.case_number(height, bench) for height in (1, 2) for bench in BenchKind]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("case", "entry", "step"),
    [
        (a_case(), None, JudgeStep.JUDGE),
        (a_case(), FOUND, JudgeStep.COMMIT),
        (a_case(closed_at=40), None, JudgeStep.NOTHING),
        (a_case(closed_at=40), FOUND, JudgeStep.NOTHING),
        (a_case(PROMISED), FOUND, JudgeStep.NOTHING),
        (a_case(PROMISED, closed_at=40), FOUND, JudgeStep.NOTHING),
        (a_case(PROMISED, closed_at=40, opens_from=42), FOUND, JudgeStep.OPEN),
        (a_case(PROMISED, closed_at=40, opens_from=42), None, JudgeStep.NOTHING),
        (a_case(replace(PROMISED, statement=SAID), closed_at=40, opens_from=42), FOUND, JudgeStep.NOTHING),
    ],
)
def test_the_next_step_of_a_case(case: ACase, entry: CaseEntry | None, step: JudgeStep) -> None:
    assert cases.next_step(case, entry) is step


class Watched(TaskJudgeDuty):
    """Records the seats in turn, and takes no step."""

    def __init__(self) -> None:
        self.parts = SimpleNamespace(telemetry=None)  # type: ignore[assignment]
        self.book = SimpleNamespace(look=lambda _: None)  # type: ignore[assignment]
        self.sat: list[int] = []

    async def _case(self, seat: SeatStatus) -> TaskCase | None:
        return cast("TaskCase", a_case(seat.seat))

    async def _take_seat(self, case: TaskCase, view: View) -> None:
        self.sat.append(case.seat.bench)


@pytest.mark.parametrize(
    ("benches", "is_open", "sat"),
    [
        ((BenchKind.COMMITTEE,), True, [BenchKind.COMMITTEE]),
        ((BenchKind.PAIR, BenchKind.COMMITTEE), True, [BenchKind.COMMITTEE]),
        ((BenchKind.COMMITTEE, BenchKind.COURT), True, []),
        ((BenchKind.COMMITTEE,), False, []),
        ((), True, []),
    ],
)
def test_a_judge_sits_on_the_newest_bench_alone(benches: tuple[BenchKind, ...], is_open: bool, sat: list[int]) -> None:
    record = replace(a_record(ANSWERED), benches=tuple(DrawnBench(kind, (ME,)) for kind in benches))
    record = record if is_open else replace(record, round=None)
    duty = Watched()
    asyncio.run(duty.step(View(40, (), 40, seats=(SeatStatus(b"u" * 32, SEAT, CaseStatus(record, 0, 0, 0)),))))
    assert duty.sat == sat


def a_verdict(root: bytes, *claims: PartyClaim, stage: CaseStage = CaseStage.APPEALABLE) -> CourtCase:
    return replace(a_record(*claims), verdict=Answered(root), stage=stage)


def test_a_verdict_against_an_own_answer_is_appealed_and_no_other() -> None:
    assert is_found_lying(a_verdict(b"w" * 32, ANSWERED), ME)
    assert not is_found_lying(a_verdict(b"r" * 32, ANSWERED), ME)
    assert not is_found_lying(a_verdict(b"w" * 32, ANSWERED), b"x" * 32)
    assert not is_found_lying(a_verdict(b"w" * 32, DECLINED), ME)
    assert not is_found_lying(a_verdict(b"w" * 32, ANSWERED, stage=CaseStage.COURT), ME)


def an_own_seat(
    said: Answered | Unanswerable | None, verdict: bytes | None = b"w" * 32, stage: CaseStage = CaseStage.APPEALABLE
) -> SeatStatus:
    """Return a case that can be appealed until block 60, with this opinion of the judge."""
    statement = None if said is None else Statement(said, bytes(32))
    found = Unanswerable() if verdict is None else Answered(verdict)
    record = replace(a_record(ANSWERED), verdict=found, stage=stage, appealable_until=60)
    return SeatStatus(b"u" * 32, replace(PROMISED, statement=statement), CaseStatus(record, 0, 0, 0))


@pytest.mark.parametrize(
    ("seat", "height", "is_due"),
    [
        (an_own_seat(Answered(b"r" * 32)), 60 - LAST_CALL_BLOCKS - 1, False),
        (an_own_seat(Answered(b"r" * 32)), 60 - LAST_CALL_BLOCKS, True),
        (an_own_seat(Answered(b"r" * 32)), 60, True),
        (an_own_seat(Answered(b"r" * 32)), 61, False),
        (an_own_seat(Answered(b"w" * 32)), 60, False),
        (an_own_seat(Unanswerable()), 60, False),
        (an_own_seat(Answered(b"r" * 32), None), 60, False),
        (an_own_seat(None), 60, False),
        (an_own_seat(Answered(b"r" * 32), stage=CaseStage.COURT), 60, False),
    ],
)
def test_a_judge_appeals_at_last_against_what_it_did_not_find(seat: SeatStatus, height: int, is_due: bool) -> None:
    assert is_outvoted(seat, height) is is_due
