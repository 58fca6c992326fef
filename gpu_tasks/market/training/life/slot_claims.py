"""The claims of slots: the market as a handler of ResultClaims.

Invariants: a claim has the id of its slot (`slot_case`), and a slot has at most one claim. While it is open, the
customer holds the escrow of the slot, and its provider the collateral. Each slot settles when its claim is over.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimTerms
from gpu_tasks.market.claims.collateral import ALWAYS_PPM, CLAIM_POINTS_MAX, item_rate
from gpu_tasks.market.claims.draws import ITEM_WEIGHT
from gpu_tasks.market.training import money, purses
from gpu_tasks.market.training.events import ResultsClaimed
from gpu_tasks.market.training.items import items_of
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import TASK_ESCROW, Slot, Task, TaskState, slot_case
from runtime.frame.holds import Hold
from runtime.pallets.staking.slashing import Share


def await_claims(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Let the providers claim their pay for results that no partner contradicts. The customer can read them at once."""
    # The next block's hook opens the claims: the call would otherwise weigh as much.
    market.put(task_id, replace(task, state=TaskState.CLAIMED, deadline=market.height))


def step(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Open a claim for each slot without an outcome, or end the task if all slots are settled."""
    places = [place for place, slot in enumerate(task.slots) if slot.outcome is None]
    if not places:
        outcome = task.slots[0].outcome
        assert outcome is not None, "all slots have outcomes"
        ending.end(market, task_id, task, outcome)
        return
    market.put(task_id, replace(task, state=TaskState.CLAIMED, deadline=0, open_claims=len(places)))
    market.emit(ResultsClaimed(task_id, len(places)))
    for place in places:
        claim_id = slot_case(task_id, place)
        # ResultClaims knows a claim by its id alone.
        market.task_of_claim[claim_id] = task_id
        market.result_claims.open(claim_id, _terms(market, task, task.slots[place]))


def outside(task: Task, *parties: bytes) -> tuple[bytes, ...]:
    """Return the providers, beside the parties, that have a part in the task: they neither check nor vote."""
    standby = () if task.standby is None else (task.standby.provider,)
    providers = dict.fromkeys((*(slot.provider for slot in task.slots), *standby))
    return tuple(provider for provider in providers if provider not in parties)


# ---------------------------------------------------------------------------------------------- handler of ResultClaims


def charge_provider(market: TrainingStorage, claim_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the collateral of a slot."""
    task_id, task, place = market.claimed_slot(claim_id)
    slot = task.slots[place]
    market.lock.pay_out(slot.provider, purses.slot_hold(task_id, task, slot), shares)


def charge_customer(market: TrainingStorage, claim_id: bytes, shares: Sequence[Share]) -> None:
    """Pay the shares out of the customer's escrow for a slot."""
    _, task, _ = market.claimed_slot(claim_id)
    market.lock.pay_out(task.customer, Hold(TASK_ESCROW, claim_id), shares)


def conclude(market: TrainingStorage, claim_id: bytes, outcome: ClaimOutcome) -> None:
    """Settle the slot of a claim that is over. After the last one, the task ends in the next block."""
    task_id, task, place = market.claimed_slot(claim_id)
    del market.task_of_claim[claim_id]
    task = ending.settle_slot(market, task_id, task, place, _slot_outcome(task.slots[place], outcome))
    task = replace(task, open_claims=task.open_claims - 1)
    # The end of a gang would weigh many times the end of its last claim.
    market.put(task_id, task if task.open_claims else replace(task, deadline=market.height))


def _slot_outcome(slot: Slot, outcome: ClaimOutcome) -> TaskOutcome:
    if outcome is ClaimOutcome.PASSED:
        return TaskOutcome.LATE if slot.taken > slot.promised else TaskOutcome.ON_TIME
    return TaskOutcome.LIED if outcome is ClaimOutcome.REFUTED else TaskOutcome.UNDECIDED


def _terms(market: TrainingStorage, task: Task, slot: Slot) -> ClaimTerms:
    assert slot.result is not None, "a claimed slot has a result"
    rules, items = task.rules, items_of(task.order, task.behind)
    rate_ppm, collateral = _secured(task, slot, items)
    return ClaimTerms(
        handler=market.index,
        provider=slot.provider,
        customer=task.customer,
        root=slot.result.root,
        items=items,
        weight=items * ITEM_WEIGHT,
        item_weight_max=ITEM_WEIGHT,
        price=slot.price,
        collateral=collateral,
        rate_ppm=item_rate(items, rate_ppm),
        check_ppm=rules.check_ppm,
        fee_min=rules.check_fee_min,
        fees_held=money.check_fees_max(rules, slot.price, items),
        sealed_at=task.order.sealed_at,
        # A checker computes five segments at most, so the window follows their share of the whole.
        run_blocks=-(-task.order.run_blocks * min(items, CLAIM_POINTS_MAX) // max(1, task.order.segments)),
        excluded=outside(task, slot.provider),
    )


def _secured(task: Task, slot: Slot, items: int) -> tuple[int, int]:
    """Return the rate of a slot's claim, and the part of the collateral that secures it.

    A checker locks as much as that part, so no bid and no customer may raise it until only friends can check.
    """
    rules, price_max, rate_ppm = task.rules, task.terms.price_max, task.rules.check_rate_ppm
    needed = money.claim_collateral(rules, price_max, items, rate_ppm)
    if needed <= slot.collateral:
        return rate_ppm, needed
    # A runner-up that takes the rest over locked the collateral of a longer leg, which is surer to be checked.
    # Its price is that of the rest, so its collateral also covers the voters about a few items.
    return ALWAYS_PPM, min(slot.collateral, money.claim_collateral(rules, price_max, items, ALWAYS_PPM))
