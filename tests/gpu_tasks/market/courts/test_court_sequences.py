"""Many cases at once with random judges: each ends, and the books balance after every block."""

import random
from collections import Counter

import pytest

from gpu_tasks.market.courts.cases import CaseStage, ClaimKind, CourtCase
from gpu_tasks.market.courts.courts import CASES_BUDGET, Courts
from gpu_tasks.market.courts.hearing import FEW_WEIGHT
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.court_chain import PRICE, RIGHT, WRONG, CourtChain, Says, Toys
from simulation.chains.market_chain import CUSTOMER, Keys, signed, tolerant

ROOTS = (RIGHT, RIGHT, RIGHT, WRONG, b"x" * 32)


class Crowd:
    """Judges, parties and appellants with random steps. A judge keeps its opinion within a case."""

    def __init__(self, seed: int, size: int) -> None:
        self.chance = random.Random(seed)
        self.stage = CourtChain(
            size=size,
            policy=self.says,
            seed=seed,
            constants={"Courts.audit_rate_ppm": 800_000, "Courts.court_seats": self.chance.choice([3, 5, 33])},
        )

    def says(self, keys: Keys, case: CourtCase, bench: int) -> Says:
        """Return an opinion by hash, so that commit and opening agree. Some never open."""
        root = blake2_256(keys.stash + case.recorded_at.to_bytes(4, "little") + bytes((bench,)))
        if root[0] < 40:
            return Says(None)
        said = Unanswerable() if root[1] < 40 else Answered(ROOTS[root[2] % len(ROOTS)])
        return Says(said, is_opened=root[3] > 30, doubted=root[4] & 0b11111 if root[5] < 60 else 0)

    def act(self) -> None:
        """Act in one block."""
        steps = [tolerant(step) for step in self.stage.steps()]
        courts = self.stage.chain.now()[Courts]
        for case_id, case in courts.cases.items():
            assert case is not None
            if case.stage is CaseStage.APPEALABLE and self.chance.random() < 0.05:
                who = self.chance.choice([*self.stage.racers, *self.stage.chain.validators, CUSTOMER])
                steps.append(tolerant(signed(who.stash, Courts.appeal(case_id=case_id))))
            if self.chance.random() < 0.02:
                party, root = self.chance.choice(self.stage.racers).stash, self.chance.choice(ROOTS)
                steps.append(tolerant(lambda bound, c=case_id, p=party, r=root: bound[Courts].open_late(c, p, r)))  # type: ignore[misc]  # a step with its values
        self.stage.chain.block(*steps)

    def bring(self) -> None:
        """Open a dispute or a watch, with parties in any state."""
        kinds = [self.chance.choice(list(ClaimKind)) for _ in self.stage.racers]
        claims = [
            (keys.stash, kind, self.chance.choice(ROOTS) if kind is ClaimKind.ANSWERED else None)
            for keys, kind in zip(self.stage.racers, kinds, strict=True)
        ]
        settled = self.chance.choice(ROOTS)
        if self.chance.random() < 0.4:
            self.stage.bring([(self.stage.racers[0].stash, ClaimKind.ANSWERED, settled)], settled=settled)
        else:
            self.stage.bring(claims, price=self.chance.choice([1, PRICE // 7, PRICE]))


@pytest.mark.parametrize(("seed", "size"), [(1, 2), (2, 4), (3, 5), (4, 7), (5, 9), (6, 12)])
def test_every_case_ends_and_every_grain_is_in_its_place(seed: int, size: int) -> None:
    crowd = Crowd(seed, size)
    brought = 0
    for _ in range(150):
        if brought < 25 and crowd.chance.random() < 0.3:
            crowd.bring()
            brought += 1
        crowd.act()
    for _ in range(250):
        if not list(crowd.stage.chain.now()[Courts].cases.items()):
            break
        crowd.act()
    bound = crowd.stage.chain.now()
    assert not list(bound[Courts].cases.items())
    assert not list(bound[Courts].seats.items())
    endings = Counter(CaseOutcome(ending) for _, ending in bound[Toys].endings.items() if ending is not None)
    assert endings.total() == brought
    assert len(endings) >= 3, "chance reaches several outcomes"


def test_a_backlog_costs_no_block_more_than_its_budget_and_is_worked_off() -> None:
    stage = CourtChain(size=5)
    stage.chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, stage.racers[0].stash, 1_000 * PRICE))
    count = 60
    ids = [blake2_256(bytes((number,))) for number in range(count)]

    def flood(bound: Bound) -> None:
        toys = bound[Toys]
        terms = toys.terms(CUSTOMER.stash, 1_000, [(stage.racers[0].stash, ClaimKind.ANSWERED, WRONG)])
        for case_id in ids:
            toys.bring(case_id, terms)

    stage.chain.block(flood)
    most = CASES_BUDGET.ref_time // FEW_WEIGHT.ref_time + 1
    left = count
    for _ in range(60):
        bound = stage.chain.block()
        undrawn = sum(1 for _, case in bound[Courts].cases.items() if case is not None and not case.benches)
        assert left - undrawn <= most
        left = undrawn
    assert left == 0


def test_equal_seeds_give_equal_states() -> None:
    states = []
    for _ in range(2):
        crowd = Crowd(9, 7)
        crowd.bring()
        for _ in range(40):
            crowd.act()
        states.append(crowd.stage.chain.state.values)
    assert states[0] == states[1]
