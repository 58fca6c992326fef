"""The calls and the hook of the courts at their worst: a disputed task before every kind of bench.

A pair disagrees about its result, a committee of three decides, the provider appeals, and a court of the largest size
reverses the verdict.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import cycle

from benchmarks.weights.actors import Actor
from benchmarks.weights.findings import Findings
from benchmarks.weights.races import DRAW_BLOCKS
from benchmarks.weights.task_road import TRACE, Tasks
from benchmarks.weights.world import VALIDATORS, World
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseStage, CourtCase, sitting
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Statement, opinion_commitment
from gpu_tasks.market.training.tasks import slot_case
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import signed

STAGE_BLOCKS_MAX = 120
GIVEN = Statement(Answered(TRACE), b"p" * 32)
OTHER = Statement(Answered(b"Q" * 32), b"p" * 32)


class CourtCalls:
    """The calls of Courts, and its hook at the end of a case."""

    def __init__(self, world: World, found: Findings, tasks: Tasks) -> None:
        self.world, self.found, self.tasks = world, found, tasks

    def measure(self) -> None:
        """Measure a case that ends without an appeal, and a case that a court ends."""
        self._unappealed()
        task_id, case_id = self._decided()
        self._appealed(case_id, self.tasks.owner(task_id, 0))
        self._court(case_id)
        self.tasks.clear(task_id)

    def _unappealed(self) -> None:
        task_id, case_id = self._decided()
        case = self._case(case_id)
        assert case is not None, "a case that is decided waits for an appeal"
        self.world.blocks(case.appealable_until - self.world.height)
        self.found.hooks("a case ends, five judges and a liar")
        self.world.block()
        self.tasks.clear(task_id)

    def _decided(self) -> tuple[bytes, bytes]:
        """Return a task, and its case, in which a committee found the provider at fault after a pair that differed."""
        tasks = self.tasks
        task_id = tasks.disputed(1)
        tasks.each(task_id, partial(tasks.show, task_id))
        case_id = slot_case(task_id, 0)
        self._hear(case_id, BenchKind.PAIR, (GIVEN, OTHER))
        self._hear(case_id, BenchKind.COMMITTEE, (OTHER,))
        self._until(case_id, lambda case: case.stage is CaseStage.APPEALABLE)
        return task_id, case_id

    def _appealed(self, case_id: bytes, appellant: Actor) -> None:
        """Measure an appeal with the most candidates to look at, as if hardly any could take a seat."""
        world = self.world
        seats = world.now()[Courts].court_seats
        world.block(partial(_seat, case_id, VALIDATORS))
        self.found.call(appellant.provider, Courts.appeal(case_id=case_id))
        world.block(partial(_seat, case_id, seats))
        world.block(signed(appellant.provider, Courts.appeal(case_id=case_id)))

    def _court(self, case_id: bytes) -> None:
        """Draw and hear a court. Half of its judges do not open, and the others reverse the verdict."""
        world, found = self.world, self.found
        world.blocks(DRAW_BLOCKS)
        found.hooks("a court drawn")
        judges, last = self._hear(case_id, BenchKind.COURT, (GIVEN,), but_last=True)
        silent = judges[: len(judges) // 2]
        world.block(last, partial(_silence, case_id, silent))
        found.hooks(f"a case ends, {len(judges)} judges of a court, half of them silent")
        world.block()
        if self._case(case_id) is not None:
            raise RuntimeError("the court has not ended the case")

    def _hear(
        self, case_id: bytes, kind: BenchKind, said: Iterable[Statement], *, but_last: bool = False
    ) -> tuple[list[Actor], Callable[[Bound], None]]:
        """Have a bench commit and open. Measure its last commitment and its last opinion."""
        world = self.world
        case = self._until(case_id, lambda case: bool(case.benches) and sitting(case).kind == kind)
        judges = [world.by_stash[member] for member in sitting(case).members]
        spoken = list(zip(judges, cycle(said), strict=False))
        self._each([(judge, self._commit(judge, case_id, kind, says)) for judge, says in spoken])()
        self._until(case_id, lambda case: case.round is not None and 0 < case.round.reveals_from <= world.height + 1)
        opens = [
            (judge, Courts.open_opinion(case_id=case_id, statement=says, salt=judge.stash)) for judge, says in spoken
        ]
        last = self._each(opens)
        if not but_last:
            last()
        return judges, signed(opens[-1][0].provider, opens[-1][1])

    def _each(self, calls: list[tuple[Actor, Call]]) -> Callable[[], None]:
        """Make all calls except the last, and measure the last. Return a function that makes it too."""
        *others, (judge, last) = calls
        self.world.block(*(signed(other.provider, call) for other, call in others))
        self.found.call(judge.provider, last)
        return lambda: self.world.block(signed(judge.provider, last))

    def _commit(self, judge: Actor, case_id: bytes, kind: BenchKind, says: Statement) -> Call:
        sealed = opinion_commitment(self.world.genesis, case_id, kind, judge.stash, says, judge.stash)
        return Courts.commit_opinion(case_id=case_id, commitment=sealed)

    def _case(self, case_id: bytes) -> CourtCase | None:
        return self.world.now()[Courts].cases[case_id]

    def _until(self, case_id: bytes, holds: Callable[[CourtCase], bool]) -> CourtCase:
        for _ in range(STAGE_BLOCKS_MAX):
            case = self._case(case_id)
            if case is not None and holds(case):
                return case
            self.world.block()
        raise RuntimeError("the case does not go on")


def _seat(case_id: bytes, seats: int, bound: Bound) -> None:
    """Give the court of a case this number of seats."""
    case = bound[Courts].cases[case_id]
    assert case is not None, "a case that is open"
    bound[Courts].cases[case_id] = replace(case, rules=replace(case.rules, court_seats=seats))


def _silence(case_id: bytes, judges: Iterable[Actor], bound: Bound) -> None:
    """Remove these judges' opinions, as if they had not opened."""
    seats = bound[Courts].seats
    for judge in judges:
        seat = seats[judge.stash, case_id]
        assert seat is not None, "a judge has a seat"
        seats[judge.stash, case_id] = replace(seat, statement=None)
