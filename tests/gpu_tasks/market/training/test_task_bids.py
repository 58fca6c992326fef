"""Who may bid, each condition alone, and what of a bid is opened."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.events import NotOwner, UnknownDevice
from gpu_tasks.market.training import events as ev
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.life.ending import CLEARED_MAX
from gpu_tasks.market.training.reputation import TrackRecord
from gpu_tasks.market.training.selection import BIDS_MAX
from gpu_tasks.market.training.tasks import TaskState
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.errors import DispatchError, FundsUnavailable
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import CUSTOMER, OGPU, refused, signed
from task_chain import PRICE, TaskChain, an_offer, an_order, with_offers

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


def test_a_customer_does_not_bid_for_its_own_task() -> None:
    chain = TaskChain()
    alice = chain.alice
    chain.block(signed(alice.stash, TrainingMarket.submit(order=an_order())))
    task = next(task for task, _ in chain.market.tasks.items())
    call = chain.commit_call(alice, an_offer(6 * OGPU), task=task)
    chain.block(refused(alice.stash, call, ev.NotEligible))


def test_a_customer_that_is_somebodys_key_keeps_the_stash_from_bidding() -> None:
    chain = TaskChain()
    alice = chain.alice
    chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, alice.provider, 100 * OGPU))
    chain.block(signed(alice.provider, TrainingMarket.submit(order=an_order())))
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
        bound[TrainingMarket].records[alice.stash] = TrackRecord(settled=16 * OGPU, failed=32 * OGPU, era=0)
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
    """A bid's call with another device, and the same commitment."""
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
    """A task that nobody has bid for."""
    chain = TaskChain()
    chain.submit()
    return chain


def test_a_record_that_is_dropped_right_after_its_last_bids_is_looked_at_no_more() -> None:
    """As many bids as one look sets free: another look is asked for, at a record that is gone by then."""
    chain = TaskChain(size=CLEARED_MAX + 1, constants={"TrainingMarket.task_keep": 1})
    chain.submit()
    chain.auction(with_offers(chain.keys[:CLEARED_MAX], *[6 * OGPU] * CLEARED_MAX), unopened=tuple(chain.keys))
    assert chain.state() is TaskState.ENDED
    chain.blocks(3)
    assert chain.market.tasks[chain.task] is None
    assert not list(chain.market.clearing.waiting.items())
