"""Every call of TrainingMarket by every wrong signer, at every wrong time, with every wrong argument."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.devices.events import NotOwner
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.tasks import TASKS_OPEN_MAX, TaskResult, TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.encoding.types import CAP_GRAINS
from runtime.frame.errors import FundsUnavailable
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, refused, signed
from task_chain import PRICE, TaskChain, a_milestone, an_offer, an_order, hold, with_offers

STRANGER = Keys("stranger")
RESULT = TaskResult(b"r" * 32, b"o" * 32, 7)


def at(state: TaskState) -> TaskChain:
    """Return a task of Alice's, with Bob as standby, at a stage."""
    chain = TaskChain()
    chain.submit()
    if state is TaskState.COMMITTING:
        return chain
    if state is TaskState.REVEALING:
        chain.do(chain.alice, chain.commit_call(chain.alice, an_offer(6 * OGPU)))
        chain.until(TaskState.REVEALING)
        return chain
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    if state in (TaskState.RUNNING, TaskState.CLAIMED):
        chain.start(chain.alice)
    if state is TaskState.CLAIMED:
        chain.finish(chain.alice)
    assert chain.state() is state
    return chain


def calls(chain: TaskChain) -> dict[str, Any]:
    """Return every call about a task, with right arguments. `SIGNERS` names the allowed signers."""
    task, alice = chain.task, chain.alice
    return {
        "commit_bid": chain.commit_call(alice, an_offer(6 * OGPU)),
        "reveal_bid": chain.reveal_call(alice, an_offer(6 * OGPU)),
        "start": TrainingMarket.start(task=task, place=0),
        "checkpoint": TrainingMarket.report_milestone(task=task, place=0, milestone=a_milestone(1)),
        "confirm_checkpoint": hold(chain, 1),
        "finish": TrainingMarket.finish(task=task, place=0, result=RESULT),
        "report_input": TrainingMarket.report_input(task=task, place=0),
        "stop": TrainingMarket.stop(task=task),
        "cancel": TrainingMarket.cancel(task=task),
    }


STATES = {
    "commit_bid": (TaskState.COMMITTING,),
    "reveal_bid": (TaskState.REVEALING,),
    "start": (TaskState.STARTING,),
    "checkpoint": (TaskState.RUNNING,),
    "confirm_checkpoint": (TaskState.RUNNING,),
    "finish": (TaskState.RUNNING,),
    "report_input": (TaskState.STARTING,),
    "stop": (TaskState.RUNNING,),
    "cancel": (TaskState.COMMITTING, TaskState.REVEALING, TaskState.STARTING),
}
TRIED = (TaskState.COMMITTING, TaskState.REVEALING, TaskState.STARTING, TaskState.RUNNING, TaskState.CLAIMED)
CUSTOMERS = ("stop", "cancel")


@pytest.mark.parametrize("state", TRIED)
def test_a_call_at_a_wrong_time_changes_nothing(state: TaskState) -> None:
    chain = at(state)
    before = chain.now()
    for name, call in calls(chain).items():
        if state in STATES[name]:
            continue
        signer = CUSTOMER.stash if name in (*CUSTOMERS, "confirm_checkpoint") else chain.alice.provider
        errors = (ev.WrongTaskState, ev.NotSlotOwner)  # no provider has a slot yet
        bound = chain.chain.now()
        with pytest.raises(errors):
            signed(signer, call)(bound)
    assert chain.now() == before


WRONG_SIGNERS = {
    "commit_bid": (TaskState.COMMITTING, NotOwner, ("bob", "stranger", "customer")),
    "reveal_bid": (TaskState.REVEALING, ev.NoSuchBid, ("bob", "stranger", "customer")),
    "start": (TaskState.STARTING, ev.NotSlotOwner, ("bob", "stranger", "customer")),
    "checkpoint": (TaskState.RUNNING, ev.NotSlotOwner, ("bob", "stranger", "customer")),
    "confirm_checkpoint": (TaskState.RUNNING, ev.MayNotConfirm, ("alice", "charlie", "stranger")),
    "finish": (TaskState.RUNNING, ev.NotSlotOwner, ("bob", "stranger", "customer")),
    "report_input": (TaskState.STARTING, ev.NotSlotOwner, ("bob", "stranger", "customer")),
    "stop": (TaskState.RUNNING, ev.NotTaskCustomer, ("alice", "bob", "stranger")),
    "cancel": (TaskState.STARTING, ev.NotTaskCustomer, ("alice", "bob", "stranger")),
}


@pytest.mark.parametrize("name", WRONG_SIGNERS)
@pytest.mark.parametrize("role", ["stash", "provider"])
def test_a_wrong_signer_is_refused(name: str, role: str) -> None:
    state, error, signers = WRONG_SIGNERS[name]
    chain = at(state)
    call = calls(chain)[name]
    for signer in signers:
        bound = chain.chain.now()
        refused(Keys(signer).public(role), call, error)(bound)


@pytest.mark.parametrize("name", ["start", "checkpoint", "finish", "commit_bid", "reveal_bid", "report_input"])
@pytest.mark.parametrize("role", ["stash", "provider"])
def test_stash_and_provider_key_may_both_act(name: str, role: str) -> None:
    chain = at(WRONG_SIGNERS[name][0])
    signed(chain.alice.public(role), calls(chain)[name])(chain.chain.now())


def test_the_standby_may_hold_with_either_key() -> None:
    chain = at(TaskState.RUNNING)
    alice, bob = chain.keys[:2]
    chain.report(alice, 1)
    for account in (bob.stash, bob.provider, CUSTOMER.stash):
        signed(account, calls(chain)["confirm_checkpoint"])(chain.chain.now())


@pytest.mark.parametrize("name", STATES)
def test_a_task_that_is_unknown_or_ended_is_refused(name: str) -> None:
    chain = at(TaskState.COMMITTING)
    call, task = calls(chain)[name], chain.task
    chain.ask(TrainingMarket.cancel(task=task))
    assert chain.state() is TaskState.ENDED
    refused(CUSTOMER.stash, call, ev.UnknownTask)(chain.chain.now())


# ---------------------------------------------------------------------------------------------------------- the order


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("price_max", 999),
        ("price_max", CAP_GRAINS + 1),
        ("time_value", PRICE + 1),
        ("loss", CAP_GRAINS + 1),
        ("collateral_min", CAP_GRAINS + 1),
        ("blocks_max", 0),
        ("blocks_max", 1_000_001),
        ("run_blocks", 7_201),
        ("slots", 0),
        ("slots", 33),
        ("milestones", 0),
        ("milestones", 65),
        ("segments", 1_024),
        ("auctions", 0),
        ("auctions", 5),
        ("classes", 0),
        ("classes", 8),
        ("check_ppm", 0),
        ("check_ppm", 1_000_001),
    ],
)
def test_an_order_that_does_not_hold_together_is_refused(field: str, value: int) -> None:
    chain = TaskChain()
    order = an_order(**{field: value})
    chain.block(refused(CUSTOMER.stash, TrainingMarket.submit(order=order), ev.UnsoundOrder))
    sound = value - 1 if value > 1 and field != "price_max" else value + 1
    if field not in ("price_max", "collateral_min", "loss"):  # more than anyone here can lock
        chain.submit(**{field: sound})


def test_a_sealing_that_is_not_final_or_long_ago_is_refused() -> None:
    chain = TaskChain(constants={"TrainingMarket.sealed_age_max": 3})
    chain.blocks(6)
    final = chain.height  # the block that is made refers to it
    for sealed_at in (final + 1, final - 4):
        call = TrainingMarket.submit(order=an_order(sealed_at=sealed_at))
        chain.block(refused(CUSTOMER.stash, call, ev.StaleOrder))
        final += 1
    chain.submit(sealed_at=final)
    chain.submit(sealed_at=final - 2)


def test_who_cannot_lock_the_task_submits_none() -> None:
    chain = TaskChain()
    order = an_order(price_max=6_000 * OGPU)
    chain.block(refused(CUSTOMER.stash, TrainingMarket.submit(order=order), FundsUnavailable))


def test_no_more_tasks_than_may_be_open() -> None:
    chain = TaskChain(check=lambda _bound, _issued: None)
    chain.block(lambda bound: bound[TrainingMarket].open_task_count.set(TASKS_OPEN_MAX))
    chain.block(refused(CUSTOMER.stash, TrainingMarket.submit(order=an_order()), ev.TooManyTasks))


# ---------------------------------------------------------------------------------------------------------- the work


def test_milestones_come_one_after_another_and_the_last_is_the_result() -> None:
    chain = at(TaskState.RUNNING)
    alice = chain.alice

    def wrong(number: int) -> None:
        call = TrainingMarket.report_milestone(task=chain.task, place=0, milestone=a_milestone(number))
        refused(alice.provider, call, ev.WrongMilestone)(chain.chain.now())

    for number in (0, 2, 4):
        wrong(number)
    chain.report(alice, 1)
    wrong(1)
    chain.report(alice, 2)
    chain.report(alice, 3)
    wrong(4)
    chain.finish(alice)
    assert chain.state() is TaskState.CLAIMED


def test_a_milestone_counts_once_and_only_as_it_was_stated() -> None:
    chain = at(TaskState.RUNNING)
    alice = chain.alice
    chain.ask(hold(chain, 1), ev.NothingToConfirm)
    chain.report(alice, 1)
    chain.ask(hold(chain, 2), ev.NothingToConfirm)
    chain.ask(hold(chain, 1, b"x" * 32), ev.NothingToConfirm)  # Of another root, by the earlier provider
    chain.count(1)
    chain.ask(hold(chain, 1), ev.NothingToConfirm)
    chain.report(alice, 2)
    chain.report(alice, 3)
    chain.ask(hold(chain, 2), ev.NothingToConfirm)  # the newest alone
    chain.count(3)
    assert chain.now().done == 3


def test_partners_keep_step_and_count_together() -> None:
    chain = TaskChain()
    chain.submit(slots=2)
    chain.auction(with_offers(chain.keys, 5 * OGPU, 6 * OGPU, 7 * OGPU))
    first, second = chain.providers()
    chain.start(first)
    for place, error in ((0, ev.DoneAlready), (1, ev.NotSlotOwner), (2, ev.NotSlotOwner)):
        refused(first.provider, TrainingMarket.start(task=chain.task, place=place), error)(chain.chain.now())
    chain.start(second, 1)
    chain.report(first, 1)
    ahead = TrainingMarket.report_milestone(task=chain.task, place=0, milestone=a_milestone(2))
    chain.do(first, ahead, ev.DoneAlready)
    chain.ask(hold(chain, 1), ev.NothingToConfirm)
    chain.report(second, 1, 1, root=b"x" * 32)
    chain.ask(hold(chain, 1), ev.NothingToConfirm)  # two roots
    chain.report(first, 2)
    chain.report(second, 2, 1)
    chain.count(2)
    assert chain.now().done == 2


def test_checkers_of_a_long_run_have_half_of_what_a_bid_may_promise() -> None:
    chain = TaskChain()
    order = an_order(blocks_max=20_000, run_blocks=10_001)
    chain.block(refused(CUSTOMER.stash, TrainingMarket.submit(order=order), ev.UnsoundOrder))
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=replace(order, run_blocks=10_000))))
