"""Tasks that several compute: replicas are sought and drawn, bind themselves, open, and are compared.

The first place is that of who won the auction; the others are drawn by the beacon among devices of other owners that
are offered at the price of the award. A customer that disputes what most agree on has a jury drawn in the same way, and
pays it as it pays replicas.

Always: nothing of a result is known before all are bound to theirs, or their time is over; three alone take nobody's
collateral: who is outvoted is not paid, and loses what who dies does; only a jury convicts, with all but one of its
places; what cannot be decided costs nobody anything but the work.
"""

from dataclasses import replace

from gpu_tasks.market.training import purses, replicas
from gpu_tasks.market.training.bids import DRAWS_FROM, Award, TaskBid, auction_id, tie_seed
from gpu_tasks.market.training.events import (
    DeviceHasBid,
    NoSuchSegment,
    NotEligible,
    ResultStated,
    TaskAwarded,
    TaskRunning,
    TooManyBids,
    WrongTaskState,
)
from gpu_tasks.market.training.life import ending
from gpu_tasks.market.training.life.bidding import is_eligible
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import JURORS
from gpu_tasks.market.training.replica_events import (
    ReplicasCompared,
    ReplicasSought,
    ResultBound,
    Volunteered,
    WrongResultOpening,
)
from gpu_tasks.market.training.reputation import record_at
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.storage import TrainingStorage
from gpu_tasks.market.training.tasks import (
    TASK_ESCROW,
    Slot,
    Task,
    TaskResult,
    TaskState,
    panel,
    slot_case,
    taken_by,
    with_slot,
)
from gpu_tasks.market.training.terms import Bid
from runtime.frame.holds import Hold
from runtime.frame.pallet import ensure


def volunteer(market: TrainingStorage, task_id: bytes, account: bytes, device: bytes) -> None:
    """Offer a device as a replica, at the price of the award: its collateral is locked, and nothing else draws it.

    Where as many are offered as may be, the one with the least bond yields to a larger one.
    """
    task = market.open_task(task_id)
    market.ensure_in(task, TaskState.VOLUNTEERING)
    ensure(task.deadline > 0, WrongTaskState)  # else the beacon that draws may be known
    provider, draw = market.devices.operator(account), _draw_of(task_id, task)
    found = market.devices.owned(device, provider)
    ensure(market.bids[draw, device] is None, DeviceHasBid)
    ensure(is_eligible(market, task, device, found), NotEligible)
    ensure(all(slot.provider != provider for slot in task.slots), NotEligible)
    if task.volunteers >= BIDS_MAX:
        task = _with_room(market, task_id, task, draw, found.bond)
    first, collateral = task.slots[0], task.terms.collateral_min
    hold = purses.collateral_hold(task_id, task, device, task.draws)
    market.lock.lock(provider, hold, collateral)
    market.devices.assign(device, task_id)
    past = record_at(market.provider_records[provider], market.stake.current_era.get())
    offer = Bid(provider, device, found.kind, first.price, first.promised, collateral, past)
    market.bids[draw, device] = TaskBid(provider, found.kind, bytes(32), found.bond, offer)
    market.held_bids[draw, device] = True
    market.put(task_id, replace(task, volunteers=task.volunteers + 1))
    market.emit(Volunteered(task_id, provider, device))


def bind(market: TrainingStorage, task_id: bytes, task: Task, place: int, commitment: bytes) -> None:
    """Be bound to a result (replicas.replica_commitment); when all are, or as many as still may, it is opened."""
    slot = task.slots[place]
    taken = taken_by(task, slot, market.height)
    slot = replace(slot, reported=task.milestones, finished_at=market.height, taken=taken, commitment=commitment)
    task = with_slot(task, place, slot)
    market.emit(ResultBound(task_id, place, commitment))
    if all(each.commitment is not None for each in _working(task)):
        task = _to_opening(market, task)
    market.put(task_id, task)


def open_result(
    market: TrainingStorage, task_id: bytes, place: int, account: bytes, result: TaskResult, salt: bytes
) -> None:
    """Show what one is bound to; it is compared by the hook of the block after the last one."""
    task, slot = market.worked(task_id, place, account)
    market.ensure_in(task, TaskState.OPENING)
    ensure(place in panel(task) and slot.commitment is not None and slot.result is None, WrongTaskState)
    genesis = market.system.block_hash[0]
    commitment = replicas.replica_commitment(genesis, task_id, place, slot.provider, result, salt)
    ensure(slot.commitment == commitment, WrongResultOpening)
    task = with_slot(task, place, replace(slot, result=result))
    market.emit(ResultStated(task_id, place, result))
    is_last = all(each.result is not None for each in _working(task))
    market.put(task_id, replace(task, deadline=market.height) if is_last else task)


def dispute(market: TrainingStorage, task_id: bytes, task: Task, named: int | None) -> None:
    """Have a jury drawn, of replicas that are paid as those were whom it is about: their pay is locked now.

    It is the price alone: nobody audits replicas, so no premium is due.
    """
    ensure(named is None, NoSuchSegment)
    jury_from = len(task.slots)
    for place in range(jury_from, jury_from + JURORS):
        market.lock.lock(task.customer, Hold(TASK_ESCROW, slot_case(task_id, place)), task.slots[0].price)
    seek(market, task_id, replace(task, jury_from=jury_from))


# -------------------------------------------------------------------------------------------------- steps of the agenda


def seek(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Have devices offered as replicas, or jurors, for as long as bids could be committed to."""
    task = replace(task, state=TaskState.VOLUNTEERING, draws=task.draws + 1, volunteers=0, beacon_at=0, close=None)
    task = replace(task, deadline=market.height + task.windows.commit)
    market.open_auctions[task_id] = True
    market.put(task_id, task)
    market.emit(ReplicasSought(task_id, task.slots[0].price, _wanted(task), task.deadline))


def end_of_offers(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """No more offers; the beacon that draws is known to nobody yet."""
    del market.open_auctions[task_id]
    if task.volunteers < _wanted(task):
        _too_few(market, task_id, task)
    else:
        market.await_beacon(task_id, task)


def draw(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """The beacon is final: it names who has the other places; who was not drawn is set free."""
    beacon = market.beacon.value_at(task.beacon_at)
    if beacon is None:  # finality stood still for longer than the beacon remembers
        market.await_beacon(task_id, task)
        return
    auction = _draw_of(task_id, task)
    seed = tie_seed(auction, beacon)
    market.awards[auction] = Award(task.terms, seed)
    offered = {device: bid for device, bid in market.bids.under(auction) if bid is not None}
    chosen = replicas.drawn(offered, seed, _wanted(task))
    if len(chosen) < _wanted(task):
        _too_few(market, task_id, task)
        return
    until = market.height + task.windows.start
    for device in chosen:
        bid = offered[device].opened
        assert bid is not None, "who offers itself has nothing sealed"
        slot = Slot(bid.provider, device, bid.price, bid.blocks, bid.collateral, draw=task.draws)
        market.duties[slot.provider, task_id] = True
        del market.held_bids[auction, device]
        market.emit(TaskAwarded(task_id, len(task.slots), slot.provider, device, slot.price, until))
        task = replace(task, slots=(*task.slots, slot))
    market.put(task_id, replace(task, state=TaskState.STARTING, deadline=until, beacon_at=0))
    market.clear(task_id)


def not_started(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """The time to start is over: who has not is out, and the others work on if they can still be most."""
    task = _put_out(market, task_id, task, TaskOutcome.NOT_STARTED, [slot.started_at > 0 for slot in task.slots])
    if _is_lost(task):
        _too_few(market, task_id, task)
    else:
        run(market, task_id, task)


def run(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """All who take part have started."""
    task = replace(task, state=TaskState.RUNNING, started_at=market.height, reported_at=market.height)
    market.put(task_id, replace(task, deadline=silent_until(task)))
    market.emit(TaskRunning(task_id))


def silent_until(task: Task) -> int:
    """The last block in which a replica may be bound: twice what is promised, and the grace."""
    return task.started_at + 2 * task.slots[0].promised + task.windows.grace


def end_of_running(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Who is bound to nothing by now is gone; the others open, if they can still be most."""
    is_bound = [slot.commitment is not None for slot in task.slots]
    task = _put_out(market, task_id, task, TaskOutcome.DIED, is_bound)
    if _is_lost(task):
        _too_few(market, task_id, task)
    else:
        market.put(task_id, _to_opening(market, task))


def compare(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """All have opened, or their time is over: most agree, or nobody is paid."""
    task = _put_out(market, task_id, task, TaskOutcome.DIED, [slot.result is not None for slot in task.slots])
    found = replicas.finding_of_panel(task)
    finding, votes = found if found is not None else (None, 0)
    root = None if finding is None else finding[0]
    market.emit(ReplicasCompared(task_id, task.jury_from, len(panel(task)), votes, root))
    is_convicting = votes >= len(panel(task)) - replicas.CONVICTING_SPARE and task.jury_from > 0
    for place, said in replicas.findings_of(task, range(len(task.slots))).items():
        is_first = place < task.jury_from
        outcome = _outcome(finding, said, is_convicting=is_convicting and is_first)
        task = with_slot(task, place, replace(task.slots[place], outcome=outcome))
    if finding is None or task.jury_from:
        conclude(market, task_id, task)
        return
    task = replace(task, state=TaskState.SUBMITTED, finished_at=market.height, is_checked=True)
    market.put(task_id, replace(task, deadline=market.height + task.windows.accept))


def conclude(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """Settle all who are not out already, and end the task as it ends for who is paid."""
    for place, slot in enumerate(task.slots):
        if slot.outcome not in _SETTLED:
            is_late = slot.taken > slot.promised
            outcome = slot.outcome or (TaskOutcome.LATE if is_late else TaskOutcome.ON_TIME)
            purses.settle(market, task_id, task, place, outcome)
            task = with_slot(task, place, replace(slot, outcome=outcome))
    ending.free_slots(market, task_id, task)
    outcomes = [slot.outcome for slot in task.slots]
    paid = [each for each in outcomes if each in (TaskOutcome.ON_TIME, TaskOutcome.LATE)]
    ending.end(market, task_id, task, paid[0] if paid else TaskOutcome.UNDECIDED)


_SETTLED = (TaskOutcome.NOT_STARTED, TaskOutcome.DIED)


def _outcome(
    finding: replicas.ReplicaFinding | None, said: replicas.ReplicaFinding, *, is_convicting: bool
) -> TaskOutcome | None:
    """What becomes of who has said something; None: it is paid."""
    if finding is None:
        return TaskOutcome.UNDECIDED
    if said == finding:
        return None
    return TaskOutcome.LIED if is_convicting else TaskOutcome.OUTVOTED


def _put_out(market: TrainingStorage, task_id: bytes, task: Task, outcome: TaskOutcome, is_well: list[bool]) -> Task:
    """The task, with those settled who work now and did not do what they had to."""
    for place in panel(task):
        if not is_well[place] and task.slots[place].outcome is None:
            purses.settle(market, task_id, task, place, outcome)
            task = with_slot(task, place, replace(task.slots[place], outcome=outcome))
    return task


def _too_few(market: TrainingStorage, task_id: bytes, task: Task) -> None:
    """There are too few for most of them to agree: a jury is not heard, and what is left of a task is sold again."""
    market.clear(task_id)
    if task.jury_from:
        conclude(market, task_id, _unheard(task))
        return
    for place, slot in enumerate(task.slots):
        if slot.outcome is None:  # whose work is for nothing, and who is at no fault
            purses.settle(market, task_id, task, place, TaskOutcome.PARTNER_DIED)
    ending.free_slots(market, task_id, task)
    ending.reopen(market, task_id, task)


def _unheard(task: Task) -> Task:
    """The task with jurors who are not out, and found nothing together, neither paid nor charged."""
    for place in panel(task):
        if task.slots[place].outcome is None:
            task = with_slot(task, place, replace(task.slots[place], outcome=TaskOutcome.UNDECIDED))
    return task


def _with_room(market: TrainingStorage, task_id: bytes, task: Task, draw: bytes, bond: int) -> Task:
    """The task without the offer of the least bond: who fills a draw first, with many names, has not won it by that."""
    bonds = {device: bid.bond for device, bid in market.bids.under(draw) if bid is not None}
    weakest = min(bonds, key=lambda device: (bonds[device], device))
    ensure(bonds[weakest] < bond, TooManyBids)
    ending.clear_bid(market, task_id, draw, weakest)
    del market.bids[draw, weakest]
    return replace(task, volunteers=task.volunteers - 1)


def _to_opening(market: TrainingStorage, task: Task) -> Task:
    return replace(task, state=TaskState.OPENING, deadline=market.height + task.windows.reveal, close=None)


def _working(task: Task) -> list[Slot]:
    return [task.slots[place] for place in panel(task) if task.slots[place].outcome is None]


def _is_lost(task: Task) -> bool:
    """Whether those who are left are no more than half."""
    return 2 * len(_working(task)) <= len(panel(task))


def _wanted(task: Task) -> int:
    """How many are to be drawn."""
    return JURORS if task.jury_from else task.terms.slots - len(task.slots)


def _draw_of(task_id: bytes, task: Task) -> bytes:
    return auction_id(task_id, DRAWS_FROM + task.draws)
