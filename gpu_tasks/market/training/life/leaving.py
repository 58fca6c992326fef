"""Changes of mind: cancelled, stopped and amended tasks, and ends that both sides have signed.

Invariants: before the award, only the customer loses anything. Afterwards it loses its bond, half of it to the
provider. No amendment takes anything from a provider, or changes the meaning of a bid.
"""

from dataclasses import replace
from typing import Annotated

from gpu_tasks.market.training import purses
from gpu_tasks.market.training.events import (
    CloseOffered,
    DoneAlready,
    NoCloseOffer,
    NotSlotOwner,
    TaskAmended,
    UnsoundAmendment,
    WrongTaskState,
)
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.life.running import silent_until
from gpu_tasks.market.training.life.submitting import BLOCKS_MAX, raise_price
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import is_by_time, is_replicated
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import CloseOffer, Task, TaskState, has_bidding, paid_blocks
from runtime.encoding.codec import Tagged, variant
from runtime.encoding.types import CAP_GRAINS, Balance, BlockNumber
from runtime.frame.pallet import ensure, known


@variant(0)
class RaisePrice:
    """A higher greatest price for each slot, before the first bid."""

    price_max: Balance


@variant(1)
class MoreBlocks:
    """More promised blocks for every working provider."""

    blocks: BlockNumber


@variant(2)
class Stop:
    """Stop a running task: the elapsed part is paid, or for bought time the whole current interval."""


Amendment = Annotated[RaisePrice | MoreBlocks | Stop, Tagged("ogpu::TaskAmendment")]


def cancel(market: TrainingStorage, task_id: bytes, customer: bytes) -> None:
    """Cancel a task that has not begun to run."""
    task = market.customers(task_id, customer)
    if has_bidding(task) or task.state is TaskState.ASKING:
        _settle_all_slots(market, task_id, task, TaskOutcome.CANCELLED_BEFORE_AWARD)
    else:
        ensure(task.state in (TaskState.STARTING, TaskState.VOLUNTEERING), WrongTaskState)
        _settle_all_slots(market, task_id, task, TaskOutcome.CANCELLED_BEFORE_START)


def amend(market: TrainingStorage, task_id: bytes, customer: bytes, amendment: RaisePrice | MoreBlocks | Stop) -> None:
    """Raise the price before the first bid, give a running task more blocks, or stop it."""
    task = market.customers(task_id, customer)
    if isinstance(amendment, RaisePrice):
        market.ensure_in(task, TaskState.COMMITTING)
        ensure(not task.bids and task.terms.price_max < amendment.price_max <= CAP_GRAINS, UnsoundAmendment)
        task = raise_price(market, task_id, task, amendment.price_max)
        # Bidders get a full window for the new price.
        market.put(task_id, replace(task, deadline=market.height + task.windows.commit))
        market.emit(TaskAmended(task_id, amendment.price_max, 0))
        return
    market.ensure_in(task, TaskState.RUNNING)
    if isinstance(amendment, Stop) and is_by_time(task.order):
        _settle_all_slots(market, task_id, task, TaskOutcome.TIME_STOPPED, due_blocks=paid_blocks(task, task.owed + 1))
        return
    # More bought time would cost more, and replicas must all promise the same.
    is_fixed = is_by_time(task.order) or is_replicated(task.order)
    ensure(not is_fixed or isinstance(amendment, Stop), UnsoundAmendment)
    if isinstance(amendment, Stop):
        _settle_all_slots(market, task_id, task, TaskOutcome.CANCELLED_RUNNING)
        return
    extended_slots = tuple(
        replace(slot, promised=slot.promised + amendment.blocks, added=slot.added + amendment.blocks)
        for slot in task.slots
    )
    # In a gang no provider can end the task alone. Unlimited blocks would bind it beside a dead partner for
    # as long as the customer likes.
    most_blocks = BLOCKS_MAX if len(extended_slots) == 1 else task.terms.blocks_max
    ensure(amendment.blocks > 0 and all(slot.promised <= most_blocks for slot in extended_slots), UnsoundAmendment)
    task = replace(task, slots=extended_slots)
    # The runner-up did not offer to stand by for this long.
    if any(slot.promised > task.terms.blocks_max for slot in extended_slots):
        task = ending.release_standby(market, task_id, task)
    market.put(task_id, replace(task, deadline=silent_until(task)))
    market.emit(TaskAmended(task_id, task.terms.price_max, amendment.blocks))


def close(market: TrainingStorage, task_id: bytes, account: bytes, agreed_pay: int, agreed_back: int) -> None:
    """Offer a different end as the customer, or sign the offered one as a slot's stash.

    The last signature ends the task.
    """
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.STARTING, TaskState.RUNNING)
    ensure(not is_replicated(task.order), WrongTaskState)
    if account == task.customer:
        ensure(agreed_pay <= min(purses.unpaid(task, slot) for slot in task.slots), UnsoundAmendment)
        ensure(agreed_back <= min(slot.collateral for slot in task.slots), UnsoundAmendment)
        market.put(task_id, replace(task, close=CloseOffer(agreed_pay, agreed_back)))
        market.emit(CloseOffered(task_id, agreed_pay, agreed_back))
        return
    places = [place for place, slot in enumerate(task.slots) if slot.provider == account]
    ensure(bool(places), NotSlotOwner)
    close_offer = known(task.close, NoCloseOffer)
    ensure((close_offer.pay, close_offer.back) == (agreed_pay, agreed_back), NoCloseOffer)
    signer_bits = sum(1 << place for place in places)
    ensure(close_offer.signed & signer_bits == 0, DoneAlready)
    close_offer = replace(close_offer, signed=close_offer.signed | signer_bits)
    if close_offer.signed == (1 << len(task.slots)) - 1:
        _settle_all_slots(market, task_id, task, TaskOutcome.CLOSED, agreed_pay=agreed_pay, agreed_back=agreed_back)
    else:
        market.put(task_id, replace(task, close=close_offer))


def _settle_all_slots(
    market: TrainingStorage,
    task_id: bytes,
    task: Task,
    outcome: TaskOutcome,
    *,
    agreed_pay: int = 0,
    agreed_back: int = 0,
    due_blocks: int = 0,
) -> None:
    """End every slot with the same outcome, and the task."""
    if not task.slots:
        for place in range(task.terms.slots):
            purses.burn_for_cancelling(market, task_id, task, place)
    for place, slot in enumerate(task.slots):
        # A replica that failed earlier was settled then.
        if slot.outcome is not None:
            continue
        purses.settle(
            market, task_id, task, place, outcome, agreed_pay=agreed_pay, agreed_back=agreed_back, due=due_blocks
        )
        # It took over and has not started, so its pay for standing by is still due.
        if slot.was_standby:
            purses.pay_standby(market, task_id, task, place, slot.provider, slot.price)
    task = ending.release_standby(market, task_id, task)
    ending.free_slots(market, task_id, task)
    ending.end(market, task_id, task, outcome)
