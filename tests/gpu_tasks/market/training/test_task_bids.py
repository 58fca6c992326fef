"""Bids: allowed bidders, commitments, prepaid fees, bound devices, and deadlines without room in the hook."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from counted_reads import HookRun, watched_hook
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import DeviceBusy, NotOwner, UnknownDevice
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training import training_market
from gpu_tasks.market.training.bids import auction_id, bid_commitment, tie_seed
from gpu_tasks.market.training.events import WrongTaskState
from gpu_tasks.market.training.life.ending import CLEARED_MAX
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import TaskState, task_id_of
from gpu_tasks.market.training.training_market import PREPAID_BY_A_BID, READ_BID_WEIGHT, TrainingMarket
from gpu_tasks.market.weights import WEIGHTS
from runtime.encoding.types import Weight
from runtime.frame.errors import DispatchError, FundsUnavailable
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import (
    CUSTOMER,
    GENESIS_HASH,
    OGPU,
    Keys,
    MarketChain,
    named_keys,
    refused,
    signed,
    terms,
)
from task_chain import PRICE, SMALL, TaskChain, an_offer, an_order, with_offers

# ------------------------------------------------------------------------------------------------- who is eligible

Change = Callable[[TaskChain], None]


def _on_device(**changed: Any) -> Change:
    def change(chain: TaskChain) -> None:
        def step(bound: Any) -> None:
            devices, key = bound[Devices].devices, chain.alice.device
            devices[key] = replace(devices[key], **changed)

        chain.block(step)

    return change


def _on_provider(change: Callable[[Any, bytes], None]) -> Change:
    def changed(chain: TaskChain) -> None:
        chain.block(lambda bound: change(bound, chain.alice.stash))

    return changed


def _with_newer_key(bound: Any, stash: bytes) -> None:
    providers = bound[Devices].providers
    providers[stash] = replace(providers[stash], key_since=1)


def _no_provider(bound: Any, stash: bytes) -> None:
    del bound[Devices].providers[stash]


def _no_candidate(bound: Any, stash: bytes) -> None:
    del bound[TrustStake].candidates[stash]


CONDITIONS: dict[str, Change] = {
    "paused": _on_device(is_paused=True),
    "busy": _on_device(assignment=b"u" * 32),
    "of another class": _on_device(kind=1),
    "below the least bond": _on_device(bond=OGPU - 1),
    "key too new": _on_provider(_with_newer_key),
    "no provider": _on_provider(_no_provider),
    "no candidate": _on_provider(_no_candidate),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_condition_of_eligibility_counts_alone(condition: str) -> None:
    chain = TaskChain(check=lambda _bound, _issued: None)
    chain.submit(classes=0b101)
    alice, bob = chain.keys[:2]
    offer = an_offer(6 * OGPU)
    signed(alice.stash, chain.commit_call(alice, offer))(chain.chain.now())
    CONDITIONS[condition](chain)
    refused(alice.stash, chain.commit_call(alice, offer), ev.NotEligible)(chain.chain.now())
    signed(bob.stash, chain.commit_call(bob, offer))(chain.chain.now())


@pytest.mark.parametrize("role", ["stash", "provider"])
def test_a_customer_does_not_bid_for_its_own_task_whichever_of_its_keys_ordered(role: str) -> None:
    chain = TaskChain()
    alice, customer = chain.alice, chain.alice.public(role)
    chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, customer, 100 * OGPU))
    chain.block(signed(customer, TrainingMarket.submit(order=an_order())))
    task = next(task for task, _ in chain.market.tasks.items())
    call = chain.commit_call(alice, an_offer(6 * OGPU), task=task)
    chain.block(refused(alice.stash, call, ev.NotEligible))


# --------------------------------------------------------------------------------------------------------- the bids


def test_a_bid_carries_its_providers_record_as_the_era_of_its_opening_sees_it() -> None:
    chain = submitted()
    alice, offer = chain.alice, an_offer(6 * OGPU)
    chain.do(alice, chain.commit_call(alice, offer))
    chain.until(TaskState.REVEALING)

    reveal = signed(alice.provider, chain.reveal_call(alice, offer))

    def in_the_next_era(bound: Any) -> None:
        bound[TrainingMarket].provider_records[alice.stash] = TrackRecord(settled=16 * OGPU, failed=32 * OGPU, era=0)
        bound[TrustStake].current_era.set(1)
        reveal(bound)
        bound[TrustStake].current_era.set(0)

    chain.block(in_the_next_era)
    bid = chain.market.bids[auction_id(chain.task, 1), alice.device]
    assert bid is not None
    assert bid.opened is not None
    assert bid.opened.record == TrackRecord(settled=15 * OGPU, failed=30 * OGPU, era=1)


def test_a_device_bids_once_and_only_its_owner_bids_with_it() -> None:
    chain = submitted()
    alice, offer = chain.alice, an_offer(6 * OGPU)
    chain.do(alice, chain.commit_call(alice, offer, device=b"d" * 32), UnknownDevice)
    chain.do(alice, chain.commit_call(alice, offer, device=chain.bob.device), NotOwner)
    chain.do(alice, chain.commit_call(alice, offer))
    chain.do(alice, chain.commit_call(alice, offer), ev.DeviceHasBid)
    second = chain.task
    chain.submit()
    assert chain.task != second
    chain.do(alice, chain.commit_call(alice, offer), ev.NotEligible)  # it is bid for the other task


def test_no_more_bids_than_a_selection_reads() -> None:
    chain = TaskChain(check=lambda _bound, _issued: None)
    chain.submit()

    def fill(bound: Any) -> None:
        market = bound[TrainingMarket]
        task = market.tasks[chain.task]
        market.tasks[chain.task] = replace(task, bids=BIDS_MAX)

    chain.block(fill)
    chain.do(chain.alice, chain.commit_call(chain.alice, an_offer(6 * OGPU)), ev.TooManyBids)


def test_only_what_was_committed_to_is_opened_once() -> None:
    chain = TaskChain()
    chain.submit()
    alice, bob = chain.keys[:2]
    offer = an_offer(6 * OGPU)
    # bob copies the commitment of alice, and cannot open it
    copied = replace_device(chain.commit_call(alice, offer), bob.device)
    chain.block(signed(alice.provider, chain.commit_call(alice, offer)), signed(bob.provider, copied))
    chain.until(TaskState.REVEALING)
    for wrong in (replace(offer, price=offer.price - 1), replace(offer, blocks=41), replace(offer, collateral=41)):
        refused(alice.provider, chain.reveal_call(alice, wrong), ev.WrongBidOpening)(chain.chain.now())
    stolen = TrainingMarket.reveal_bid(
        task=chain.task, device=bob.device, offer=offer, salt=chain.reveal_call(alice, offer).arguments[3]
    )
    chain.block(
        refused(bob.provider, stolen, ev.WrongBidOpening),
        signed(alice.provider, chain.reveal_call(alice, offer)),
        refused(alice.provider, chain.reveal_call(alice, offer), ev.NoSuchBid),
    )


def replace_device(call: Any, device: bytes) -> Any:
    """Return a bid's call with another device, and the same commitment."""
    named = {**call.named_arguments, "device": device}
    return TrainingMarket.commit_bid(**named)


@pytest.mark.parametrize(
    ("collateral", "error"), [(PRICE // 10 - 1, ev.CollateralTooLow), (9_000 * OGPU, FundsUnavailable)]
)
def test_a_collateral_below_the_bond_or_beyond_ones_means_is_not_opened(
    collateral: int, error: type[DispatchError]
) -> None:
    chain = TaskChain()
    chain.submit()
    alice, offer = chain.alice, an_offer(6 * OGPU, collateral=collateral)
    chain.do(alice, chain.commit_call(alice, offer))
    chain.until(TaskState.REVEALING)
    chain.do(alice, chain.reveal_call(alice, offer), error)


def submitted() -> TaskChain:
    """Return a task without a bid."""
    chain = TaskChain()
    chain.submit()
    return chain


def test_a_record_that_is_dropped_right_after_its_last_bids_is_looked_at_no_more() -> None:
    """As many bids as one look releases: the further look then finds no record."""
    chain = TaskChain(size=CLEARED_MAX + 1, constants={"TrainingMarket.task_keep": 1})
    chain.submit()
    chain.auction(with_offers(chain.keys[:CLEARED_MAX], *[6 * OGPU] * CLEARED_MAX), unopened=tuple(chain.keys))
    assert chain.state() is TaskState.ENDED
    chain.blocks(3)
    assert chain.market.tasks[chain.task] is None
    assert not list(chain.market.clearing.waiting.items())


# ----------------------------------------------------------------------------------------------------- what bids prepay


def life_of(bids: int, charged: list[HookRun]) -> tuple[int, int]:
    """Run a task with `bids` bids, cancelled at the award, until nothing is left of it.

    Return the charge of the award's block, and of all blocks together.
    """
    chain = TaskChain(size=7)
    chain.submit()
    charged.clear()
    offers = {keys: an_offer((place + 1) * OGPU) for place, keys in enumerate(chain.keys[:bids])}
    chain.auction(offers)
    assert chain.state() is TaskState.STARTING
    award = charged[-1].ref_time
    chain.cancel()
    while chain.market.tasks[chain.task] is not None:
        chain.block()
    return award, sum(run.ref_time for run in charged)


def test_three_bids_more_are_charged_what_they_have_prepaid(monkeypatch: pytest.MonkeyPatch) -> None:
    charged = watched_hook(monkeypatch, TrainingMarket)
    few_award, few = life_of(2, charged)
    many_award, many = life_of(5, charged)
    assert many_award - few_award == 3 * READ_BID_WEIGHT.ref_time
    assert many - few == 3 * PREPAID_BY_A_BID.ref_time


def test_a_commitment_weighs_its_call_and_what_the_bid_prepays() -> None:
    chain = TaskChain(size=7)
    chain.submit()
    call = chain.commit_call(chain.alice, an_offer(OGPU))
    assert call.weight.ref_time == (WEIGHTS["TrainingMarket.commit_bid"] + PREPAID_BY_A_BID).ref_time


# ----------------------------------------------------------------------------------------------- deadlines without room


NO_ROOM = Weight(0, 0)
DUE = 60


def without_room(patch: pytest.MonkeyPatch) -> None:
    """Leave the hook no room for deadlines from here on."""
    patch.setattr(training_market, "HEIGHT_BUDGET", NO_ROOM)


def test_a_bid_that_comes_late_is_refused_before_the_hook_has_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain()
    chain.submit()
    without_room(monkeypatch)
    chain.blocks(4)
    assert (chain.state(), chain.height) == (TaskState.COMMITTING, chain.now().deadline)
    alice = chain.alice
    call = chain.commit_call(alice, an_offer(6 * OGPU))
    signed(alice.provider, call)(chain.chain.now())  # in the last block of the window
    chain.block()
    assert chain.state() is TaskState.COMMITTING
    refused(alice.provider, call, WrongTaskState)(chain.chain.now())


def test_a_start_that_comes_late_is_refused_before_the_hook_has_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU))
    without_room(monkeypatch)
    chain.blocks(5)
    start = TrainingMarket.start(task=chain.task, place=0)
    refused(chain.alice.provider, start, WrongTaskState)(chain.chain.now())
    monkeypatch.undo()
    chain.block()
    assert chain.now().slots[0].provider == chain.bob.stash


def test_a_record_stays_until_its_bids_have_given_back_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = TaskChain()
    alice = chain.alice
    before = chain.free(alice.stash)
    chain.submit()
    chain.do(alice, chain.commit_call(alice, an_offer(6 * OGPU)))
    monkeypatch.setattr(training_market, "CLEARING_BUDGET", NO_ROOM)
    chain.cancel()
    chain.blocks(40)
    assert chain.state() is TaskState.ENDED
    assert not chain.is_idle(alice)
    monkeypatch.undo()
    chain.blocks(4)
    assert chain.market.tasks[chain.task] is None
    assert chain.is_idle(alice)
    assert chain.free(alice.stash) == before


def test_nothing_is_left_of_a_task_whose_record_is_dropped() -> None:
    chain = TaskChain()
    chain.submit()
    chain.auction(with_offers(chain.keys, 6 * OGPU, 7 * OGPU, 8 * OGPU))
    chain.start(chain.alice)
    chain.until(TaskState.ENDED)
    chain.blocks(40)
    market = chain.market
    for kept in (market.tasks, market.awards, market.bids, market.held_bids, market.duties, market.open_auctions):
        assert not list(kept.items())
    for pending in (market.agenda, market.final_agenda, market.clearing):
        assert not list(pending.places.items())


def test_what_a_block_has_no_room_for_waits_for_the_next_one() -> None:
    chain = TaskChain(constants={"TrainingMarket.commit_blocks": 4})
    order = TrainingMarket.submit(order=an_order(price_max=OGPU))
    chain.block(*[signed(CUSTOMER.stash, order)] * DUE)
    chain.blocks(4)
    ended: list[int] = []
    while sum(ended) < DUE:
        before = chain.market.open_task_count.get()
        chain.block()
        ended.append(before - chain.market.open_task_count.get())
    assert len(ended) > 1
    assert all(ended)


# ------------------------------------------------------------------------------------------------------- what is sealed


A, B = b"a" * 32, b"b" * 32


def test_the_ties_of_two_auctions_are_broken_apart() -> None:
    assert len({tie_seed(A, A), tie_seed(A, B), tie_seed(B, A)}) == 3


# ----------------------------------------------------------------------------------------- devices between both markets


def both_markets() -> tuple[MarketChain, bytes]:
    """Return a chain with both markets, and a task with a long bidding window."""
    numbers = {**SMALL, "TrainingMarket.commit_blocks": 60}
    chain = MarketChain(named_keys(9), [], numbers, check=lambda _bound, _issued: None)
    chain.blocks(3)
    chain.block(signed(CUSTOMER.stash, TrainingMarket.submit(order=an_order())))
    return chain, task_id_of(GENESIS_HASH, CUSTOMER.stash, 0)


def commit(task: bytes, keys: Keys) -> Any:
    """Return a bid for the task."""
    offer, auction = an_offer(6 * OGPU), auction_id(task, 1)
    sealed = bid_commitment(GENESIS_HASH, auction, keys.stash, keys.device, offer, bytes(32))
    return TrainingMarket.commit_bid(task=task, device=keys.device, commitment=sealed)


def test_who_has_bid_is_drawn_for_no_unit() -> None:
    chain, task = both_markets()
    bidders = chain.validators[:6]
    chain.block(*(signed(keys.provider, commit(task, keys)) for keys in bidders))
    drawn: set[bytes] = set()
    for _ in range(8):
        unit = chain.post(terms(OGPU, 2, chain.height - 1))[0]
        chain.blocks(5)
        drawn |= {racer.owner for racer in chain.unit(unit).racers}
    assert drawn
    assert not drawn & {keys.stash for keys in bidders}


def test_a_device_that_has_bid_does_not_leave_and_what_it_offers_may() -> None:
    chain, task = both_markets()
    alice = chain.validators[0]
    chain.block(signed(alice.provider, commit(task, alice)))
    chain.block(signed(alice.stash, InferenceMarket.withdraw_offer(device=alice.device, service=0)))
    chain.block(refused(alice.stash, Devices.unregister_device(device=alice.device), DeviceBusy))


def test_a_device_that_is_paused_after_its_bid_may_win_all_the_same() -> None:
    chain = TaskChain()
    chain.submit()
    alice, offer = chain.alice, an_offer(6 * OGPU)
    chain.do(alice, chain.commit_call(alice, offer))
    chain.do(alice, Devices.pause(device=alice.device))
    chain.until(TaskState.REVEALING)
    chain.do(alice, chain.reveal_call(alice, offer))
    chain.until(TaskState.STARTING)
    chain.start(alice)
    assert chain.state() is TaskState.RUNNING
