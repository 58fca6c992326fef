"""The tasks' API for customers and providers: records, auctions, bids, and each side's next duty."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.training import training_api
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.selection import select
from gpu_tasks.market.training.task_duties import TaskDeed, TaskDuty, TaskRole, bid_duty
from gpu_tasks.market.training.tasks import TaskState, dispute_id_of, slot_case
from gpu_tasks.market.training.training_api import TaskAuction, TaskStatus, TrainingApi
from gpu_tasks.market.training.training_market import TrainingMarket
from node.rpc.methods.state import MAX_CALL_KEYS
from replica_chain import bind, open_call, replicated
from runtime.encoding.codec import codec
from runtime.encoding.types import Hash
from runtime.frame.api import Apis
from runtime.state.overlay import RecordedReads
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, signed
from task_chain import TaskChain, an_offer, awarded, hold, time_order, with_offers, work

AFTER = codec(Hash | None)


def asked(chain: TaskChain, name: str, data: bytes) -> Any:
    """Return an answer after its encoding and decoding, proven with as few reads as a node allows."""
    apis = Apis(chain.chain.runtime, (TrainingApi,))
    reads = RecordedReads(chain.chain.state, MAX_CALL_KEYS)
    raw = apis.call(reads, GENESIS_HASH, f"TrainingApi_{name}", data)
    return apis.methods[f"TrainingApi_{name}"].output.decode(raw)


def status(chain: TaskChain) -> TaskStatus:
    found: TaskStatus = asked(chain, "task", chain.task)
    return found


def on_sale(chain: TaskChain, after: bytes | None = None) -> list[bytes]:
    return [each.id for each in asked(chain, "auctions", AFTER.encode(after))]


def duty(chain: TaskChain, keys: Keys) -> TaskDuty:
    """Return the only duty."""
    (found,) = asked(chain, "task_duties", keys.stash)
    assert isinstance(found, TaskDuty)
    assert found.task == chain.task
    assert found.state is chain.state()
    return found


def said(chain: TaskChain, keys: Keys) -> tuple[TaskRole, TaskDeed, int]:
    """Return a party's next duty, and its milestone."""
    found = duty(chain, keys)
    if found.deed is not TaskDeed.WAIT:
        assert chain.height < found.opens_at <= found.until
    return found.role, found.deed, found.number


# --------------------------------------------------------------------------------------------------------------- tasks


def test_a_task_is_shown_with_what_it_waits_for() -> None:
    chain = TaskChain()
    assert asked(chain, "task", b"?" * 32) is None
    chain.submit()
    shown = status(chain)
    assert shown == TaskStatus(chain.task, chain.now(), chain.height + 4, 0, 0, (), None)
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU))
    chain.start(chain.alice)
    assert status(chain).until == chain.now().deadline > chain.height
    chain.report(chain.alice, 1)
    assert status(chain).countable == 1
    chain.do(chain.bob, hold(chain, 1))
    assert status(chain).countable == 1, "its runner-up has signed for it, and nothing is owed for that"
    chain.count(1)
    assert status(chain).countable == 0, "its customer has signed for it"
    chain.finish(chain.alice)
    assert (chain.state(), status(chain).until) == (TaskState.CLAIMED, chain.height), "the next block opens the claim"
    chain.block()
    assert (status(chain).until, status(chain).awaits) == (0, 0)
    assert (status(chain).claims, status(chain).dispute) == (((0, slot_case(chain.task, 0)),), None)
    chain.until(TaskState.ENDED)
    assert (status(chain).claims, status(chain).dispute) == ((), None)


def test_a_reported_input_is_shown_as_a_dispute() -> None:
    chain, _ = awarded(size=12)
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    assert status(chain).dispute == dispute_id_of(chain.task, 0)
    assert said(chain, chain.alice) == (TaskRole.SLOT, TaskDeed.WAIT, 0)
    while chain.state() is TaskState.DISPUTED:
        chain.block()
    assert status(chain).dispute is None


def test_a_beacon_that_is_awaited_is_said() -> None:
    chain = TaskChain(final_lag=6)
    chain.submit()
    chain.block(signed(chain.alice.provider, chain.commit_call(chain.alice, an_offer(6 * OGPU))))
    chain.until(TaskState.REVEALING)
    chain.block(signed(chain.alice.provider, chain.reveal_call(chain.alice, an_offer(6 * OGPU))))
    chain.until(TaskState.AWARDING)
    assert status(chain).awaits == chain.now().beacon_at > chain.height
    assert on_sale(chain) == []


def test_a_customer_s_open_tasks_are_shown_the_newest_first() -> None:
    chain = TaskChain()
    ids = [chain.submit(task_hash=bytes([number]) * 32) for number in range(4)]
    chain.task = ids[2]
    chain.ask(TrainingMarket.cancel(task=ids[2]))
    shown = asked(chain, "tasks_of", CUSTOMER.stash)
    assert [each.id for each in shown] == [ids[3], ids[1], ids[0]]
    assert asked(chain, "tasks_of", chain.alice.stash) == ()


def test_of_very_many_tasks_of_a_customer_the_newest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain()
    ids = [chain.submit() for _ in range(5)]
    monkeypatch.setattr(training_api, "TASKS_SHOWN_MAX", 3)
    assert [each.id for each in asked(chain, "tasks_of", CUSTOMER.stash)] == ids[:1:-1]
    monkeypatch.setattr(training_api, "TASKS_LOOKED_AT_MAX", 2)
    assert [each.id for each in asked(chain, "tasks_of", CUSTOMER.stash)] == ids[:2:-1]


# ------------------------------------------------------------------------------------------------------------ auctions


def test_tasks_that_take_bids_are_shown_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain(constants={"TrainingMarket.commit_blocks": 20})
    ids = {chain.submit() for _ in range(5)}
    chain.cancel()
    ids.remove(chain.task)
    monkeypatch.setattr(training_api, "AUCTIONS_SHOWN_MAX", 3)
    first = on_sale(chain)
    second = on_sale(chain, first[-1])
    assert (len(first), len(second)) == (3, 1)
    assert {*first, *second} == ids
    assert on_sale(chain, second[-1]) == []


def test_a_task_is_on_sale_from_its_submission_to_its_last_reveal_and_again_when_its_rest_is() -> None:
    chain, _ = awarded(6 * OGPU)
    assert on_sale(chain) == []
    chain.until(TaskState.COMMITTING)
    assert on_sale(chain) == [chain.task]
    chain.until(TaskState.ENDED)
    assert on_sale(chain) == []


def test_bids_are_shown_with_all_that_a_selection_needs() -> None:
    chain = TaskChain()
    chain.submit()
    bids = with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU)
    chain.auction(bids, unopened=(chain.keys[2],))
    (auction,) = asked(chain, "bids", chain.task)
    assert isinstance(auction, TaskAuction)
    assert (auction.number, auction.id) == (1, auction_id(chain.task, 1))
    assert {each.bid.provider for each in auction.bids} == {keys.stash for keys in bids}
    assert [each.device for each in auction.bids] == sorted(keys.device for keys in bids)
    assert auction.award is not None
    assert auction.award.seed is not None
    opened = [each.bid.opened for each in auction.bids if each.bid.opened is not None]
    assert len(opened) == 2
    again = select(auction.award.terms, opened, auction.award.seed)
    assert [placed.bid.provider for placed in again.winners] == [slot.provider for slot in chain.now().slots]
    assert [placed.pay for placed in again.winners] == [slot.price for slot in chain.now().slots]
    assert [each.is_held for each in auction.bids if each.bid.opened is None] == [True], "until it is cleared"
    chain.blocks(3)
    (auction,) = asked(chain, "bids", chain.task)
    assert not any(each.is_held for each in auction.bids)
    assert asked(chain, "bids", b"?" * 32) == ()


def test_the_auctions_of_a_task_are_shown_one_after_another() -> None:
    chain, _ = awarded(6 * OGPU)
    chain.until(TaskState.COMMITTING)
    first, second = asked(chain, "bids", chain.task)
    assert (first.number, second.number) == (1, 2)
    assert len(first.bids) == 1
    assert (second.award, second.bids) == (None, ())


# -------------------------------------------------------------------------------------------------------------- duties


def test_a_bidder_is_told_when_to_open_its_bid() -> None:
    chain = TaskChain()
    chain.submit()
    keys = chain.alice
    assert asked(chain, "task_duties", keys.stash) == ()
    chain.block(signed(keys.provider, chain.commit_call(keys, an_offer(6 * OGPU))))
    assert said(chain, keys) == (TaskRole.BID, TaskDeed.REVEAL, 0)
    planned = duty(chain, keys)
    assert planned.opens_at == chain.now().deadline + 1
    chain.until(TaskState.REVEALING)
    opened = duty(chain, keys)
    assert (opened.opens_at, opened.until) == (chain.height + 1, planned.until)
    assert opened.until == chain.now().deadline
    chain.block(signed(keys.provider, chain.reveal_call(keys, an_offer(6 * OGPU))))
    assert said(chain, keys) == (TaskRole.BID, TaskDeed.WAIT, 0)


def test_a_bid_that_was_not_opened_in_time_waits_for_its_end() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU), unopened=(chain.bob,))
    assert said(chain, chain.bob) == (TaskRole.BID, TaskDeed.WAIT, 0)
    assert duty(chain, chain.bob).until == 0
    chain.blocks(2)
    assert asked(chain, "task_duties", chain.bob.stash) == ()


def test_a_winner_is_told_what_is_next_until_its_result_and_a_runner_up_what_it_may_hold() -> None:
    chain, _ = awarded()
    winner, standby = chain.keys[:2]
    assert said(chain, winner) == (TaskRole.SLOT, TaskDeed.START, 0)
    assert duty(chain, winner).until == chain.now().deadline
    assert said(chain, standby) == (TaskRole.STANDBY, TaskDeed.WAIT, 0)
    chain.start(winner)
    assert said(chain, winner) == (TaskRole.SLOT, TaskDeed.CHECKPOINT, 1)
    chain.report(winner, 1)
    assert said(chain, winner) == (TaskRole.SLOT, TaskDeed.CHECKPOINT, 2)
    assert said(chain, standby) == (TaskRole.STANDBY, TaskDeed.HOLD_CHECKPOINT, 1)
    chain.do(standby, hold(chain, 1))
    assert said(chain, standby) == (TaskRole.STANDBY, TaskDeed.WAIT, 0), "bound no more, and asked first"
    chain.report(winner, 2)
    chain.report(winner, 3)
    assert said(chain, winner) == (TaskRole.SLOT, TaskDeed.FINISH, 4)
    chain.finish(winner)
    assert said(chain, winner) == (TaskRole.SLOT, TaskDeed.WAIT, 0)


def test_who_took_over_is_told_which_milestone_of_its_rest_is_the_result() -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2)
    chain.until(TaskState.ASKING)
    chain.start(chain.bob)
    assert said(chain, chain.bob) == (TaskRole.SLOT, TaskDeed.CHECKPOINT, 3)
    chain.report(chain.bob, 3)
    assert said(chain, chain.bob) == (TaskRole.SLOT, TaskDeed.FINISH, 4)


def test_a_runner_up_of_a_rest_holds_the_next_milestone_and_none_that_is_counted() -> None:
    """Milestones are numbered over all legs, and `done` counts those of the leg alone."""
    chain, _ = awarded(6 * OGPU)
    work(chain, chain.alice, milestones=1)
    chain.until(TaskState.COMMITTING)
    chain.auction(with_offers(chain.keys[1:], 6 * OGPU, 7 * OGPU, 8 * OGPU))
    winner, standby = chain.keys[1:3]
    chain.start(winner)
    assert chain.now().behind == 1
    chain.report(winner, 2)
    assert said(chain, standby) == (TaskRole.STANDBY, TaskDeed.HOLD_CHECKPOINT, 2)
    chain.count(2)
    assert said(chain, standby) == (TaskRole.STANDBY, TaskDeed.WAIT, 0)


def test_a_window_that_is_over_leaves_nothing_to_do() -> None:
    chain, _ = awarded()
    last = chain.now().deadline
    chain.blocks(last - 1 - chain.height)
    assert said(chain, chain.alice) == (TaskRole.SLOT, TaskDeed.START, 0)
    chain.block()
    assert said(chain, chain.alice) == (TaskRole.SLOT, TaskDeed.WAIT, 0)


def test_a_runner_up_that_is_asked_is_told_that_it_may_take_over() -> None:
    chain, _ = awarded()
    winner, standby = chain.keys[:2]
    chain.start(winner)
    chain.report(winner, 1)
    chain.count(1)
    chain.until(TaskState.ASKING)
    assert said(chain, standby) == (TaskRole.STANDBY, TaskDeed.TAKE_OVER, 1)
    assert asked(chain, "task_duties", winner.stash) == ()
    chain.start(standby)
    assert said(chain, standby) == (TaskRole.SLOT, TaskDeed.CHECKPOINT, 2), "counted over all legs"


def test_partners_keep_step_and_who_is_ahead_waits() -> None:
    chain, _ = awarded(6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    first, second = (next(keys for keys in chain.keys if keys.stash == slot.provider) for slot in chain.now().slots)
    chain.start(first, 0)
    assert said(chain, first) == (TaskRole.SLOT, TaskDeed.WAIT, 0)
    chain.start(second, 1)
    chain.report(first, 1, 0)
    assert said(chain, first) == (TaskRole.SLOT, TaskDeed.WAIT, 0)
    assert said(chain, second) == (TaskRole.SLOT, TaskDeed.CHECKPOINT, 1)
    assert duty(chain, second).place == 1
    chain.report(second, 1, 1, root=b"?" * 32)
    assert status(chain).countable == 0, "they do not agree"
    chain.stop()
    assert asked(chain, "task_duties", first.stash) == ()


def test_a_bid_of_an_auction_that_is_over_is_opened_no_more() -> None:
    chain = TaskChain()
    chain.submit()
    later, height = replace(chain.now(), auction=2), chain.height + 1
    duties = [bid_duty(chain.task, later, auction, b"d" * 32, height, is_opened=False) for auction in (1, 2)]
    assert [(each.auction, each.deed) for each in duties] == [(1, TaskDeed.WAIT), (2, TaskDeed.REVEAL)]


def test_a_crowd_of_tasks_does_not_hide_those_that_a_provider_s_devices_are_bound_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_api, "DUTY_TASKS_MAX", 1)
    chain, _ = awarded()
    bound = chain.chain.now()
    device = bound[Devices].devices[chain.alice.device]
    assert device is not None
    assert device.assignment == chain.task
    for number in range(50):
        bound[TrainingMarket].duties[chain.alice.stash, bytes([number]) * 32] = True
    chain.chain.state = chain.chain.state.updated(bound.overlay.changes())
    assert duty(chain, chain.alice).deed is TaskDeed.START


def test_who_has_more_slots_than_are_shown_is_shown_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_api, "TASK_DUTIES_MAX", 2)
    chain, _ = awarded()
    bound = chain.chain.now()
    (slot,) = chain.now().slots
    bound[TrainingMarket].tasks[chain.task] = replace(chain.now(), slots=(slot,) * 3)
    chain.chain.state = chain.chain.state.updated(bound.overlay.changes())
    assert [each.place for each in asked(chain, "task_duties", slot.provider)] == [0, 1]


def test_an_interval_is_due_once_it_is_over_and_a_program_may_end_before() -> None:
    chain = TaskChain()
    chain.submit(**time_order(blocks_max=6, milestones=2))
    alice, bob = chain.keys[:2]
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, blocks=6))
    chain.start(alice)
    began = chain.height
    found = duty(chain, alice)
    assert (found.deed, found.number, found.opens_at) == (TaskDeed.CHECKPOINT, 1, began + 3)
    assert found.until == began + 3 + chain.now().windows.grace
    chain.blocks_to(began + 2)
    chain.report(alice, 1)
    found = duty(chain, alice)
    assert (found.deed, found.number, found.opens_at) == (TaskDeed.FINISH, 2, began + 4)
    assert duty(chain, bob).deed is TaskDeed.WAIT
    assert status(chain).countable == 0


def test_a_replica_is_told_to_bind_itself_then_to_open_and_then_to_wait() -> None:
    chain, _, whose = replicated()
    assert said(chain, whose[0]) == (TaskRole.SLOT, TaskDeed.BIND, 1)
    for place, keys in enumerate(whose):
        bind(chain, keys, place)
    assert said(chain, whose[0]) == (TaskRole.SLOT, TaskDeed.OPEN_RESULT, 0)
    chain.do(whose[0], open_call(chain, whose[0], 0))
    assert said(chain, whose[0]) == (TaskRole.SLOT, TaskDeed.WAIT, 0)
    assert said(chain, whose[1]) == (TaskRole.SLOT, TaskDeed.OPEN_RESULT, 0)


def test_a_lease_is_over_when_its_time_is_up() -> None:
    chain = TaskChain()
    chain.submit(**time_order(blocks_max=3, milestones=1, is_lease=True))
    alice = chain.alice
    chain.auction(with_offers(chain.keys, 6 * OGPU, blocks=3))
    chain.start(alice)
    found = duty(chain, alice)
    assert (found.deed, found.opens_at) == (TaskDeed.FINISH, chain.height + 3)
