"""Tasks with claimed results, checkers and voters that act, and a look for anything left of an ended task."""

from typing import Any

from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training.tasks import TASK_BOND, TASK_ESCROW, TaskState, slot_case
from gpu_tasks.market.training.terms import SLOTS_MAX
from runtime.frame.holds import Hold
from simulation.chains.dispute_chain import VoteOf, voter_steps
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys
from task_chain import PRICE, RIGHT, Books, TaskChain, awarded
from unit_cases import checker_steps

ALWAYS = {"TrainingMarket.check_rate": 1_000_000, "Beacon.epoch_blocks": 1_000}
"""No era ends meanwhile, so nobody is paid anything else."""
PAID = 7 * OGPU
STOOD_BY = PAID // 50
FEE = PAID * 6 // 5
"""The fee of a check, and of a voter."""
K = 18 * PRICE * 6 // 5
"""The part of the collateral that secures a claim: the fees of eighteen voters, by the greatest price."""


def claimed(
    size: int = 14, constants: dict[str, Any] | None = None, root: bytes = RIGHT, **order: object
) -> tuple[TaskChain, Books]:
    """Return a task of Alice's with an open claim, which is always checked. Her collateral is the least."""
    chain, books = awarded(size=size, constants={**ALWAYS, **(constants or {})}, bids={"collateral": K}, **order)
    chain.start(chain.alice)
    chain.finish(chain.alice, root=root)
    chain.block()
    return chain, books


def end(chain: TaskChain, verdict: Verdict = Verdict.RIGHT, vote: VoteOf = lambda _: None, blocks: int = 600) -> None:
    """Let checkers with this verdict check all claims, and voters vote, until the task has ended."""
    for _ in range(blocks):
        if chain.state() is TaskState.ENDED:
            return
        chain.block(*checker_steps(chain.chain, verdict), *voter_steps(chain.chain, vote))
    raise AssertionError(f"the task stays in {chain.state()!r}")


def is_clean(chain: TaskChain) -> bool:
    """Return True if no claim, dispute, duty or device is left of the task."""
    market, room = chain.market, chain.chain.now()
    left = (
        market.task_of_claim,
        market.task_of_dispute,
        market.duties,
        room[ResultClaims].claims,
        room[Disputes].disputes,
    )
    held = [chain.market.lock.locked(CUSTOMER.stash, Hold(why, slot_case(chain.task, place)))
            for why in (TASK_ESCROW, TASK_BOND) for place in range(SLOTS_MAX)]  # fmt: skip
    return not any(list(each.items()) for each in left) and not any(held) and all(map(chain.is_idle, chain.keys))


def gang(
    size: int = 20,
    roots: tuple[bytes, ...] = (RIGHT, RIGHT),
    constants: dict[str, Any] | None = None,
    **order: object,
) -> tuple[TaskChain, Books, list[Keys]]:
    """Return a gang at the price of the next bid, which has stated these results. Another one stands by."""
    slots = len(roots)
    prices = [*(5 * OGPU + place * OGPU // 10 for place in range(slots)), PAID, PAID]
    numbers = {**ALWAYS, **(constants or {})}
    chain, books = awarded(
        *prices, size=size, constants=numbers, bids={"collateral": K}, slots=slots, milestones=1, **order
    )
    chain.start_all()
    whose = chain.providers()
    for place, (keys, root) in enumerate(zip(whose, roots, strict=True)):
        chain.finish(keys, place, root)
    return chain, books, whose
