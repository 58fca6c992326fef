"""A dry run's locked and freed amounts equal the chain's later holds, for any signer and owner."""

import asyncio
from dataclasses import replace

from claimed_tasks import FEE, K, claimed
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.training.tasks import TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.frame.api import Apis
from runtime.frame.call import Call
from runtime.pallets.balances import Balances
from runtime.pallets.system import System
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, signed
from state_node import StateNode
from task_chain import TaskChain, an_offer, an_order
from wallet.amounts import format_amount
from wallet.client import ChainClient
from wallet.trial import HeldChange, Trial, attempt

SEGMENTS = 4


def held(chain: TaskChain) -> dict[tuple[bytes, str], int]:
    """Return each account's holds, by reason."""
    bound = chain.chain.now()
    accounts = [account for account, _ in bound[System].account.items()]
    return {(who, str(entry.id)): entry.amount for who in accounts for entry in bound[Balances].holds[who]}


def tried(chain: TaskChain, signer: bytes, call: Call, fee: int = 0, tip: int = 0) -> Trial:
    """A dry run."""
    client = ChainClient(
        StateNode({chain.height: chain.chain.state}), Apis(chain.chain.runtime, ()), GENESIS_HASH, "Development"
    )
    return asyncio.run(attempt(client, [call], signer, fee, tip))


def made(chain: TaskChain, signer: bytes, call: Call) -> dict[tuple[bytes, str], int]:
    """Return a call's dry run, then make the call and compare the locked and freed amounts."""
    told, before = tried(chain, signer, call), held(chain)
    assert told.refusal is None
    chain.block(signed(signer, call))
    after = held(chain)
    moved = {name: after.get(name, 0) - before.get(name, 0) for name in {*before, *after}}
    said = {(change.account, str(change.reason)): change.grains for change in told.held}
    assert said == {name: grains for name, grains in moved.items() if grains}
    return said


def of(keys: Keys, **reasons: int) -> dict[tuple[bytes, str], int]:
    """Return an account's extra holds for reasons of the market of tasks."""
    return {(keys.stash, f"TrainingMarket.{name}"): grains for name, grains in reasons.items()}


def test_what_each_call_about_a_task_locks_is_told_before_it_is_made() -> None:
    chain = TaskChain(size=9)
    submitted = made(chain, CUSTOMER.stash, TrainingMarket.submit(order=an_order(segments=SEGMENTS)))
    assert {reason for _, reason in submitted} == {
        "TrainingMarket.TaskEscrow", "TrainingMarket.TaskBond", "TrainingMarket.TaskDeposit",
    }  # fmt: skip
    chain = TaskChain(size=9)
    chain.submit(segments=SEGMENTS)
    bidder, offer, bond = chain.alice, an_offer(6 * OGPU), OGPU
    assert made(chain, bidder.provider, chain.commit_call(bidder, offer)) == of(bidder, BidBond=bond)
    chain.until(TaskState.REVEALING)
    opened = made(chain, bidder.provider, chain.reveal_call(bidder, offer))
    assert opened == of(bidder, BidBond=-bond, TaskCollateral=offer.collateral)


def test_what_a_dispute_locks_is_told_before_it_is_made() -> None:
    chain, _ = claimed(segments=SEGMENTS)
    call = ResultClaims.dispute(claim=slot_case(chain.task, 0), index=3)
    said = made(chain, CUSTOMER.stash, call)
    assert said == {(CUSTOMER.stash, "ResultClaims.DisputeBond"): (9 * FEE + K // 2) // SEGMENTS}


def test_a_call_that_is_refused_and_one_that_moves_nothing_lock_nothing() -> None:
    chain = TaskChain()
    refused = tried(chain, CUSTOMER.stash, ResultClaims.dispute(claim=b"?" * 32, index=0))
    assert refused.refusal is not None
    assert refused.held == ()
    assert tried(chain, CUSTOMER.stash, System.remark(remark=b"x")) == Trial()


def test_changes_stand_by_account_and_reason() -> None:
    chain = TaskChain()
    found = tried(chain, CUSTOMER.stash, TrainingMarket.submit(order=an_order())).held
    assert all(isinstance(change, HeldChange) for change in found)
    assert list(found) == sorted(found, key=lambda change: (change.account, change.reason.tag))
    assert len(found) == 3


def with_balance(chain: TaskChain, who: bytes, *, free: int, frozen: int) -> None:
    """Give an account this balance, with a frozen part that it may lock and not spend."""
    bound = chain.chain.now()
    info = bound[System].account[who]
    bound[System].account[who] = replace(info, data=replace(info.data, free=free, frozen=frozen))
    chain.chain.state = chain.chain.state.updated(bound.overlay.changes())


def test_a_fee_is_taken_before_a_call_and_is_no_part_of_what_that_moves() -> None:
    chain, who, fee = TaskChain(), CUSTOMER.stash, OGPU
    call, before = TrainingMarket.submit(order=an_order()), chain.free(CUSTOMER.stash)
    cost = tried(chain, who, call).amount
    assert tried(chain, who, call, fee).amount == tried(chain, who, call, fee, fee).amount == cost > 0
    chain.block(signed(who, call))
    assert before - chain.free(who) == cost
    chain = TaskChain()
    with_balance(chain, who, free=cost + fee, frozen=2 * OGPU)
    assert tried(chain, who, call).amount == cost, "what is frozen moves nothing"
    assert tried(chain, who, call, fee).refusal is None
    assert tried(chain, who, call, fee - 1, 1).refusal is None
    assert tried(chain, who, call, fee, 1).refusal is not None
    remark, spendable = System.remark(remark=b"x"), chain.chain.now()[Balances].spendable_balance(who)
    assert tried(chain, who, remark, spendable).refusal is None
    assert tried(chain, who, remark, spendable, 1).refusal is not None
    with_balance(chain, who, free=cost + fee - 1, frozen=2 * OGPU)
    refused = tried(chain, who, call, fee)
    assert refused.code == "FundsUnavailable"
    assert f" {format_amount(cost - 1 - 2 * OGPU)} oGPU" in str(refused.refusal)
