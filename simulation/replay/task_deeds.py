"""Customers, bidders and workers of tasks on a random chain: some forget, die, lie, or change their mind.

Invariant: the right results of a task, and a liar's, are functions of the task, as if every actor could compute them.
"""

import random
from collections.abc import Iterator

from gpu_tasks.market.attestations.usage import Usage
from gpu_tasks.market.training.bids import BidOffer, auction_id, bid_commitment
from gpu_tasks.market.training.items import own_segments
from gpu_tasks.market.training.orders import CheckedBy, is_by_time, is_replicated
from gpu_tasks.market.training.replicas import replica_commitment
from gpu_tasks.market.training.task_duties import TaskDeed, TaskDuty, slot_duty, standby_duty
from gpu_tasks.market.training.task_statement import (
    SignedTaskAttestation,
    Stated,
    StatedMilestone,
    StatedResult,
    TaskAttestation,
    task_signing_payload,
)
from gpu_tasks.market.training.tasks import (
    Milestone,
    Task,
    TaskResult,
    TaskState,
    agreed_milestone,
)
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import trace_root
from runtime.cryptography.hashing import blake2_256
from runtime.frame.call import Call
from simulation.actors import BY_STASH, INPUT_BAD, Actor, Deed, World, portion, salt_of
from simulation.pallets.training import an_order, has_room

LIES = 0.7
"""The share of tasks about which a liar lies."""


def right_digests(task_id: bytes, task: Task) -> list[bytes]:
    """Return the hashes of a run's states."""
    return [blake2_256(b"state" + task_id + bytes((place,))) for place in range(task.order.segments + 1)]


def digests_of(world: World, actor: Actor, task_id: bytes, task: Task) -> list[bytes]:
    """Return the hashes that an actor states. A liar falsifies the last quarter."""
    digests = right_digests(task_id, task)
    if not is_lying(world, actor, task_id):
        return digests
    first = _first_false(len(digests))
    return digests[:first] + [blake2_256(b"wrong" + digest) for digest in digests[first:]]


def result_root(world: World, actor: Actor, task_id: bytes, task: Task) -> bytes:
    """Return an actor's result root: of its trace, or without segments of its output."""
    if task.order.segments:
        return trace_root(digests_of(world, actor, task_id, task))
    return blake2_256((b"wrong" if is_lying(world, actor, task_id) else b"right") + task_id)


def right_root(task_id: bytes, task: Task) -> bytes:
    """Return the right result root."""
    return trace_root(right_digests(task_id, task)) if task.order.segments else blake2_256(b"right" + task_id)


def is_lying(world: World, actor: Actor, task_id: bytes) -> bool:
    """Return whether an actor lies about a task."""
    return actor.name in world.liars and portion(task_id, b"task lie") < LIES


def has_bad_input(task_id: bytes) -> bool:
    """Return whether the input cannot be opened."""
    return portion(task_id, b"task input") < INPUT_BAD


def is_item_false(task_id: bytes, task: Task, root: bytes, index: int) -> bool:
    """Return whether an item of the claim with this root is false: its segment, or the whole result."""
    if root == right_root(task_id, task):
        return False
    states = task.order.segments + 1
    # A false state makes each later one false too, because a segment begins where the one before has ended.
    return not task.order.segments or own_segments(task.order, task.behind)[index] + 1 >= _first_false(states)


def _first_false(states: int) -> int:
    return max(1, states * 3 // 4)


def actor_of(stash: bytes) -> Actor | None:
    """Return the actor with a stash, or None."""
    return BY_STASH.get(stash)


OFFERS = 0.4
"""The chance per block that a free device is offered."""
DIFFERS = 0.25
"""The share of places with a differing result."""


def offers(world: World, task_id: bytes, task: Task) -> Iterator[Deed]:
    """Yield offers of free devices."""
    if task.state is not TaskState.VOLUNTEERING:
        return
    for stash, actor in sorted(BY_STASH.items()):
        for device in world.free_devices(stash):
            if world.chance.random() < OFFERS:
                yield Deed(actor.provider, TrainingMarket.volunteer(task=task_id, device=device))


def next_of_replica(world: World, actor: Actor, task_id: bytes, duty: TaskDuty) -> Call | None:
    """Return the call that binds a replica to its result or opens it, or None."""
    place, salt = duty.place, salt_of(actor, task_id)
    mine = task_id + actor.stash.account + bytes((place,))
    result = _found(actor, task_id, mine)
    if duty.deed is TaskDeed.BIND:
        sealed = replica_commitment(world.genesis_hash, task_id, place, actor.stash.account, result, salt)
        return TrainingMarket.finish(task=task_id, place=place, result=TaskResult(sealed, bytes(32), 0))
    if duty.deed is TaskDeed.OPEN_RESULT and portion(mine, b"unopened") >= UNOPENED:
        return TrainingMarket.open_result(task=task_id, place=place, result=result, salt=salt)
    return None


def _found(actor: Actor, task_id: bytes, mine: bytes) -> TaskResult:
    """Return a replica's result: the common one, or one of two wrong ones."""
    wrong = portion(mine, b"differs")
    kind = b"right" if wrong >= DIFFERS else b"wrong" if wrong >= DIFFERS / 2 else actor.stash.account
    return TaskResult(blake2_256(kind + task_id), blake2_256(mine), 0)


ORDERS = 0.15
"""The chance of an order per block, while there is room for one."""
BIDS, OPENS, WORKS = 0.35, 0.5, 0.5
"""Chances per block that a free device bids, a bid is revealed, and any other due step is taken."""
UNOPENED, NO_START, DIES = 0.08, 0.1, 0.2
"""Shares of a provider's bids or results never opened, and of slots never started or abandoned."""
SILENT, FALSE_REPORTS = 0.25, 0.03
"""Shares of tasks with a silent customer, and with a false report about the input."""
SECOND_THOUGHTS = 0.025
"""Chances per block that a customer changes its mind, and that a provider signs an early end."""
LEAVES, ENDS = 0.03, 0.05
"""Chances per block that a provider of time leaves, and that a metered program ends."""
BY_CALL = 0.3
"""The share of statements made by a call, as if authors had left the attestation out."""
USAGE = Usage(1, 5, 0, 5, 6, 1_000)


def stated_deed(world: World, actor: Actor, task_id: bytes, task: Task, call: Call) -> Deed:
    """Return a worker's deed: the call, or the attestation that states the same."""
    stated = _stated(call)
    if stated is None:
        return Deed(actor.provider, call)
    place = call.named_arguments["place"]
    step = task_id + bytes((task.auction, place, task.slots[place].reported))
    if portion(step, b"by call") < BY_CALL:
        return Deed(actor.provider, call)
    return Deed(actor.provider, attestation=_attestation(world, actor, task_id, task, place, stated))


def _stated(call: Call) -> Stated | None:
    arguments = call.named_arguments
    if call.name == "TrainingMarket.report_milestone":
        return StatedMilestone(arguments["milestone"])
    if call.name == "TrainingMarket.finish":
        return StatedResult(arguments["result"])
    return None


def _attestation(
    world: World, actor: Actor, task_id: bytes, task: Task, place: int, stated: Stated
) -> SignedTaskAttestation:
    slot = task.slots[place]
    statement = TaskAttestation(
        version=1,
        task=task_id,
        auction=task.auction,
        place=place,
        provider_key=actor.provider.account,
        device=slot.device,
        stated=stated,
        usage=USAGE,
        started_at=slot.started_at,
        finished_at=world.height,
    )
    return SignedTaskAttestation(statement, actor.provider.sign(task_signing_payload(world.genesis_hash, statement)))


def task_deeds(world: World) -> Iterator[Deed]:
    """Yield the current deeds of all parties of tasks."""
    open_tasks = world.open_tasks()
    if has_room(world) and world.chance.random() < ORDERS:
        customer = world.chance.choice(sorted(BY_STASH.items()))[1]
        yield Deed(customer.stash, TrainingMarket.submit(order=an_order(world)))
    for task_id, task in open_tasks:
        customer_or_none = actor_of(task.customer)
        if customer_or_none is not None:
            yield from _of_customer(world, customer_or_none, task_id, task)
        yield from _of_bidders(world, task_id, task)
        yield from offers(world, task_id, task)
        yield from _of_workers(world, task_id, task)


def _of_customer(world: World, customer: Actor, task_id: bytes, task: Task) -> Iterator[Deed]:
    """Yield a customer's deed: it signs checkpoints, and sometimes changes its mind."""
    chance, call = world.chance, None
    agreed = agreed_milestone(task) if task.state is TaskState.RUNNING else None
    is_silent = portion(task_id, b"silent") < SILENT
    if agreed is not None and agreed.number > task.behind + task.owed and not is_silent:
        call = TrainingMarket.confirm_checkpoint(task=task_id, number=agreed.number, root=agreed.root)
    elif chance.random() < SECOND_THOUGHTS:
        call = _second_thought(task_id, task)
    if call is not None and chance.random() < WORKS:
        yield Deed(customer.stash, call)


def _second_thought(task_id: bytes, task: Task) -> Call:
    is_running = task.state is TaskState.RUNNING
    return TrainingMarket.stop(task=task_id) if is_running else TrainingMarket.cancel(task=task_id)


def _of_bidders(world: World, task_id: bytes, task: Task) -> Iterator[Deed]:
    """Yield sealed bids with free devices, and later their reveals."""
    if task.state not in (TaskState.COMMITTING, TaskState.REVEALING):
        return
    market, auction = world.bound[TrainingMarket], auction_id(task_id, task.auction)
    if task.state is TaskState.REVEALING:
        for device, bid in list(market.bids.under(auction)):
            actor = None if bid is None or bid.opened is not None else actor_of(bid.provider)
            is_lost = portion(auction + device, b"unopened") < UNOPENED
            if actor is not None and not is_lost and world.chance.random() < OPENS:
                yield Deed(actor.provider, _reveal(task_id, task, actor, device))
        return
    for stash, actor in sorted(BY_STASH.items()):
        for device in world.free_devices(stash):
            if world.chance.random() < BIDS:
                offer = offer_of(task, auction, device)
                sealed = bid_commitment(world.genesis_hash, auction, stash, device, offer, salt_of(actor, auction))
                call = TrainingMarket.commit_bid(task=task_id, device=device, commitment=sealed)
                yield Deed(actor.provider, call)


def _reveal(task_id: bytes, task: Task, actor: Actor, device: bytes) -> Call:
    auction = auction_id(task_id, task.auction)
    offer = offer_of(task, auction, device)
    return TrainingMarket.reveal_bid(task=task_id, device=device, offer=offer, salt=salt_of(actor, auction))


def offer_of(task: Task, auction: bytes, device: bytes) -> BidOffer:
    """Return a bid's offer, mostly one that can win."""
    chance, terms = random.Random(b"offer" + auction + device), task.terms
    collateral = terms.collateral_min * chance.choice((1, 1, 1, 2)) // (1 if chance.random() < 0.95 else 2)
    return BidOffer(
        price=terms.price_max * chance.randrange(30, 105) // 100,
        blocks=chance.randrange(1, terms.blocks_max + 1),
        collateral=collateral,
    )


def _of_workers(world: World, task_id: bytes, task: Task) -> Iterator[Deed]:
    """Yield the next deeds of slots and standbys. Some do not start, and some die."""
    for place, slot in enumerate(task.slots):
        actor = actor_of(slot.provider)
        if actor is None:
            continue
        call = _next_of_slot(world, actor, task_id, task, slot_duty(task_id, task, place, world.height))
        if call is not None and world.chance.random() < WORKS:
            yield stated_deed(world, actor, task_id, task, call)
    standby = None if task.standby is None else actor_of(task.standby.provider)
    if standby is not None and world.chance.random() < WORKS:
        duty = standby_duty(task_id, task, world.height)
        agreed = agreed_milestone(task)
        if duty.deed is TaskDeed.HOLD_CHECKPOINT and agreed is not None:
            call = TrainingMarket.confirm_checkpoint(task=task_id, number=duty.number, root=agreed.root)
            yield Deed(standby.provider, call)
        elif duty.deed is TaskDeed.TAKE_OVER:
            yield Deed(standby.provider, TrainingMarket.start(task=task_id, place=0))


def _next_of_slot(world: World, actor: Actor, task_id: bytes, task: Task, duty: TaskDuty) -> Call | None:
    mine = task_id + actor.stash.account + bytes((task.auction,))
    place = duty.place
    if duty.deed is TaskDeed.START:
        return _start(task_id, place, mine)
    is_dead = portion(mine, b"dies") < DIES and (duty.number > 1 or portion(mine, b"dies at once") < DIES)
    if duty.deed in (TaskDeed.CHECKPOINT, TaskDeed.FINISH, TaskDeed.BIND) and is_dead:
        return None
    if is_replicated(task.order):
        return next_of_replica(world, actor, task_id, duty)
    if is_by_time(task.order) and world.chance.random() < LEAVES:
        return TrainingMarket.leave(task=task_id)
    if duty.opens_at > world.height:
        has_ended = task.order.checked_by is CheckedBy.METERED and world.chance.random() < ENDS
        return _finish_time(task_id, place) if has_ended else None
    if duty.deed is TaskDeed.CHECKPOINT:
        root = blake2_256(b"milestone" + task_id + bytes((duty.number,)))
        milestone = Milestone(duty.number, root, 1_000 - duty.number, blake2_256(root))
        return TrainingMarket.report_milestone(task=task_id, place=place, milestone=milestone)
    if duty.deed is TaskDeed.FINISH and is_by_time(task.order):
        return _finish_time(task_id, place)
    if duty.deed is TaskDeed.FINISH:
        root = result_root(world, actor, task_id, task)
        return TrainingMarket.finish(task=task_id, place=place, result=TaskResult(root, blake2_256(root), 1))
    return None


def _finish_time(task_id: bytes, place: int) -> Call:
    root = blake2_256(b"outputs" + task_id)
    return TrainingMarket.finish(task=task_id, place=place, result=TaskResult(root, blake2_256(root), 0))


def _start(task_id: bytes, place: int, mine: bytes) -> Call | None:
    if has_bad_input(task_id) or portion(mine, b"reports") < FALSE_REPORTS:
        return TrainingMarket.report_input(task=task_id, place=place)
    return None if portion(mine, b"no start") < NO_START else TrainingMarket.start(task=task_id, place=place)
