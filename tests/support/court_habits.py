"""Judges with habits, and a court test's questions: gains, seats, a case at its appeal or audit."""

from collections.abc import Callable
from typing import Any

from gpu_tasks.market.courts.benches import BenchKind
from gpu_tasks.market.courts.cases import CaseStage, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.events import BenchDrawn
from gpu_tasks.market.courts.money import case_collateral
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from runtime.pallets.balances import Balances
from simulation.chains.court_chain import PRICE, RIGHT, WRONG, CourtChain, Policy, Says, honest
from simulation.chains.market_chain import CUSTOMER, Keys, signed

FEE = PRICE // 2
COLLATERAL = SEAT = case_collateral(PRICE, 50_000, FEE)
"""At the usual rate a seat costs this much. Forty fees are less."""
SEATS = 3
ALWAYS = {"Courts.audit_rate_ppm": 1_000_000}
"""The audit rate of every result: one of the first four beacons audits all but (3/4)^4 of them."""


def by_bench(**said: Says) -> Policy:
    """A policy for each kind of bench, honest on the others."""

    def policy(keys: Keys, case: CourtCase, bench: int) -> Says:
        return said.get(BenchKind(bench).name.lower(), honest(keys, case, bench))

    return policy


LIES, SILENT, HIDES = Says(Answered(WRONG)), Says(None), Says(Answered(RIGHT), is_opened=False)
INPUT_BAD = Says(Unanswerable())


def split(keys: Keys, case: CourtCase, bench: int) -> Says:
    """Split a committee into three opinions, with an honest court."""
    if bench != BenchKind.COMMITTEE:
        return honest(keys, case, bench)
    place = case.benches[-1].members.index(keys.stash)
    return (Says(Answered(RIGHT)), LIES, INPUT_BAD)[place]


def first_lies(keys: Keys, case: CourtCase, bench: int) -> Says:
    """Let the first judge of each bench except the court lie."""
    is_first = case.benches[-1].members[0] == keys.stash
    return LIES if is_first and bench != BenchKind.COURT else Says(Answered(RIGHT))


def gains(stage: CourtChain, act: Callable[[], object]) -> dict[bytes, int]:
    """Return each account's change in money, held or free, by an act."""
    everybody = [keys.stash for keys in (*stage.chain.validators, *stage.chain.others)] + [CUSTOMER.stash]

    def owned() -> dict[bytes, int]:
        balances = stage.chain.now()[Balances]
        return {who: balances.free_balance(who) + balances.reserved_balance(who) for who in everybody}

    before = owned()
    act()
    after = owned()
    return {who: after[who] - before[who] for who in everybody if after[who] != before[who]}


def judges(stage: CourtChain, kind: BenchKind = BenchKind.COMMITTEE) -> tuple[bytes, ...]:
    """Return the judges of the first bench of a kind."""
    return next(event.judges for event in stage.chain.happened(BenchDrawn) if event.bench == kind)


def appealed(stage: CourtChain, case_id: bytes, appellant: Keys) -> None:
    """Return a case with an appealed verdict."""
    stage.run(case_id, until=CaseStage.APPEALABLE)
    stage.chain.block(signed(appellant.stash, Courts.appeal(case_id=case_id)))


def audited(
    policy: Policy = honest, *, settled: bytes = RIGHT, size: int = 9, court_seats: int = 33, **changed: Any
) -> tuple[CourtChain, bytes]:
    """Return a case that the beacon audits, with some of its terms changed."""
    for seed in range(1, 40):
        constants = {**ALWAYS, "Courts.court_seats": court_seats}
        stage = CourtChain(size=size, policy=policy, constants=constants, seed=seed)
        case_id = stage.audit(settled, **changed)
        stage.chain.blocks(7)
        if stage.case(case_id) is not None:
            return stage, case_id
    raise AssertionError("no audit in forty")
