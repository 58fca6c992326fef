"""Checks of many batches at once under random calls: each ends, and the books balance."""

import random
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.inference.units import UnitState
from gpu_tasks.market.leaf_checks.checks import CheckOutcome, LeafCheck, LeafStage
from gpu_tasks.market.leaf_checks.events import LeafCheckEnded
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from runtime.cryptography.hashing import blake2_256
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import CUSTOMER, Step, signed, tolerant

BLOCKS_MAX = 600
BATCHES = 3


class Anybody:
    """All accounts, each of which may act rightly or wrongly at random."""

    def __init__(self, seed: int, size: int, silence: float, wrongness: float) -> None:
        self.chance = random.Random(seed)
        self.silence, self.wrongness = silence, wrongness
        rate = self.chance.choice((50_000, 900_000))
        numbers = {"Courts.audit_rate_ppm": rate, "Courts.court_seats": self.chance.choice((3, 33))}
        self.stage = LeafChain(size=size, requests=self.chance.choice((2, 33)), price=10**8, numbers=numbers)
        names = [keys.name for keys in self.stage.chain.validators]
        self.stage.silent = [name for name in names if self.chance.random() < silence / 2]
        wrong = (self.chance.choice(((), (0,), range(self.stage.requests))) for _ in range(BATCHES))
        self.units = [self.stage.settled(wrong=each) for each in wrong]

    def run(self) -> None:
        """Make blocks until no check is left."""
        for _ in range(BLOCKS_MAX):
            checks = [(unit, self.stage.chain.now()[LeafChecks].checks[unit]) for unit in self.units]
            if not any(check for _, check in checks):
                return
            steps = [tolerant(step) for unit, check in checks if check for step in self._acts(unit, check)]
            self.stage.chain.block(*steps, *map(tolerant, self.stage.judge_steps()))
        raise AssertionError("a check without end")

    def _acts(self, unit: bytes, check: LeafCheck) -> Iterator[Step]:
        stage = self.stage
        if check.case is not None and check.case not in stage.said and self._is_wrong():
            root = blake2_256(check.case + bytes((self.chance.randrange(2),)))
            stage.said[check.case] = Unanswerable() if self.chance.random() < 0.2 else Answered(root)
        if self.chance.random() < self.silence:
            return
        if check.stage is LeafStage.SHOWING and not check.shown:
            who = self.chance.choice(stage.answerers(unit))
            yield signed(who.provider, stage.show_call(unit))
        elif check.stage is LeafStage.CHECKING and check.auditor is not None:
            auditor, index = stage.chain.keys_of(check.auditor), self.chance.choice(check.shown).index
            if self._is_wrong():
                yield stage.passes(unit, auditor, b"x" * 32)
            elif self._is_wrong():
                yield stage.doubts(unit, auditor, index, blake2_256(check.auditor))
            else:
                yield stage.doubts(unit, auditor, index, stage.claim(unit, index))
                yield stage.passes(unit, auditor)
        elif check.stage is LeafStage.OPEN and self._is_wrong():
            index = self.chance.randrange(stage.requests)
            found = blake2_256(unit) if self._is_wrong() else stage.claim(unit, index)
            yield signed(CUSTOMER.stash, stage.dispute_call(unit, index, found))

    def _is_wrong(self) -> bool:
        return self.chance.random() < self.wrongness


@settings(max_examples=settings().max_examples // 8, deadline=None)
@given(
    seed=st.integers(0, 2**32), size=st.integers(6, 12), silence=st.sampled_from((0.0, 0.5, 0.95)),
    wrongness=st.sampled_from((0.0, 0.3, 0.7)),
)  # fmt: skip
def test_every_check_ends_and_every_grain_is_in_its_place(
    seed: int, size: int, silence: float, wrongness: float
) -> None:
    crowd = Anybody(seed, size, silence, wrongness)
    crowd.run()
    ended = {event.unit: event.outcome for event in crowd.stage.chain.happened(LeafCheckEnded)}
    assert set(ended) == set(crowd.units)
    room = crowd.stage.chain.now()[LeafChecks]
    assert not list(room.agenda.places.items()) + list(room.final_agenda.places.items()), "what is over is on no agenda"
    for unit, outcome in ended.items():
        record = crowd.stage.unit(unit)
        assert record.state is UnitState.SETTLED
        assert not record.is_watched
        assert record.is_refuted == (outcome in (CheckOutcome.REFUTED, CheckOutcome.WITHHELD))
