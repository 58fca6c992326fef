"""The books of tasks, counted independently of the pallet: what is held, whom they bind, what looks at them."""

from collections import Counter
from dataclasses import dataclass, field

from gpu_tasks.market.training.bids import DRAWS_FROM, auction_id, bid_case
from gpu_tasks.market.training.fraud_claims import claim_bond
from gpu_tasks.market.training.tasks import (
    BID_BOND,
    TASK_BOND,
    TASK_CHALLENGE,
    TASK_COLLATERAL,
    TASK_DEPOSIT,
    TASK_DISPUTE,
    TASK_ESCROW,
    Slot,
    Standby,
    Task,
    TaskState,
    is_open,
    places_held,
    slot_case,
)
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import CAP_GRAINS, AccountId
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound

BIDDING = (TaskState.COMMITTING, TaskState.REVEALING)
JUDGED = (TaskState.SHOWING, TaskState.JUDGED)
"""In these the courts, and who showed a fraud proof, may have taken a part of what is held."""


@dataclass
class TaskBooks:
    """What should be held for tasks, and which devices and cases are theirs."""

    exact: Counter[tuple[AccountId, Hold]] = field(default_factory=Counter)
    loose: dict[tuple[AccountId, Hold], int] = field(default_factory=dict)
    """At most so much."""
    busy: dict[bytes, bytes] = field(default_factory=dict)
    """Devices, and the task that each is bound to."""
    cases: set[bytes] = field(default_factory=set)
    duties: set[tuple[AccountId, bytes]] = field(default_factory=set)
    """Who has to be told of which task."""

    def check(self, held: dict[tuple[bytes, Hold], int]) -> None:
        """Compare with what is held for tasks, and for nothing else."""
        assert {key: amount for key, amount in held.items() if key not in self.loose} == {
            key: amount for key, amount in self.exact.items() if amount
        }
        assert all(amount <= self.loose[key] for key, amount in held.items() if key in self.loose)


def task_books(bound: Bound) -> TaskBooks:
    """The books of all tasks; every task waits for something, and what is counted of them is right."""
    books = TaskBooks()
    if TrainingMarket not in bound.runtime.pallets:
        return books
    market = bound[TrainingMarket]
    tasks = [(task_id, task) for task_id, task in market.tasks.items() if task is not None]
    for task_id, task in tasks:
        _bids(market, task_id, task, books)
        _claims(market, task_id, task, books)
        books.exact[task.customer, Hold(TASK_DEPOSIT, task_id)] += task.deposit
        if is_open(task):
            _work(market, task_id, task, books)
        _agenda(market, task_id, task)
    assert market.open_tasks.get() == sum(is_open(task) for _, task in tasks)
    assert set(market.on_sale.keys()) == {task_id for task_id, task in tasks if _is_on_sale(task)}
    assert {case for case, _ in market.task_of_case.items()} == books.cases
    assert {names for names, _ in market.duties.items()} == books.duties
    return books


def _is_on_sale(task: Task) -> bool:
    return task.state in BIDDING or (task.state is TaskState.VOLUNTEERING and bool(task.deadline))


def _bids(market: TrainingMarket, task_id: bytes, task: Task, books: TaskBooks) -> None:
    draws = range(DRAWS_FROM + 1, DRAWS_FROM + task.draws + 1)
    for number in (*range(1, task.auction + 1), *draws):
        auction = auction_id(task_id, number)
        for device, _ in market.held_bids.under(auction):
            bid = market.bids[auction, device]
            assert bid is not None
            books.busy[device] = task_id
            case = bid_case(auction, device)
            if bid.opened is None:
                books.exact[bid.provider, Hold(BID_BOND, case)] += bid.bond
            else:
                books.exact[bid.provider, Hold(TASK_COLLATERAL, case)] += bid.opened.collateral


def _claims(market: TrainingMarket, task_id: bytes, task: Task, books: TaskBooks) -> None:
    for challenger, _ in market.claims.under(task_id):
        books.exact[challenger, Hold(TASK_CHALLENGE, task_id)] += claim_bond(task)
    if task.challenge is not None and is_open(task):
        books.loose[task.challenge.challenger, Hold(TASK_CHALLENGE, task_id)] = task.challenge.bond


def _work(market: TrainingMarket, task_id: bytes, task: Task, books: TaskBooks) -> None:
    for place in range(places_held(task)):
        case = slot_case(task_id, place)
        for reason in (TASK_ESCROW, TASK_BOND, TASK_DISPUTE):
            books.loose[task.customer, Hold(reason, case)] = CAP_GRAINS
        if market.task_of_case[case] is not None:
            assert market.task_of_case[case] == task_id
            books.cases.add(case)
    books.duties |= {(slot.provider, task_id) for slot in task.slots}
    if task.standby is not None:
        books.duties.add((task.standby.provider, task_id))
    workers: list[Slot | Standby] = list(task.slots)
    if task.standby is not None and task.standby.is_bound:
        workers.append(task.standby)
    for worker in workers:
        books.busy[worker.device] = task_id
        draw = worker.draw if isinstance(worker, Slot) else 0
        auction = auction_id(task_id, DRAWS_FROM + draw if draw else task.auction)
        key = worker.provider, Hold(TASK_COLLATERAL, bid_case(auction, worker.device))
        is_out = isinstance(worker, Slot) and worker.outcome is not None
        if task.state in JUDGED or is_out:
            books.loose[key] = worker.collateral
        else:
            books.exact[key] += worker.collateral


def _agenda(market: TrainingMarket, task_id: bytes, task: Task) -> None:
    waits = [market.heights.places[task_id], market.finals.places[task_id], task.cases]
    assert any(waits), "every task waits for something"
    assert bool(waits[0]) == bool(task.deadline)
    if market.heights.places[task_id]:
        assert market.heights.places[task_id] == task.deadline + 1
    if not is_open(task):
        assert not market.finals.places[task_id]
        assert not task.cases
