"""The next step, as tables: every relevant state of chain and journal."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

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
from gpu_tasks.market.inference.gpu_tasks_api import UnitStatus
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Racer, Reveal, Unit, UnitState, UnitTerms
from gpu_tasks.market.rounds import Round
from gpu_tasks.provider.chain.port import View
from gpu_tasks.provider.duties import cases, race_steps
from gpu_tasks.provider.duties.appeals import LAST_CALL_BLOCKS, is_found_declining, is_outvoted, is_wronged
from gpu_tasks.provider.duties.cases import TASK_CASES, Case, DisputedLeaf, JudgeStep
from gpu_tasks.provider.duties.judging import JudgeDuty
from gpu_tasks.provider.duties.race_steps import OMITTED_BLOCKS, Race, RaceStep
from gpu_tasks.provider.journal.records import Basis, CaseEntry, RaceEntry, Sent, UnitResult

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
    racer: Racer = RACER, *, closed_at: int = 0, reveals_from: int = 0, state: UnitState = UnitState.RACING
) -> Race:
    unit = replace(UNIT, racers=(racer,), round=Round(20, closed_at=closed_at), state=state)
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
        # not opened in time: opened late, it is a miss and no lie
        (a_race(COMMITTED, closed_at=30, reveals_from=32, state=UnitState.JUDGING), DONE, 40, RaceStep.REVEAL),
        (a_race(COMMITTED, closed_at=30, reveals_from=32, state=UnitState.JUDGING), NEW, 40, RaceStep.NOTHING),
        (a_race(REVEALED, closed_at=30, reveals_from=32, state=UnitState.JUDGING), DONE, 40, RaceStep.NOTHING),
        (a_race(closed_at=30, state=UnitState.JUDGING), DONE, 40, RaceStep.NOTHING),
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
    return CourtCase(InferenceMarket.index, CaseKind.DISPUTE, terms, 50, 2_000, rules, None, stage, 30, current)


def test_a_batch_has_a_place_in_the_journal_for_each_seat_about_each_of_its_leaves() -> None:
    """A second leaf may be judged before the seat about the first one is dismissed."""
    benches, units = list(BenchKind), [replace(UNIT, attempt=attempt) for attempt in (1, 2)]
    keys = {
        DisputedLeaf(b"u" * 32, a_record(), replace(SEAT, bench=bench), 50, 0, unit, leaf).key
        for unit in units for bench in benches for leaf in (0, 1, 4_095)
    }  # fmt: skip
    assert len(keys) == 2 * len(benches) * 3
    assert min(number for _, number in keys) >= TASK_CASES > a_case().key[1]


def a_case(seat: JudgeSeat = SEAT, *, closed_at: int = 0, opens_from: int = 0) -> Case:
    return Case(b"u" * 32, a_record(closed_at=closed_at), seat, 50, opens_from, UNIT)


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
def test_the_next_step_of_a_case(case: Case, entry: CaseEntry | None, step: JudgeStep) -> None:
    assert cases.next_step(case, entry) is step


class Watched(JudgeDuty):
    """Records the seats in turn, and takes no step."""

    def __init__(self) -> None:
        self.parts = SimpleNamespace(telemetry=None)  # type: ignore[assignment]
        self.book = SimpleNamespace(look=lambda _: None)  # type: ignore[assignment]
        self.sat: list[int] = []

    async def _case(self, seat: SeatStatus) -> Case:
        return a_case(seat.seat)

    async def _take_seat(self, case: Case, view: View) -> None:
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


def test_an_input_that_nobody_has_is_called_unusable_at_last_and_only_where_nobody_answered() -> None:
    declined, answered = (replace(a_case(), record=a_record(claim)) for claim in (DECLINED, ANSWERED))
    last = 50 - cases.GIVE_UP_BLOCKS
    assert [cases.must_give_up(declined, height) for height in (last - 1, last, 50)] == [False, True, True]
    assert not cases.must_give_up(answered, 50)
    assert not cases.must_give_up(replace(declined, commits_until=0), 50), "the lease has not begun"


def test_each_seat_of_a_unit_has_a_number_of_its_own() -> None:
    numbers = [cases.case_number(attempt, bench) for attempt in (1, 2) for bench in BenchKind]
    assert len(set(numbers)) == len(numbers)
    assert [cases.attempt_of(number) for number in numbers] == [1, 1, 1, 2, 2, 2]


def a_verdict(root: bytes, *claims: PartyClaim, stage: CaseStage = CaseStage.APPEALABLE) -> UnitStatus:
    record = replace(a_record(*claims), verdict=Answered(root), stage=stage)
    return UnitStatus(UNIT, record, 0, 0, 0)


def test_a_verdict_against_an_own_answer_is_appealed_and_no_other() -> None:
    key = (b"u" * 32, 1)
    assert is_wronged(a_verdict(b"w" * 32, ANSWERED), key, ME)
    assert not is_wronged(a_verdict(b"r" * 32, ANSWERED), key, ME)
    assert not is_wronged(a_verdict(b"w" * 32, ANSWERED), key, b"x" * 32)
    assert not is_wronged(a_verdict(b"w" * 32, DECLINED), key, ME)
    assert not is_wronged(a_verdict(b"w" * 32, ANSWERED, stage=CaseStage.COURT), key, ME)
    assert not is_wronged(a_verdict(b"w" * 32, ANSWERED), (b"u" * 32, 2), ME)
    assert not is_wronged(None, key, ME)


def test_a_verdict_against_an_own_decline_can_be_appealed_and_no_other() -> None:
    def case_of(status: UnitStatus) -> CourtCase:
        assert status.case is not None
        return status.case

    charged = case_of(a_verdict(b"w" * 32, DECLINED, ANSWERED))
    assert is_found_declining(charged, DECLINED.account)
    assert not is_found_declining(charged, b"x" * 32)
    assert not is_found_declining(case_of(a_verdict(b"w" * 32, ANSWERED)), ME), "that is a lie, if anything"
    assert not is_found_declining(replace(charged, verdict=Unanswerable()), DECLINED.account)
    assert not is_found_declining(replace(charged, stage=CaseStage.COURT), DECLINED.account)


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
