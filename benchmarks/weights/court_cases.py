"""The calls of the courts at their worst: a dispute of a race of eight with seven liars, decided and appealed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.weights.actors import RACED, Actor
from benchmarks.weights.findings import Findings
from benchmarks.weights.races import Races, attach
from benchmarks.weights.world import VALIDATORS, World, made
from gpu_tasks.market.courts.cases import CaseStage, CourtCase, sitting
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Statement, opinion_commitment
from gpu_tasks.market.inference.units import RACERS_MAX
from runtime.frame.call import Call
from runtime.frame.runtime import Bound

LIARS = RACERS_MAX - 1
STAGE_BLOCKS_MAX = 120
SAID = Statement(Answered(b"R" * 32), b"p" * 32)


class CourtCalls:
    """The calls of Courts."""

    def __init__(self, world: World, found: Findings, races: Races) -> None:
        self.world, self.found, self.races = world, found, races

    def measure(self) -> None:
        """A judge who is the last to commit, then the last to open, and a liar who appeals."""
        world, found = self.world, self.found
        unit = self._disputed()
        judges = self._judges(unit)
        commits = [(judge, self._commit(judge, unit)) for judge in judges]
        world.block(*(made(judge.provider, call) for judge, call in commits[:-1]))
        last, call = commits[-1]
        found.call(last.provider, call)
        world.block(made(last.provider, call))
        self._until(unit, lambda case: case.round is not None and 0 < case.round.reveals_from <= world.height + 1)
        opens = [(judge, Courts.open_opinion(case=unit, statement=SAID, salt=judge.stash)) for judge in judges]
        world.block(*(made(judge.provider, call) for judge, call in opens[:-1]))
        last, call = opens[-1]
        found.call(last.provider, call)
        world.block(made(last.provider, call))
        self._until(unit, lambda case: case.stage is CaseStage.APPEALABLE)
        world.block(partial(_seat_everybody, unit))
        liar = self.races.racers(unit)[-1]
        found.call(liar.provider, Courts.appeal(case=unit))
        self.races.wake_devices()

    def _disputed(self) -> bytes:
        races, world = self.races, self.world
        (unit,) = races.drawn(RACED, 1)
        world.block(*races.commits([unit], liars=LIARS))
        world.blocks(2)
        world.block(attach(races.reveals([unit], 0, RACERS_MAX, LIARS)))
        return unit

    def _judges(self, unit: bytes) -> list[Actor]:
        case = self._until(unit, lambda case: case.stage is CaseStage.COMMITTEE and bool(case.benches))
        return [self.world.by_stash[member] for member in sitting(case).members]

    def _commit(self, judge: Actor, unit: bytes) -> Call:
        case = self._case(unit)
        assert case is not None, "a case that is open"
        sealed = opinion_commitment(self.world.genesis, unit, sitting(case).kind, judge.stash, SAID, judge.stash)
        return Courts.commit_opinion(case=unit, commitment=sealed)

    def _case(self, unit: bytes) -> CourtCase | None:
        return self.world.now()[Courts].cases[unit]

    def _until(self, unit: bytes, holds: Callable[[CourtCase], bool]) -> CourtCase:
        for _ in range(STAGE_BLOCKS_MAX):
            case = self._case(unit)
            if case is not None and holds(case):
                return case
            self.world.block()
        raise RuntimeError("the case does not go on")


def _seat_everybody(unit: bytes, bound: Bound) -> None:
    """A court as large as the set: whoever appeals has all looked at, as where hardly anybody can stand for a seat."""
    case = bound[Courts].cases[unit]
    assert case is not None, "a case that is open"
    bound[Courts].cases[unit] = replace(case, rules=replace(case.rules, court_seats=VALIDATORS))
