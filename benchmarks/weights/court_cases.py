"""The calls and the hook of the courts at their worst: eight parties, all at fault, before every kind of bench.

In the unit, one racer reveals and seven do not. A pair disagrees about it, a committee of three decides, a party
appeals, and a court of the largest size finds all parties at fault.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import cycle

from benchmarks.weights.actors import RACED, Actor
from benchmarks.weights.races import DRAW_BLOCKS, RIGHT, MarketCases, answer, attach
from benchmarks.weights.world import VALIDATORS
from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseStage, CourtCase, sitting
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Statement, opinion_commitment
from gpu_tasks.market.inference.units import UnitState
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from simulation.chains.market_chain import signed

STAGE_BLOCKS_MAX = 120
GIVEN = Statement(Answered(batch_root(answer(RIGHT))), b"p" * 32)
OTHER = Statement(Answered(b"Q" * 32), b"p" * 32)


class CourtCalls(MarketCases):
    """The calls of Courts, and its hook at the end of a case."""

    def measure(self) -> None:
        """Measure a case that ends without an appeal, and a case that a court ends."""
        self._unappealed()
        unit, appellant = self._decided()
        self._appealed(unit, appellant)
        self._court(unit)
        self.races.wake_devices()
        if self.world.unit(unit).state is UnitState.QUEUED:
            self.races.abandon([unit])

    def _unappealed(self) -> None:
        unit, _ = self._decided()
        case = self._case(unit)
        assert case is not None, "a case that is decided waits for an appeal"
        self.world.blocks(case.appealable_until - self.world.height)
        self.found.hooks("a case ends, five judges and seven at fault")
        self.world.block()
        self.races.wake_devices()

    def _decided(self) -> tuple[bytes, Actor]:
        """Return a case decided by a committee after a pair that differed, and a party that it found at fault."""
        races, world = self.races, self.world
        (unit,) = races.drawn(RACED, 1)
        racers = races.racers(unit)
        world.block(*races.commits([unit]))
        world.blocks(2)
        world.block(attach(races.reveals([unit], 0, 1)))
        world.blocks(races.reveal_deadline(unit) - world.height + 1)
        self._hear(unit, BenchKind.PAIR, (GIVEN, OTHER))
        self._hear(unit, BenchKind.COMMITTEE, (GIVEN,))
        self._until(unit, lambda case: case.stage is CaseStage.APPEALABLE)
        return unit, racers[-1]

    def _appealed(self, unit: bytes, appellant: Actor) -> None:
        """Measure an appeal with the most candidates to look at, as if hardly any could take a seat."""
        world = self.world
        seats = world.now()[Courts].court_seats
        world.block(partial(_seat, unit, VALIDATORS))
        self.found.call(appellant.provider, Courts.appeal(case_id=unit))
        world.block(partial(_seat, unit, seats))
        world.block(signed(appellant.provider, Courts.appeal(case_id=unit)))

    def _court(self, unit: bytes) -> None:
        """Draw and hear a court. Half of its judges do not open, and the others reverse the verdict."""
        world, found = self.world, self.found
        world.blocks(DRAW_BLOCKS)
        found.hooks("a court drawn")
        judges, last = self._hear(unit, BenchKind.COURT, (OTHER,), but_last=True)
        silent = judges[: len(judges) // 2]
        world.block(last, partial(_silence, unit, silent))
        found.hooks(f"a case ends, {len(judges)} judges of a court, half of them silent, and eight at fault")
        world.block()
        if self._case(unit) is not None:
            raise RuntimeError("the court has not ended the case")

    def _hear(
        self, unit: bytes, kind: BenchKind, said: Iterable[Statement], *, but_last: bool = False
    ) -> tuple[list[Actor], Callable[[Bound], None]]:
        """Have a bench commit and open. Measure its last commitment and its last opinion."""
        world = self.world
        case = self._until(unit, lambda case: bool(case.benches) and sitting(case).kind == kind)
        judges = [world.by_stash[member] for member in sitting(case).members]
        spoken = list(zip(judges, cycle(said), strict=False))
        self._each([(judge, self._commit(judge, unit, kind, says)) for judge, says in spoken])()
        self._until(unit, lambda case: case.round is not None and 0 < case.round.reveals_from <= world.height + 1)
        opens = [(judge, Courts.open_opinion(case_id=unit, statement=says, salt=judge.stash)) for judge, says in spoken]
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

    def _commit(self, judge: Actor, unit: bytes, kind: BenchKind, says: Statement) -> Call:
        sealed = opinion_commitment(self.world.genesis, unit, kind, judge.stash, says, judge.stash)
        return Courts.commit_opinion(case_id=unit, commitment=sealed)

    def _case(self, unit: bytes) -> CourtCase | None:
        return self.world.now()[Courts].cases[unit]

    def _until(self, unit: bytes, holds: Callable[[CourtCase], bool]) -> CourtCase:
        for _ in range(STAGE_BLOCKS_MAX):
            case = self._case(unit)
            if case is not None and holds(case):
                return case
            self.world.block()
        raise RuntimeError("the case does not go on")


def _seat(unit: bytes, seats: int, bound: Bound) -> None:
    """Give the court of a case this number of seats."""
    case = bound[Courts].cases[unit]
    assert case is not None, "a case that is open"
    bound[Courts].cases[unit] = replace(case, rules=replace(case.rules, court_seats=seats))


def _silence(unit: bytes, judges: Iterable[Actor], bound: Bound) -> None:
    """Remove these judges' opinions, as if they had not opened."""
    seats = bound[Courts].seats
    for judge in judges:
        seat = seats[judge.stash, unit]
        assert seat is not None, "a judge has a seat"
        seats[judge.stash, unit] = replace(seat, statement=None)
