"""Random calls about tasks, a function for each: by anybody, about any task, most of them out of place."""

from dataclasses import replace

from gpu_tasks.market.training.bids import BidOffer
from gpu_tasks.market.training.life.leaving import Stop
from gpu_tasks.market.training.showing import ShownStretch
from gpu_tasks.market.training.tasks import Milestone, TaskResult
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import TracedState, TraceFraudProof
from runtime.frame.call import Call
from simulation.replay.cast import Actor
from simulation.replay.task_deeds import TASKS_OPEN, an_amendment, an_order
from simulation.replay.world import OGPU, World

NO_STATE = TracedState(bytes(32), ())
NO_RESULT = TaskResult(bytes(32), bytes(32), 0)
NO_PROOF = TraceFraudProof(0, NO_STATE, NO_STATE, b"\1" * 32)


def _submit(world: World, _: Actor) -> Call:
    """Where enough are open already, an order that goes to no auction: devices are to race as well."""
    order = an_order(world)
    is_full = len(world.open_tasks()) >= TASKS_OPEN
    return TrainingMarket.submit(order=replace(order, auctions=0) if is_full else order)


def _commit_bid(world: World, who: Actor) -> Call:
    return TrainingMarket.commit_bid(task=world.task(), device=world.device(who), commitment=bytes(32))


def _reveal_bid(world: World, who: Actor) -> Call:
    offer = BidOffer(OGPU // 10, 4, OGPU)
    return TrainingMarket.reveal_bid(task=world.task(), device=world.device(who), offer=offer, salt=bytes(32))


def _start(world: World, _: Actor) -> Call:
    return TrainingMarket.start(task=world.task(), place=world.chance.choice((0, 0, 1, 255)))


def _checkpoint(world: World, _: Actor) -> Call:
    milestone = Milestone(world.chance.choice((0, 1, 2, 64)), bytes(32), 0, bytes(32))
    return TrainingMarket.checkpoint(task=world.task(), place=0, milestone=milestone)


def _hold_checkpoint(world: World, _: Actor) -> Call:
    return TrainingMarket.hold_checkpoint(task=world.task(), number=world.chance.choice((0, 1, 2, 255)), root=bytes(32))


def _finish(world: World, _: Actor) -> Call:
    return TrainingMarket.finish(task=world.task(), place=0, result=NO_RESULT)


def _report_input(world: World, _: Actor) -> Call:
    return TrainingMarket.report_input(task=world.task(), place=0)


def _accept(world: World, who: Actor) -> Call:
    return TrainingMarket.accept(task=world.task(who.stash.account))


def _dispute(world: World, who: Actor) -> Call:
    return TrainingMarket.dispute(
        task=world.task(who.stash.account), segment=world.chance.choice((None, 0, 1_022, 65_535))
    )


def _show(world: World, _: Actor) -> Call:
    shown = (ShownStretch(NO_STATE, NO_STATE),) * world.chance.choice((0, 1, 4))
    return TrainingMarket.show(task=world.task(), place=0, stretches=shown)


def _amend(world: World, who: Actor) -> Call:
    task_id = world.task(who.stash.account)
    task = world.bound[TrainingMarket].tasks[task_id]
    change = Stop() if task is None else an_amendment(world, task)
    return TrainingMarket.amend(task=task_id, change=change)


def _cancel(world: World, _: Actor) -> Call:
    return TrainingMarket.cancel(task=world.task())


def _close(world: World, _: Actor) -> Call:
    return TrainingMarket.close(task=world.task(), pay=world.amount(), back=world.chance.choice((0, OGPU)))


def _claim_fraud(world: World, _: Actor) -> Call:
    return TrainingMarket.claim_fraud(task=world.task(), commitment=bytes(32))


def _show_fraud(world: World, _: Actor) -> Call:
    return TrainingMarket.show_fraud(task=world.task(), place=0, proof=NO_PROOF, salt=bytes(32))


def _leave(world: World, _: Actor) -> Call:
    return TrainingMarket.leave(task=world.task())


def _volunteer(world: World, who: Actor) -> Call:
    return TrainingMarket.volunteer(task=world.task(), device=world.device(who))


def _open_result(world: World, _: Actor) -> Call:
    return TrainingMarket.open_result(task=world.task(), place=0, result=NO_RESULT, salt=bytes(32))


TASK_CALLS = (
    _submit, _commit_bid, _reveal_bid, _start, _checkpoint, _hold_checkpoint, _finish, _report_input, _accept, _dispute,
    _show, _amend, _cancel, _close, _claim_fraud, _show_fraud,
    _leave, _volunteer, _open_result,
)  # fmt: skip
