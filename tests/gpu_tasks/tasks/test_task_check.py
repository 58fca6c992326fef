"""Tasks checked against their records: every course passes, and every change is found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.devices.records import DeviceClass
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.orders import CheckedBy
from gpu_tasks.market.training.tasks import Task, TaskState
from gpu_tasks.tasks.task_check import AuctionRecords, TaskCheck, check_task
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU
from task_chain import COLLATERAL, TaskChain, an_offer, awarded, finish_and_pass, hold, with_offers, work


def records(chain: TaskChain) -> list[AuctionRecords]:
    found = []
    for number in range(1, chain.now().auction + 1):
        auction = auction_id(chain.task, number)
        bids = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
        found.append(AuctionRecords(chain.market.awards[auction], bids))
    return found


def reckoned(chain: TaskChain, task: Task | None = None) -> dict[str, TaskCheck]:
    count = chain.market.submission_counts[CUSTOMER.stash]
    checks = check_task(GENESIS_HASH, chain.task, task or chain.now(), count, records(chain))
    assert len({check.what for check in checks}) == len(checks)
    return {check.what: check for check in checks}


def wrong(checks: dict[str, TaskCheck]) -> list[str]:
    """Return the failed checks, each with the codes of its differences."""
    failed = (check for check in checks.values() if check.is_right is False)
    return [f"{check.what}: {code}" for check in failed for code in check.codes or ("",)]


def undisturbed() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3)
    finish_and_pass(chain, chain.alice)
    return chain


def taken_over_while_bound() -> TaskChain:
    chain, _ = awarded()
    chain.blocks(5)
    work(chain, chain.bob, milestones=2)
    return chain


def died_before_it_counted() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=1, counted=0)
    chain.until(TaskState.STARTING)
    work(chain, chain.bob, milestones=3)
    finish_and_pass(chain, chain.bob)
    return chain


def asked_for_the_rest() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2)
    chain.until(TaskState.ASKING)
    chain.start(chain.bob)
    chain.report(chain.bob, 3)
    chain.count(3)
    finish_and_pass(chain, chain.bob)
    return chain


def auctioned_again() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3)
    chain.until(TaskState.ASKING)
    chain.until(TaskState.COMMITTING)
    chain.auction(with_offers(chain.keys[2:], 2 * OGPU, 3 * OGPU, blocks=20))
    chain.start(chain.keys[2])
    return chain


def a_gang_with_a_replaced_place() -> TaskChain:
    chain, _ = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, 8 * OGPU, slots=2)
    chain.start(chain.chain.keys_of(chain.now().slots[0].provider))
    chain.blocks(4)
    return chain


def held_by_its_standby_too() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2, counted=1)
    chain.do(chain.bob, hold(chain, 2))
    return chain


def stated_again_after_a_takeover() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2)
    chain.until(TaskState.ASKING)
    chain.start(chain.bob)
    chain.report(chain.bob, 3)
    return chain


def taken_back_at_its_second_auction() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3)
    chain.until(TaskState.ASKING)
    chain.until(TaskState.COMMITTING)
    bidder = chain.keys[2]
    chain.do(bidder, chain.commit_call(bidder, an_offer(2 * OGPU, blocks=20)))
    chain.cancel()
    return chain


def without_a_bid() -> TaskChain:
    chain = TaskChain()
    chain.submit()
    chain.until(TaskState.ENDED)
    return chain


def with_too_few() -> TaskChain:
    chain = TaskChain()
    chain.submit(slots=2)
    chain.auction({chain.alice: an_offer(6 * OGPU)})
    return chain


def with_nothing_opened() -> TaskChain:
    chain = TaskChain()
    chain.submit()
    bids = with_offers(chain.keys, 6 * OGPU, 7 * OGPU)
    chain.auction(bids, unopened=tuple(bids))
    return chain


def taken_back(state: TaskState) -> TaskChain:
    """Return a task with three bids that its customer cancels in a stage before its award."""
    chain = TaskChain()
    chain.submit()
    bids = with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU)
    for keys, offer in bids.items():
        chain.do(keys, chain.commit_call(keys, offer))
    if state is not TaskState.COMMITTING:
        chain.until(TaskState.REVEALING)
        for keys, offer in bids.items():
            chain.do(keys, chain.reveal_call(keys, offer))
    chain.until(state)
    chain.cancel()
    assert chain.now().outcome is TaskOutcome.CANCELLED_BEFORE_AWARD
    return chain


def taken_back_while_bids_were_taken() -> TaskChain:
    return taken_back(TaskState.COMMITTING)


def taken_back_while_bids_were_opened() -> TaskChain:
    return taken_back(TaskState.REVEALING)


def taken_back_before_the_beacon() -> TaskChain:
    return taken_back(TaskState.AWARDING)


def taken_back_after_the_award() -> TaskChain:
    chain, _ = awarded()
    chain.cancel()
    return chain


def stopped() -> TaskChain:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=2)
    chain.stop()
    return chain


STORIES: tuple[Callable[[], TaskChain], ...] = (
    undisturbed, taken_over_while_bound, died_before_it_counted, asked_for_the_rest, auctioned_again,
    a_gang_with_a_replaced_place, without_a_bid, with_too_few, with_nothing_opened,
    taken_back_while_bids_were_taken, taken_back_while_bids_were_opened, taken_back_before_the_beacon,
    taken_back_after_the_award, stopped, held_by_its_standby_too, stated_again_after_a_takeover,
    taken_back_at_its_second_auction,
)  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_whatever_becomes_of_a_task_is_right(story: Callable[[], TaskChain]) -> None:
    assert wrong(reckoned(story())) == []


@pytest.mark.parametrize("state", [TaskState.COMMITTING, TaskState.REVEALING, TaskState.AWARDING])
def test_of_a_task_that_was_taken_back_no_award_is_missed(state: TaskState) -> None:
    check = reckoned(taken_back(state))["auction 1"]
    assert (check.is_right, check.codes) == (True, ("cancelled",))
    assert "3 bids" in check.says


def test_what_was_taken_back_later_says_who_won_before() -> None:
    checks = reckoned(taken_back_at_its_second_auction())
    assert checks["auction 1"].says.startswith("1 of 3 bids")
    assert "for 7 oGPU" in checks["auction 1"].says
    assert checks["auction 1"].codes == ("not_compared",)
    assert checks["auction 2"].codes == ("cancelled",)


def test_it_is_right_in_every_block_of_a_life() -> None:
    chain = TaskChain()
    chain.submit()
    seen = {chain.state()}
    bids = with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU)
    for keys, offer in bids.items():
        chain.do(keys, chain.commit_call(keys, offer))
        assert wrong(reckoned(chain)) == []
    assert reckoned(chain)["auction 1"].is_right is None
    chain.until(TaskState.REVEALING)
    for keys, offer in bids.items():
        chain.do(keys, chain.reveal_call(keys, offer))
    while chain.state() is not TaskState.STARTING:
        seen.add(chain.state())
        assert wrong(reckoned(chain)) == []
        chain.block()
    assert {TaskState.COMMITTING, TaskState.AWARDING} <= seen
    checks = reckoned(chain)
    assert checks["auction 1"].is_right
    assert checks["auction 1"].codes == ()
    assert checks["auction 1"].says.startswith("1 of 3 bids")
    assert "for 7 oGPU" in checks["auction 1"].says
    assert checks["milestones"].is_right is checks["result"].is_right is None


def test_a_task_that_ended_says_its_outcome() -> None:
    checks = reckoned(undisturbed())
    assert (checks["outcome"].is_right, checks["outcome"].codes) == (True, ())
    assert checks["outcome"].says.startswith("7 oGPU earned")
    assert checks["milestones"].says.startswith("3 of 4 count")
    assert checks["result"].is_right


def test_how_a_task_ended_that_nobody_was_paid_for_as_in_time_or_late_is_said() -> None:
    check = reckoned(stopped())["outcome"]
    assert (check.is_right, check.codes) == (True, ("unpaid",))
    assert check.says.endswith("(cancelled running)")


def test_a_later_auction_asks_for_the_collateral_of_a_shorter_trace() -> None:
    chain, _ = awarded(bids={"collateral": 400 * OGPU}, segments=40)
    assert chain.now().terms.collateral_min == 259 * OGPU // 10, "all of 40 segments are always checked"
    work(chain, chain.alice, milestones=3)
    chain.until(TaskState.ASKING)
    chain.until(TaskState.COMMITTING)
    terms = chain.now().terms
    assert terms.collateral_min == -(-terms.price_max * 372 // 10)
    chain.auction(with_offers(chain.keys[2:], OGPU, 2 * OGPU, blocks=20, collateral=terms.collateral_min))
    assert chain.state() is TaskState.STARTING
    assert wrong(reckoned(chain)) == []
    task = chain.now()
    assert wrong(reckoned(chain, replace(task, order=replace(task.order, segments=39)))) == ["auction 1: terms: terms"]


DAMAGES: dict[str, tuple[Callable[[Task], Task], str]] = {
    "a dearer slot": (lambda task: with_slot(task, price=8 * OGPU), "auction 1: slot"),
    "a shorter promise": (lambda task: with_slot(task, promised=39), "auction 1: slot"),
    "another provider": (lambda task: with_slot(task, provider=b"x" * 32), "auction 1: slot"),
    "less collateral": (lambda task: with_slot(task, collateral=1), "auction 1: slot"),
    "no slot": (lambda task: replace(task, slots=task.slots * 2), "auction 1: slot_count"),
    "another customer": (lambda task: replace(task, customer=b"x" * 32), "id: unknown"),
    "another order": (
        lambda task: replace(task, order=replace(task.order, loss=1)), "auction 1: terms: terms",
    ),
    "another bond": (
        lambda task: replace(task, rules=replace(task.rules, bid_bond=1)), "auction 1: terms: bond",
    ),
    "a bond that was too low": (
        lambda task: replace(task, rules=replace(task.rules, bid_bond=200_000)), "auction 1: terms: bond",
    ),
    "another least collateral": (
        lambda task: replace(task, order=replace(task.order, collateral_min=9 * COLLATERAL)), "auction 1: terms: terms",
    ),
    "less time": (
        lambda task: replace(task, order=replace(task.order, blocks_max=99)), "auction 1: terms: time",
    ),
    "more that count than are held": (lambda task: replace(task, done=4), "milestones: held_count"),
    "an earlier milestone": (lambda task: with_slot(task, reported=1), "milestones: milestone_count"),
    "more that count": (lambda task: replace(task, done=2), "milestones: held_count"),
    "more that are owed": (lambda task: replace(task, done=3, owed=4), "milestones: owed_count"),
    "held by another": (
        lambda task: replace(task, checkpoint=replace(task.checkpoint, holder=b"x" * 32)),  # type: ignore[type-var]
        "milestones: unsigned",
    ),
}  # fmt: skip


def with_slot(task: Task, **changed: Any) -> Task:
    return replace(task, slots=(replace(task.slots[0], **changed), *task.slots[1:]))


@pytest.mark.parametrize("name", DAMAGES)
def test_what_was_changed_is_found(name: str) -> None:
    chain, _ = awarded()
    work(chain, chain.alice, milestones=3)
    assert wrong(reckoned(chain)) == []
    damage, code = DAMAGES[name]
    assert code in wrong(reckoned(chain, damage(chain.now())))


def test_a_standby_that_is_not_the_selection_s_is_found() -> None:
    chain, _ = awarded()
    standby = chain.now().standby
    assert standby is not None
    changed = replace(chain.now(), standby=replace(standby, provider=chain.keys[2].stash))
    assert wrong(reckoned(chain, changed)) == ["auction 1: standby"]


def test_a_standby_where_the_selection_names_none_is_found() -> None:
    alone, _ = awarded(6 * OGPU)
    standby = awarded()[0].now().standby
    changed = replace(alone.now(), standby=standby)
    assert alone.now().standby is None
    assert wrong(reckoned(alone, changed)) == ["auction 1: standby"]


def test_results_that_differ_and_lateness_that_was_not_are_found() -> None:
    chain = undisturbed()
    task = chain.now()
    slot = task.slots[0]
    assert slot.result is not None
    other = replace(slot, result=replace(slot.result, root=b"x" * 32))
    assert "result: two_roots" in wrong(reckoned(chain, replace(task, slots=(slot, other))))
    assert wrong(reckoned(chain, with_slot(task, outcome=TaskOutcome.LATE))) == ["outcome: lateness"]


def test_a_result_in_the_last_promised_block_is_in_time() -> None:
    chain = undisturbed()
    task = chain.now()
    assert wrong(reckoned(chain, with_slot(task, taken=task.slots[0].promised))) == []
    late = with_slot(task, taken=task.slots[0].promised + 1)
    assert wrong(reckoned(chain, late)) == ["outcome: lateness"]
    assert "slot 0 took 41 of 40" in reckoned(chain, late)["outcome"].says


def test_who_took_over_has_the_share_of_its_price_that_was_left() -> None:
    chain = asked_for_the_rest()
    task = chain.now()
    assert (task.behind, task.slots[0].price) == (2, 4 * OGPU)
    for price in (2 * OGPU, 6 * OGPU):  # of one milestone, and of three
        assert "auction 1: slot" in wrong(reckoned(chain, with_slot(task, price=price)))


def test_partners_that_differ_in_a_milestone_are_found() -> None:
    chain, _ = awarded(5 * OGPU, 6 * OGPU, 7 * OGPU, slots=2)
    for place, slot in enumerate(chain.now().slots):
        chain.start(chain.chain.keys_of(slot.provider), place)
    for place, slot in enumerate(chain.now().slots):
        chain.report(chain.chain.keys_of(slot.provider), 1, place, root=bytes((place,)) * 32)
    assert wrong(reckoned(chain)) == ["milestones: two_roots"]


def test_an_award_that_is_gone_while_its_bids_are_there_is_found() -> None:
    chain, _ = awarded()
    (found,) = records(chain)
    count = chain.market.submission_counts[CUSTOMER.stash]
    checks = check_task(GENESIS_HASH, chain.task, chain.now(), count, [AuctionRecords(None, found.bids)])
    assert [(check.codes, check.says[:6]) for check in checks if check.is_right is False] == [(("no_award",), "3 bids")]
    nobody = check_task(GENESIS_HASH, chain.task, chain.now(), count, [AuctionRecords(found.award, {})])
    assert [check.what for check in nobody if check.is_right is False] == ["auction 1"]


def test_an_award_without_its_beacon_and_a_bid_of_another_class_are_found() -> None:
    chain, _ = awarded()
    (found,) = records(chain)
    count = chain.market.submission_counts[CUSTOMER.stash]
    assert found.award is not None
    unseeded = AuctionRecords(replace(found.award, seed=None), found.bids)
    checks = check_task(GENESIS_HASH, chain.task, chain.now(), count, [unseeded])
    assert [check.codes for check in checks if check.is_right is False] == [("no_winner",)]
    device, bid = next(iter(found.bids.items()))
    bids = {**found.bids, device: replace(bid, device_class=DeviceClass.DATACENTER)}
    checks = check_task(GENESIS_HASH, chain.task, chain.now(), count, [AuctionRecords(found.award, bids)])
    assert any(check.codes == ("opening",) and device.hex() in check.says for check in checks)


@pytest.mark.parametrize(
    ("checked_by", "says"),
    [
        (CheckedBy.EXECUTED, "none yet"),
        (CheckedBy.METERED, "paid by time"),
        (CheckedBy.LEASED, "paid by time"),
        (CheckedBy.REPLICATED, "replicas are compared"),
    ],
)
def test_a_task_that_has_no_milestones_by_design_says_so(checked_by: CheckedBy, says: str) -> None:
    chain, _ = awarded()
    task = chain.now()
    checks = reckoned(chain, replace(task, order=replace(task.order, checked_by=checked_by)))
    assert checks["milestones"].is_right is None
    assert says in checks["milestones"].says
