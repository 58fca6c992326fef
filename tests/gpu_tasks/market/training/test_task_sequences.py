"""Any sequence of calls about tasks, by anybody, in any order: no grain is made, lost or stuck, and every task ends.

`TaskChain` compares all books after every block; here hypothesis chooses what happens.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training.events import BidEnded, SlotSettled, StandbyReleased, TaskEnded
from gpu_tasks.market.training.fraud_claims import claim_commitment
from gpu_tasks.market.training.life.leaving import MoreBlocks, RaisePrice, Stop
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy, is_by_time, is_replicated
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.showing import ShownStretch, judged_stretches, own_segments
from gpu_tasks.market.training.tasks import Task, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import proof_of_fraud, trace_root, traced_state
from runtime.cryptography.hashing import blake2_256
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, Step, due_of, opens, signed, tolerant
from task_chain import RIGHT, WRONG, TaskChain, a_milestone, an_offer, an_order, time_order

DIGESTS = [blake2_256(bytes((number,))) for number in range(9)]
TRACE = trace_root(DIGESTS)
SALT = b"s" * 32
SUBMITTED = TaskState.SUBMITTED
QUICK = {
    "Courts.commit_blocks": 4,
    "Courts.open_blocks": 4,
    "Courts.appeal_blocks": 4,
    "TrainingMarket.accept_blocks": 6,
    "TrainingMarket.task_keep": 1,
    "TrainingMarket.audit_rate_ppm": 1_000_000,
}
SIZE = 9
MILESTONES, BLOCKS_MAX, AUCTIONS = 3, 6, 2
LEG = 4 + 1 + 4 + 4 + 2 * 5 + MILESTONES * (2 * BLOCKS_MAX + 4) + 5 + 7 + 10 + 7 + 3 * 12 + 5
"""The windows of a leg one after another, with what finality takes, audit and court."""
DAYS = 75
WHOLE_CHAINS_MAX = 1_000
"""Sequences tried at most, whatever the profile: each is a chain of hundreds of blocks, a tenth of a second long."""
RARE = {TaskOutcome.UNDECIDED}
"""A dispute about which judges differ: `test_task_judging` brings one."""
PANEL = 4 + 1 + 4 + 5 + 2 * BLOCKS_MAX + 4 + 5
"""Of replicas, or of a jury: offers, the beacon, starts, work, openings."""
BOUND = AUCTIONS * (LEG + PANEL) + PANEL + 20


def task_of(chain: TaskChain, number: int) -> tuple[bytes, Task] | None:
    """One of the tasks that there are."""
    tasks = [(task_id, task) for task_id, task in chain.market.tasks.items() if task is not None]
    return tasks[number % len(tasks)] if tasks else None


def offer_of(who: Keys, task: bytes) -> Any:
    """What somebody bids for a task: mostly sound."""
    number = task[0] + len(who.name)
    return an_offer((3 + number % 7) * OGPU, 1 + number % BLOCKS_MAX, (40 if number % 9 else 5) * OGPU)


def bid(chain: TaskChain, who: Keys, number: int) -> Any:
    """Commit, or open what may have been committed to."""
    found = task_of(chain, number)
    if found is None:
        return None
    task_id, task = found
    call = chain.commit_call if task.state is TaskState.COMMITTING else chain.reveal_call
    return call(who, offer_of(who, task_id), task=task_id)


def work(chain: TaskChain, who: Keys, number: int) -> Any:
    """What comes next of a slot, rightly or wrongly."""
    found = task_of(chain, number)
    return found and next_of(*found, who, number)


def next_of(task_id: bytes, task: Task, who: Keys, number: int) -> Any:
    """What comes next of a slot of somebody's; or of another one, if it has none."""
    mine = [place for place, slot in enumerate(task.slots) if slot.provider == who.stash]
    place = mine[0] if mine else number % 2
    if task.state is TaskState.STARTING and number % 9 == 0:
        return TrainingMarket.report_input(task=task_id, place=place)
    if task.state in (TaskState.STARTING, TaskState.ASKING):
        return TrainingMarket.start(task=task_id, place=0 if task.state is TaskState.ASKING else place)
    if task.state is TaskState.SHOWING:
        return show(task_id, task, place)
    if is_replicated(task.order):
        return of_replica(task_id, task, who, mine[-1] if mine else 0, number)
    step = task.slots[place].reported if mine else 0
    if is_by_time(task.order) and number % 11 == 0:
        return TrainingMarket.leave(task=task_id)
    if step + 1 < task.milestones and number % 7:
        milestone = a_milestone(task.behind + step + 1, RIGHT if number % 8 else WRONG)
        return TrainingMarket.checkpoint(task=task_id, place=place, milestone=milestone)
    root = TRACE if number % 5 else WRONG
    return TrainingMarket.finish(task=task_id, place=place, result=TaskResult(root, b"o" * 32, 0))


def of_replica(task_id: bytes, task: Task, who: Keys, place: int, number: int) -> Any:
    """What is next of a replica, which finds what is right, or what nobody else does."""
    root = TRACE if (task_id[3] + len(who.name)) % 4 else blake2_256(who.stash)
    result = TaskResult(root, b"o" * 32, 0)
    if task.state is TaskState.OPENING:
        return TrainingMarket.open_result(task=task_id, place=place, result=result, salt=SALT)
    sealed = replica_commitment(GENESIS_HASH, task_id, place, who.stash, result, SALT)
    bound = TaskResult(sealed if number % 9 else WRONG, b"o" * 32, 0)
    return TrainingMarket.finish(task=task_id, place=place, result=bound)


def show(task_id: bytes, task: Task, place: int) -> Any:
    """The states that a slot has to show, as far as they are known."""
    shown = tuple(
        ShownStretch(traced_state(DIGESTS, each.first), traced_state(DIGESTS, each.end))
        for each in judged_stretches(task_id, task, place)
    )
    return TrainingMarket.show(task=task_id, place=place, stretches=shown)


def duties(chain: TaskChain, who: Keys, number: int) -> list[Any]:
    """What somebody does who does what it should, of all tasks: bids, opens, works, holds checkpoints."""
    calls = []
    for task_id, task in chain.market.tasks.items():
        assert task is not None
        if task.close is not None and who is not CUSTOMER:
            calls.append(TrainingMarket.close(task=task_id, pay=task.close.pay, back=task.close.back))
        if who is CUSTOMER:
            newest = max((slot.milestone.number for slot in task.slots if slot.milestone is not None), default=0)
            calls.append(TrainingMarket.hold_checkpoint(task=task_id, number=newest, root=RIGHT))
            named = None if task_id[2] % 2 or not task.order.segments else own_segments(task)[-1]
            if task.state is TaskState.SUBMITTED and task_id[1] % 3:
                disputes = TrainingMarket.dispute(task=task_id, segment=named)
                calls.append(disputes if task_id[1] % 2 else TrainingMarket.accept(task=task_id))
        elif task.state in (TaskState.COMMITTING, TaskState.REVEALING):
            call = chain.commit_call if task.state is TaskState.COMMITTING else chain.reveal_call
            calls.append(call(who, offer_of(who, task_id), task=task_id))
        elif task.state is TaskState.VOLUNTEERING:
            calls.append(TrainingMarket.volunteer(task=task_id, device=who.device))
        elif task.state is TaskState.ASKING or any(slot.provider == who.stash for slot in task.slots):
            calls.append(next_of(task_id, task, who, 2 * number + 1))
    return calls


def hold(chain: TaskChain, _who: Keys, number: int) -> Any:
    """Count a milestone."""
    found = task_of(chain, number)
    return found and TrainingMarket.hold_checkpoint(task=found[0], number=1 + number % MILESTONES, root=RIGHT)


def prove(chain: TaskChain, who: Keys, number: int) -> Any:
    """Commit to a proof that a result is wrong, which it may not be, or open it; sometimes never."""
    tasks = [(task_id, task) for task_id, task in chain.market.tasks.items() if task and task.state is SUBMITTED]
    if not tasks:
        return None
    task_id, task = tasks[number % len(tasks)]
    place = number // 2 % len(task.slots)
    own = own_segments(task)
    proof = proof_of_fraud(DIGESTS, own[number // 4 % len(own)] if own else 0, b"n" * 32)
    if chain.market.claims[task_id, who.stash] is None:
        sealed = claim_commitment(GENESIS_HASH, task_id, who.stash, place, proof, SALT)
        return TrainingMarket.claim_fraud(task=task_id, commitment=sealed)
    return TrainingMarket.show_fraud(task=task_id, place=place, proof=proof, salt=SALT)


def about(make: Callable[[bytes, int], Any]) -> Callable[[TaskChain, Keys, int], Any]:
    """A call about one of the tasks."""

    def made(chain: TaskChain, _who: Keys, number: int) -> Any:
        found = task_of(chain, number)
        return found and make(found[0], number)

    return made


def submit(_chain: TaskChain, _who: Keys, number: int) -> Any:
    """An order: of one slot or more, with a trace or without one; of replicas; or of time."""
    if number % 7 == 3:
        return TrainingMarket.submit(order=an_order(**OF_REPLICAS))
    if number % 5 == 4:
        intervals = 1 + number % MILESTONES
        order = an_order(**time_order(blocks_max=2 * intervals, milestones=intervals, is_lease=bool(number % 2)))
        return TrainingMarket.submit(order=order)
    order = an_order(
        slots=1 + number % 3,
        segments=8 * (number % 2),
        milestones=1 + number % MILESTONES,
        blocks_max=BLOCKS_MAX,
        auctions=1 + number % AUCTIONS,
    )
    return TrainingMarket.submit(order=order)


OF_REPLICAS: dict[str, Any] = {
    "checked_by": CheckedBy.REPLICATED,
    "slots": 3,
    "milestones": 1,
    "run_blocks": 0,
    "blocks_max": BLOCKS_MAX,
}
CHANGES = (RaisePrice(12 * OGPU), MoreBlocks(2), Stop(), Stop())
ACTIONS: tuple[Callable[[TaskChain, Keys, int], Any], ...] = (
    submit,
    bid,
    work,
    hold,
    prove,
    about(lambda task, _: TrainingMarket.accept(task=task)),
    about(lambda task, _: TrainingMarket.dispute(task=task, segment=None)),
    about(lambda task, number: TrainingMarket.amend(task=task, change=CHANGES[number % 4])),
    about(lambda task, _: TrainingMarket.cancel(task=task)),
    about(lambda task, number: TrainingMarket.report_input(task=task, place=number % 2)),
    about(lambda task, number: TrainingMarket.close(task=task, pay=number % 2 * OGPU, back=OGPU)),
    lambda chain, _who, number: Devices.pause(device=chain.keys[number % SIZE].device),
    lambda chain, _who, number: Devices.resume(device=chain.keys[number % SIZE].device),
    lambda chain, _who, number: Devices.unregister_device(device=chain.keys[number % SIZE].device),
)
CUSTOMERS_OWN = tuple(f"TrainingMarket.{name}" for name in ("accept", "dispute", "amend", "cancel", "close"))


def opinion(case_id: bytes, keys: Keys) -> Answered | Unanswerable:
    """What a judge finds: mostly what the others find, and mostly that all is right."""
    kind = case_id[0] % 8
    if kind == 0:
        return Unanswerable()
    if kind <= 2:
        return Answered(blake2_256(keys.stash))
    return Answered(WRONG if kind == 3 else TRACE)


def judges(chain: TaskChain, number: int) -> list[Step]:
    """What judges do; each sleeps sometimes."""
    courts, height = chain.chain.now()[Courts], chain.height + 1
    steps: list[Step] = []
    for case_id, case in courts.cases.items():
        for judge in case.benches[-1].members if case is not None and case.benches else ():
            keys = chain.chain.keys_of(judge)
            if (number + len(keys.name)) % 7:
                said = opens(keys, case_id, opinion(case_id, keys))
                steps += due_of(courts, case_id, keys, said, height=height, final=height - 1)
    return [tolerant(step) for step in steps]


moments = st.tuples(st.sampled_from(ACTIONS), st.integers(0, SIZE), st.integers(0, 40))
blocks = st.tuples(st.integers(0, 2 ** (SIZE + 1) - 1), st.lists(moments, max_size=1))
"""Who does its duty in a block, by a bit, and what else somebody tries."""


def play(chain: TaskChain, number: int, care: int, tried: list[Any]) -> None:
    """A block."""
    people = [*chain.keys, CUSTOMER]
    steps: list[Callable[[Bound], None]] = list(judges(chain, number))
    for place, who in enumerate(people):
        if care >> place & 1:
            role = "stash" if who is CUSTOMER or number % 2 else "provider"
            steps += [tolerant(signed(who.public(role), call)) for call in duties(chain, who, number)]
    for action, place, choice in tried:
        call = action(chain, people[place], choice)
        if call is not None:
            is_customers = action in (submit, hold) or call.name in CUSTOMERS_OWN
            signer = CUSTOMER if is_customers and choice % 8 else people[place]
            steps.append(tolerant(signed(signer.stash, call)))
    chain.block(*steps)


def begun(seed: int) -> TaskChain:
    """A chain with two tasks."""
    chain = TaskChain(size=SIZE, constants=QUICK)
    chain.chain.chance.seed(seed)
    if seed % 3 == 0:
        chain.submit(**time_order(blocks_max=6, milestones=3, is_lease=seed % 2 == 1))
    if seed % 3 == 1:
        chain.submit(**OF_REPLICAS)
    for number in (seed, seed // 4):
        chain.submit(blocks_max=BLOCKS_MAX, milestones=MILESTONES, segments=8 * (number % 2), slots=1 + number // 2 % 2)
    return chain


def ends(chain: TaskChain) -> None:
    """Without another call every task ends within its bound, and nobody holds anything for it."""
    for _ in range(BOUND):
        if not list(chain.market.tasks.items()):
            break
        chain.block()
    market, bound = chain.market, chain.chain.now()
    for item in (market.tasks, market.bids, market.held_bids, market.duties, market.awards, market.task_of_case):
        assert not list(item.items())
    assert not [key for key, _ in bound[Balances].held_cases.items() if key[1].reason in TrainingMarket.hold_reasons]
    devices = [device for _, device in bound[Devices].devices.items() if device is not None]
    assert all(device.assignment is None for device in devices)


@settings(max_examples=min(settings().max_examples // 4, WHOLE_CHAINS_MAX))  # each is a whole chain
@given(st.lists(blocks, min_size=20, max_size=90), st.integers(0, 2**32))
def test_no_sequence_of_calls_makes_loses_or_keeps_a_grain(sequence: list[tuple[int, list[Any]]], seed: int) -> None:
    chain = begun(seed)
    for number, (care, tried) in enumerate(sequence):
        play(chain, seed + number, care, tried)
    ends(chain)


@pytest.mark.nightly
def test_random_days_end_in_every_way_that_a_slot_can_end() -> None:
    """Seeded, and long enough that all rows of the money table but one are met: else the search above says little."""
    met: set[TaskOutcome] = set()
    for seed in range(DAYS):
        chance, chain = random.Random(seed), begun(seed)
        awake = 0
        for number in range(90):
            if number % 12 == 0:  # who sleeps, sleeps for a while
                awake = chance.getrandbits(SIZE + 1) | chance.getrandbits(SIZE + 1)
            care = awake & (chance.getrandbits(SIZE + 1) | chance.getrandbits(SIZE + 1))
            tried = [(chance.choice(ACTIONS), chance.randint(0, SIZE), chance.randint(0, 40))]
            play(chain, seed + number, care, tried if chance.random() < 0.25 else [])
        ends(chain)
        met |= {event.outcome for event in chain.happened(SlotSettled)}
        met |= {event.outcome for event in chain.happened(TaskEnded)}
        met |= {TaskOutcome.STOOD_BY for _ in chain.happened(StandbyReleased)}
        met |= {TaskOutcome.NOT_REVEALED for event in chain.happened(BidEnded) if event.burned}
    assert met >= set(TaskOutcome) - RARE
