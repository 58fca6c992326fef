"""TrainingMarket: bounds of a task's holds, its bound devices, its workers' duties, and its schedule entries.

A task's holds are paid out step by step, so entries state only a maximum. A full count knows each collateral to the
grain, except between a ruling about a task and the next block.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.training import training_market as of_tasks
from gpu_tasks.market.training.bids import DRAWS_FROM, BidOffer, auction_id, bid_case
from gpu_tasks.market.training.life.ending import CLEARED_MAX
from gpu_tasks.market.training.orders import CheckedBy, TaskOrder
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_ESCROW,
    Milestone,
    Slot,
    Task,
    TaskResult,
    TaskState,
    dispute_id_of,
    is_open,
    slot_case,
)
from gpu_tasks.market.training.terms import SLOTS_MAX
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.holds import Hold
from runtime.frame.measured import times
from runtime.frame.runtime import Bound
from runtime.frame.schedule import TAKE_WEIGHT
from runtime.pallets.balances import Balances
from simulation.actors import OGPU, Actor, World, always, one_of
from simulation.books import (
    BROUGHT,
    EVERYBODY,
    LIMITS,
    Books,
    Keys,
    PalletBooks,
    Rule,
    both_or_none,
    claims,
    counts,
    places,
)
from simulation.pallets.devices import BUSY

OPEN_TASKS = Rule("open tasks, and tasks that are open")
ON_SALE = Rule("tasks that take bids, and those listed")
TENDED = Rule("a task that waits for neither claims nor voters, and its next step", both_or_none)
ASKED = Rule("duties of workers, and those listed")
OF_CLAIMS = Rule("slots with open claims, and the tasks of claims")
OF_DISPUTES = Rule("disputed tasks, and the tasks of disputes")
PURSES = (TASK_ESCROW, TASK_BOND)
LOOKED_AT = (TaskState.CLAIMED, TaskState.DISPUTED)
"""The states of tasks with claims or a dispute."""


def _task(books: Books, keys: Keys, task: Any, sign: int) -> None:
    task_id = keys[0]
    books.case(task.customer, Hold(TASK_DEPOSIT, task_id), sign * task.deposit)
    if task.state in (TaskState.COMMITTING, TaskState.REVEALING) or (
        task.state is TaskState.VOLUNTEERING and task.deadline
    ):
        books[ON_SALE].count(task_id, sign)
    # A task needs a schedule entry until its record is dropped. Claims and voters return to it.
    is_brought = task.state in LOOKED_AT and not task.deadline
    if not is_brought:
        books[TENDED].claim(task_id, sign)
    assert bool(task.open_claims) == (is_brought and task.state is TaskState.CLAIMED)
    for place in _claimed(task):
        books[OF_CLAIMS].claim((slot_case(task_id, place), task_id), sign)
    if is_brought and task.state is TaskState.DISPUTED:
        books[OF_DISPUTES].claim((dispute_id_of(task_id, task.disputes - 1), task_id), sign)
    if not is_open(task):
        return
    books[OPEN_TASKS].count(EVERYBODY, sign)
    for place in range(task.terms.slots):
        for reason in PURSES:
            books[LIMITS].claim((task.customer, Hold(reason, slot_case(task_id, place))), sign * CAP_GRAINS)
    for who in {slot.provider for slot in _working(task)} | {worker.provider for worker in _standby(task)}:
        books[ASKED].claim((who, task_id), sign)
    for device in {worker.device for worker in _workers(task)}:
        books[BUSY].count(device, sign)


def _standby(task: Task) -> tuple[Any, ...]:
    return () if task.standby is None else (task.standby,)


def _workers(task: Task) -> tuple[Any, ...]:
    return (*_working(task), *(each for each in _standby(task) if each.is_bound))


def _working(task: Task) -> tuple[Slot, ...]:
    """Return the slots whose providers are not released."""
    is_claimed = task.state is TaskState.CLAIMED
    return tuple(slot for slot in task.slots if not is_claimed or slot.outcome is None)


def _claimed(task: Task) -> tuple[int, ...]:
    """Return the places with open claims."""
    return tuple(place for place, slot in enumerate(task.slots) if task.open_claims and slot.outcome is None)


def _bid(books: Books, keys: Keys, bid: Any, sign: int) -> None:
    """Count the most that a bid locks while its record exists."""
    case = bid_case(*keys)
    if bid.opened is None:
        books[LIMITS].claim((bid.provider, Hold(BID_BOND, case)), sign * bid.bond)
    else:
        books[LIMITS].claim((bid.provider, Hold(TASK_COLLATERAL, case)), sign * bid.opened.collateral)


def _of_claim(books: Books, keys: Keys, task_id: Any, sign: int) -> None:
    books[OF_CLAIMS].count((keys[0], task_id), sign)
    books[BROUGHT].claim(keys[0], sign)


def _of_dispute(books: Books, keys: Keys, task_id: Any, sign: int) -> None:
    books[OF_DISPUTES].count((keys[0], task_id), sign)
    books[BROUGHT].claim(keys[0], sign)


def _check(bound: Bound) -> None:
    """Check tasks' holds to the grain, their bound devices, and their schedule entries."""
    market = bound[TrainingMarket]
    exact: Counter[tuple[bytes, Hold]] = Counter()
    loose: dict[tuple[bytes, Hold], int] = {}
    for task_id, task in market.tasks.items():
        assert task is not None
        exact += _held_for_bids(market, task_id, task)
        if is_open(task):
            _work(market, task_id, task, exact, loose)
            _check_escrow(market, task_id, task)
        else:
            assert not market.final_agenda.places[task_id]
        assert bool(market.agenda.places[task_id]) == bool(task.deadline)
        assert market.agenda.places[task_id] in (0, task.deadline + 1)
    reasons = {BID_BOND, TASK_COLLATERAL}
    held = {key: amount for key, amount in bound[Balances].held_cases.items() if key[1].reason in reasons}
    assert {key: amount for key, amount in held.items() if key not in loose} == {
        key: amount for key, amount in exact.items() if amount
    }
    assert all(held[key] <= loose[key] for key in held.keys() & loose.keys())


def _held_for_bids(market: TrainingMarket, task_id: bytes, task: Task) -> Counter[tuple[bytes, Hold]]:
    held: Counter[tuple[bytes, Hold]] = Counter()
    for number in (*range(1, task.auction + 1), *range(DRAWS_FROM + 1, DRAWS_FROM + task.draws + 1)):
        auction = auction_id(task_id, number)
        for device, _ in market.held_bids.under(auction):
            bid = market.bids[auction, device]
            assert bid is not None
            assert market.devices.devices[device].assignment == task_id  # type: ignore[union-attr]
            case = bid_case(auction, device)
            if bid.opened is None:
                held[bid.provider, Hold(BID_BOND, case)] += bid.bond
            else:
                held[bid.provider, Hold(TASK_COLLATERAL, case)] += bid.opened.collateral
    return held


def _work(
    market: TrainingMarket,
    task_id: bytes,
    task: Task,
    exact: Counter[tuple[bytes, Hold]],
    loose: dict[tuple[bytes, Hold], int],
) -> None:
    for worker in _workers(task):
        assert market.devices.devices[worker.device].assignment == task_id  # type: ignore[union-attr]
        draw = worker.draw if isinstance(worker, Slot) else 0
        auction = auction_id(task_id, DRAWS_FROM + draw if draw else task.auction)
        key = worker.provider, Hold(TASK_COLLATERAL, bid_case(auction, worker.device))
        if isinstance(worker, Slot) and worker.outcome is not None:
            loose[key] = worker.collateral
        else:
            exact[key] += worker.collateral - _charged(market, task_id, task, worker)


def _charged(market: TrainingMarket, task_id: bytes, task: Task, worker: Any) -> int:
    """Return the part of a worker's collateral that its open claim has spent."""
    claims = (claim for place, claim in _open_claims(market, task_id, task) if task.slots[place] is worker)
    return sum(claim.charged for claim in claims)


def _open_claims(market: TrainingMarket, task_id: bytes, task: Task) -> Iterator[tuple[int, ResultClaim]]:
    """Yield the places with open claims, and their claims."""
    for place in _claimed(task):
        claim = market.result_claims.claims[slot_case(task_id, place)]
        assert claim is not None
        yield place, claim


def _check_escrow(market: TrainingMarket, task_id: bytes, task: Task) -> None:
    """Check that the escrow of each claimed slot covers its price and the rest of the money for checks."""
    for place, claim in _open_claims(market, task_id, task):
        escrow = market.lock.locked(task.customer, Hold(TASK_ESCROW, slot_case(task_id, place)))
        assert escrow >= claim.terms.price + claim.terms.fees_held - claim.fees_paid


WORLDS = (
    PalletBooks(
        TrainingMarket,
        (
            (TrainingMarket.tasks, _task),
            (TrainingMarket.bids, _bid),
            (TrainingMarket.open_task_count, claims(OPEN_TASKS)),
            (TrainingMarket.open_auctions, lambda books, keys, _, sign: books[ON_SALE].claim(keys[0], sign)),
            (TrainingMarket.duties, counts(ASKED, lambda keys: keys)),
            (TrainingMarket.task_of_claim, _of_claim),
            (TrainingMarket.task_of_dispute, _of_dispute),
            (TrainingMarket.held_bids, counts(BUSY, lambda keys: keys[1])),
            (TrainingMarket.agenda.places, places(TENDED)),
            (TrainingMarket.final_agenda.places, places(TENDED)),
        ),
        _check,
        loose=(*PURSES, BID_BOND, TASK_COLLATERAL),
    ),
)


# ------------------------------------------------------------------------------------------------------- random calls

TASKS_MAX = 4
"""The number of unfinished tasks from which on random orders have no auction, so that devices also race."""
CHECK_COSTS_PPM = (1_000_000, 1_000_000, 200_000)
"""Costs of checks over the costs of items."""
OF_A_RESULT, OF_TIME = 0.75, 0.6
"""The share of orders for a result, and the share of orders for time among the others. The rest is for replicas."""


def has_room(world: World) -> bool:
    """Return True if few tasks take bids or run. Those with stated results do not count."""
    unfinished = [task for _, task in world.open_tasks() if task.state not in LOOKED_AT]
    return len(unfinished) < TASKS_MAX


def an_order(world: World) -> TaskOrder:
    """Return an order, mostly valid: for a result, or one time in four for time or replicas."""
    order = _order_of_a_result(world)
    if world.chance.random() < OF_A_RESULT:
        return order
    return _order_of_time(world, order) if world.chance.random() < OF_TIME else _order_of_replicas(world, order)


def _order_of_time(world: World, order: TaskOrder) -> TaskOrder:
    intervals, checked_by = world.chance.choice((1, 2, 4)), world.chance.choice((CheckedBy.METERED, CheckedBy.LEASED))
    length = intervals * world.chance.choice((2, 4))
    return replace(
        order, checked_by=checked_by, milestones=intervals, blocks_max=length, segments=0, run_blocks=0, time_value=0,
        slots=1,
    )  # fmt: skip


def _order_of_a_result(world: World) -> TaskOrder:
    chance = world.chance
    return TaskOrder(
        task_hash=chance.randbytes(32),
        workload=chance.randbytes(32),
        input_root=chance.randbytes(32),
        input_blob=chance.randbytes(32),
        sealed_at=max(0, world.final_height() - (0 if chance.random() < 0.95 else -1)),
        classes=0b111,
        milestones=chance.choice((1, 2, 3, 4)),
        segments=chance.choice((0, 8, 8)),
        run_blocks=chance.choice((0, 4)),
        price_max=chance.choice((OGPU // 10, OGPU // 2, OGPU)),
        time_value=chance.choice((None, OGPU // 1_000)),
        loss=chance.choice((None, 0, OGPU)),
        blocks_max=chance.choice((4, 8, 16)),
        collateral_min=chance.choice((0, 0, 2 * OGPU)),
        slots=chance.choice((1, 1, 1, 2, 3)),
        auctions=chance.choice((1, 2, 2, 3)) if chance.random() < 0.95 else 0,
        check_ppm=chance.choice(CHECK_COSTS_PPM),
    )


def _order_of_replicas(world: World, order: TaskOrder) -> TaskOrder:
    """Return an order for replicas, sometimes with a forbidden number."""
    slots = world.chance.choice((3, 3, 3, 5, 2))
    changed = replace(order, checked_by=CheckedBy.REPLICATED, slots=slots, milestones=1, segments=0, run_blocks=0)
    return replace(changed, collateral_min=0)


def _submitted(world: World, _: Actor) -> TaskOrder:
    order = an_order(world)
    return order if has_room(world) else replace(order, auctions=0)


def _own(world: World, who: Actor) -> bytes:
    return world.task(who.stash.account)


HOOKS = (
    (of_tasks.HEIGHT_BUDGET, of_tasks.step_weight(SLOTS_MAX) + TAKE_WEIGHT),
    (of_tasks.FINAL_BUDGET, of_tasks.step_weight(SLOTS_MAX, BIDS_MAX) + TAKE_WEIGHT),
    (of_tasks.CLEARING_BUDGET, times(CLEARED_MAX, of_tasks.BID_WEIGHT) + TAKE_WEIGHT),
)

ARGUMENTS = {
    "task": lambda world, _: world.task(),
    "place": one_of(0, 0, 0, 1, 255),
    "order": _submitted,
    "offer": always(BidOffer(OGPU // 10, 4, OGPU)),
    "milestone": lambda world, _: Milestone(world.chance.choice((0, 1, 2, 64)), bytes(32), 0, bytes(32)),
    "number": one_of(0, 1, 2, 255),
    "result": always(TaskResult(bytes(32), bytes(32), 0)),
    "back": one_of(0, OGPU),
}
