"""Replicated tasks: several providers are found and drawn, commit, open, and are compared.

The winner of the auction has the first place. The beacon draws the others among devices of other owners, offered at the
price of the award. The comparison ends the task: no customer can dispute it, and no voter looks at it.

Invariants: no result is known before all have committed, or their time is over. The result of more than half of all
places is paid. The collateral of a replica that committed to anything else burns, so that nobody gains by it. Without a
majority no result is paid, and no opened result costs its provider anything.
"""

from dataclasses import replace

from gpu_tasks.market.training import purses, replicas
from gpu_tasks.market.training.bids import DRAWS_FROM, Award, TaskBid, auction_id, tie_seed
from gpu_tasks.market.training.events import (
    DeviceHasBid,
    NotEligible,
    ReplicasCompared,
    ReplicasSought,
    ResultBound,
    ResultStated,
    TaskAwarded,
    TooManyBids,
    Volunteered,
    WrongResultOpening,
    WrongTaskState,
)
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.life.bidding import is_eligible
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.reputation import record_at
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import (
    Slot,
    Task,
    TaskResult,
    TaskState,
    taken_by,
    with_slot,
)
from gpu_tasks.market.training.terms import Bid
from runtime.frame.pallet import ensure


def volunteer(market: TrainingStorage, task_id: bytes, account: bytes, device_id: bytes) -> None:
    """Offer a device as a replica, at the price of the award, with its collateral locked. Nothing else draws it.

    When the draw is full, the offer with the least bond yields to a larger one.
    """
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.VOLUNTEERING)
    # Without a deadline, the beacon that draws may already be known.
    ensure(task.deadline > 0, WrongTaskState)
    provider, draw = market.devices.operator(account), _draw_key(task_id, task)
    record = market.devices.owned(device_id, provider)
    ensure(market.bids[draw, device_id] is None, DeviceHasBid)
    ensure(is_eligible(market, task, device_id, record), NotEligible)
    # An owner with two places would be closer to a majority of its own.
    ensure(all(slot.provider != provider for slot in task.slots), NotEligible)
    if task.volunteers >= BIDS_MAX:
        task = _with_room(market, task_id, task, draw, record.bond)
    first_slot, collateral = task.slots[0], task.terms.collateral_min
    hold = purses.collateral_hold(task_id, task, device_id, task.draws)
    market.lock.lock(provider, hold, collateral)
    market.devices.assign(device_id, task_id)
    past_record = record_at(market.provider_records[provider], market.stake.current_era.get())
    opened_offer = Bid(provider, device_id, record.kind, first_slot.price, first_slot.promised, collateral, past_record)
    # Stored as a bid of the draw's number, so the code of bids holds, clears and drops it.
    market.bids[draw, device_id] = TaskBid(provider, record.kind, bytes(32), record.bond, opened_offer)
    market.held_bids[draw, device_id] = True
    market.put(task_id, replace(task, volunteers=task.volunteers + 1))
    market.emit(Volunteered(task_id, provider, device_id))


def bind(market: TrainingStorage, task_id: bytes, task: Task, place: int, commitment: bytes) -> None:
    """Commit to a result (`replicas.replica_commitment`). When all working replicas have, they open their results."""
    slot = task.slots[place]
    blocks_taken = taken_by(task, slot, market.height)
    slot = replace(slot, reported=task.milestones, finished_at=market.height, taken=blocks_taken, commitment=commitment)
    task = with_slot(task, place, slot)
    market.emit(ResultBound(task_id, place, commitment))
    # Nobody opens before: the last replica could copy what the first one has found.
    if all(working_slot.commitment is not None for working_slot in _working_slots(task)):
        task = _to_opening(market, task)
    market.put(task_id, task)


def open_result(
    market: TrainingStorage, task_id: bytes, place: int, account: bytes, result: TaskResult, salt: bytes
) -> None:
    """Open a committed result. The hook of the block after the last opening compares them."""
    task, slot = market.worked(task_id, place, account)
    market.ensure_in(task, TaskState.OPENING)
    ensure(slot.commitment is not None and slot.result is None, WrongTaskState)
    genesis_hash = market.system.block_hash[0]
    commitment = replicas.replica_commitment(genesis_hash, task_id, place, slot.provider, result, salt)
    ensure(slot.commitment == commitment, WrongResultOpening)
    task = with_slot(task, place, replace(slot, result=result))
    market.emit(ResultStated(task_id, place, result))
    is_last = all(working_slot.result is not None for working_slot in _working_slots(task))
    market.put(task_id, replace(task, deadline=market.height) if is_last else task)


# ---------------------------------------------------------------------------------------------------- scheduled steps


def seek(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Let devices be offered as replicas, for as long as the window for bids."""
    task = replace(task, state=TaskState.VOLUNTEERING, draws=task.draws + 1, volunteers=0, beacon_at=0)
    task = replace(task, deadline=market.height + task.windows.commit)
    market.open_auctions[task_id] = True
    market.put(task_id, task)
    market.emit(ReplicasSought(task_id, task.slots[0].price, _missing_places(task), task.deadline))


def end_of_offers(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Close the offers, before the beacon of the draw is known."""
    del market.open_auctions[task_id]
    if task.volunteers < _missing_places(task):
        _end_undermanned(market, task_id, task)
    else:
        market.await_beacon(task_id, task)


def draw(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Draw the other places by the final beacon, and release the devices that were not drawn."""
    beacon = market.beacon.value_at(task.beacon_at)
    # Finality halted for longer than the beacon remembers.
    if beacon is None:
        market.await_beacon(task_id, task)
        return
    draw_key = _draw_key(task_id, task)
    seed = tie_seed(draw_key, beacon)
    market.awards[draw_key] = Award(task.terms, seed)
    offers = {
        device_id: opened_offer for device_id, opened_offer in market.bids.under(draw_key) if opened_offer is not None
    }
    drawn = replicas.drawn(offers, seed, _missing_places(task))
    if len(drawn) < _missing_places(task):
        _end_undermanned(market, task_id, task)
        return
    last_block = market.height + task.windows.start
    for device_id in drawn:
        opened_offer = offers[device_id].opened
        assert opened_offer is not None, "a replica's bid is open"
        slot = Slot(
            opened_offer.provider,
            device_id,
            opened_offer.price,
            opened_offer.blocks,
            opened_offer.collateral,
            draw=task.draws,
        )
        market.duties[slot.provider, task_id] = True
        del market.held_bids[draw_key, device_id]
        market.emit(TaskAwarded(task_id, len(task.slots), slot.provider, device_id, slot.price, last_block))
        task = replace(task, slots=(*task.slots, slot))
    market.put(task_id, replace(task, state=TaskState.STARTING, deadline=last_block, beacon_at=0))
    market.clear(task_id)


def not_started(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the time to start: late replicas are out, and the others work if they can still be a majority."""
    task = _settle_dropouts(
        market, task_id, task, TaskOutcome.NOT_STARTED, [slot.started_at > 0 for slot in task.slots]
    )
    if _is_lost(task):
        _end_undermanned(market, task_id, task)
    else:
        market.begin_work(task_id, task)


def end_of_running(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """End the work: replicas without a commitment have died. The others open, if they can still be a majority."""
    is_bound = [slot.commitment is not None for slot in task.slots]
    task = _settle_dropouts(market, task_id, task, TaskOutcome.DIED, is_bound)
    if _is_lost(task):
        _end_undermanned(market, task_id, task)
    else:
        market.put(task_id, _to_opening(market, task))


def compare(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Compare the opened results, settle all remaining replicas, and end the task."""
    findings, place_count = replicas.findings_of(task), len(task.slots)
    agreement = replicas.agreed(findings.values(), place_count)
    agreed_finding, vote_count = agreement if agreement is not None else (None, 0)
    agreed_root = None if agreed_finding is None else agreed_finding[0]
    market.emit(ReplicasCompared(task_id, place_count, vote_count, agreed_root))
    for place, slot in enumerate(task.slots):
        if slot.outcome is None:
            outcome = _outcome_of(slot, findings.get(place), agreed_finding)
            purses.settle(market, task_id, task, place, outcome)
            task = with_slot(task, place, replace(slot, outcome=outcome))
    ending.free_slots(market, task_id, task)
    paid_outcomes = [slot.outcome for slot in task.slots if slot.outcome in (TaskOutcome.ON_TIME, TaskOutcome.LATE)]
    ending.end(market, task_id, task, paid_outcomes[0] if paid_outcomes else TaskOutcome.UNDECIDED)


def _outcome_of(
    slot: Slot, finding: replicas.ReplicaFinding | None, agreed_finding: replicas.ReplicaFinding | None
) -> TaskOutcome:
    """Return the outcome of a replica that committed. `finding` is None if it did not open its result."""
    if agreed_finding is None:
        return TaskOutcome.DIED if finding is None else TaskOutcome.UNDECIDED
    # A liar that sees the majority must not save its collateral by silence.
    if finding != agreed_finding:
        return TaskOutcome.OUTVOTED
    return TaskOutcome.LATE if slot.taken > slot.promised else TaskOutcome.ON_TIME


def _settle_dropouts(
    market: TrainingStorage, task_id: bytes, task: Task, outcome: TaskOutcome, has_done_duty: list[bool]
) -> Task:
    """Settle working replicas that missed their duty with `outcome`, and return the task."""
    for place in range(len(task.slots)):
        if not has_done_duty[place] and task.slots[place].outcome is None:
            purses.settle(market, task_id, task, place, outcome)
            task = with_slot(task, place, replace(task.slots[place], outcome=outcome))
    return task


def _end_undermanned(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Auction a task again that has too few replicas for a majority."""
    market.clear(task_id)
    for place, slot in enumerate(task.slots):
        # These providers did nothing wrong. Their work is lost without penalty.
        if slot.outcome is None:
            purses.settle(market, task_id, task, place, TaskOutcome.PARTNER_DIED)
    ending.free_slots(market, task_id, task)
    ending.reopen(market, task_id, task)


def _with_room(market: TrainingStorage, task_id: bytes, task: Task, draw: bytes, bond_grains: int) -> Task:
    """Return the task without the offer of the least bond.

    So a provider that fills a draw early, under many names, does not keep larger bonds out.
    """
    bond_by_device = {device_id: offer.bond for device_id, offer in market.bids.under(draw) if offer is not None}
    weakest_device = min(bond_by_device, key=lambda device_id: (bond_by_device[device_id], device_id))
    ensure(bond_by_device[weakest_device] < bond_grains, TooManyBids)
    ending.clear_bid(market, task_id, draw, weakest_device)
    del market.bids[draw, weakest_device]
    return replace(task, volunteers=task.volunteers - 1)


def _to_opening(market: TrainingStorage, task: Task) -> Task:
    return replace(task, state=TaskState.OPENING, deadline=market.height + task.windows.reveal)


def _working_slots(task: Task) -> list[Slot]:
    return [slot for slot in task.slots if slot.outcome is None]


def _is_lost(task: Task) -> bool:
    """Return True if the working replicas are no more than half of their places."""
    return 2 * len(_working_slots(task)) <= len(task.slots)


def _missing_places(task: Task) -> int:
    """Return the number of devices to draw."""
    return task.terms.slots - len(task.slots)


def _draw_key(task_id: bytes, task: Task) -> bytes:
    return auction_id(task_id, DRAWS_FROM + task.draws)
