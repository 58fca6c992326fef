"""Who was paid what for a unit: what is shown is what moved, to the grain, in the block in which the unit ended."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gpu_tasks.client.units.results import OF_CUSTOMER, UnitPayment, payments_of
from gpu_tasks.market.courts.cases import AUDIT_POT
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.opinions import Answered, Unanswerable
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import check_fee
from gpu_tasks.market.inference.units import Unit, UnitState, is_open
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import CUSTOMER, OGPU, named_keys, signed, terms
from unit_cases import RIGHT, WRONG, declined_twice, judged, raced
from watched_chain import KeptNode, WatchedChain

FEW = 5
"""Validators: two race and three judge, so that nobody is left for a court."""


def new_chain(validators: int = 9) -> WatchedChain:
    """With an audit pot and an emission that have something."""
    chain = WatchedChain(named_keys(validators))
    chain.block(lambda bound: bound[Courts].pay_premium(CUSTOMER.stash, OGPU))
    chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, PROVIDER_REWARDS, OGPU))
    return chain


def to_the_end(chain: WatchedChain, unit_id: bytes) -> Unit:
    while is_open(chain.unit(unit_id)):
        chain.block()
    return chain.unit(unit_id)


def payments(chain: WatchedChain, unit_id: bytes, oldest: int = 0) -> tuple[list[UnitPayment], bool]:
    return asyncio.run(payments_of(cast("Any", KeptNode(chain, oldest)), unit_id, chain.unit(unit_id)))


def agreed(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: RIGHT, 1: RIGHT})
    return unit_id


def lied(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [Answered(RIGHT)] * 3)
    return unit_id


def silent_judge(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [Answered(RIGHT), None, Answered(RIGHT)])
    return unit_id


def alone(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: RIGHT})
    judged(chain, unit_id, [Answered(RIGHT)] * 2)
    return unit_id


def appealed(chain: WatchedChain) -> bytes:
    unit_id, _, (_, honest) = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [Answered(WRONG), Answered(WRONG), Answered(RIGHT)])
    chain.block(signed(honest.stash, Courts.appeal(case_id=unit_id)))
    judged(chain, unit_id, [Answered(RIGHT)] * 4)
    return unit_id


def unusable(chain: WatchedChain) -> bytes:
    unit_id, _ = declined_twice(chain)
    judged(chain, unit_id, [Unanswerable()] * 3)
    return unit_id


def unheard(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    judged(chain, unit_id, [None] * 3)
    return unit_id


def cancelled(chain: WatchedChain) -> bytes:
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=8))
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)))
    return unit_id


ENDINGS = {
    "agreed": (agreed, {"winner", "witness", "fee", "premium of audits", "burned", "winner, of its fee"}),
    "lied": (lied, {"winner", "judge", "the customer, its price back", "burned"}),
    "a silent judge": (silent_judge, {"winner", "judge", "burned"}),
    "alone": (alone, {"winner", "judge", "premium of audits"}),
    "appealed": (appealed, {"winner", "judge", "appellant", "the customer, its price back"}),
    "unusable": (unusable, {"judge"}),
    "unheard": (unheard, {"burned"}),
    "cancelled": (cancelled, {"burned"}),
}


WITHOUT_A_COURT = sorted(ENDINGS.keys() - {"appealed"})
"""Nobody can appeal there: what is decided ends in the same block."""


@pytest.mark.parametrize(
    ("name", "validators"), [*((name, 9) for name in ENDINGS), *((name, FEW) for name in WITHOUT_A_COURT)]
)
def test_what_is_shown_is_what_moved(name: str, validators: int) -> None:
    ending, roles = ENDINGS[name]
    chain = new_chain(validators)
    chain.blocks(5)  # so that no era turns, and pays out, in the block of an end
    unit_id = ending(chain)
    unit = to_the_end(chain, unit_id)
    found, is_all = payments(chain, unit_id)
    assert is_all
    assert roles <= {payment.role for payment in found}
    of_customer = sum(payment.grains for payment in found if payment.source == OF_CUSTOMER)
    assert {payment.payer == CUSTOMER.stash for payment in found if payment.source == OF_CUSTOMER} == {True}
    assert unit.paid == of_customer
    assert (unit.refund is not None) == (unit.state is UnitState.REFUNDED)
    for account in (*(keys.stash for keys in chain.validators), CUSTOMER.stash, TREASURY, AUDIT_POT, PROVIDER_REWARDS):
        got = sum(payment.grains for payment in found if payment.account == account)
        gave = sum(payment.grains for payment in found if payment.payer == account)
        assert chain.owned_at(account, unit.ended_at) - chain.owned_at(account, unit.ended_at - 1) == got - gave


FORGOTTEN = {
    "agreed": set[str](),
    "alone": {"judges"},
    "unusable": {"judges, or burned"},
    "unheard": {"judges, or burned"},
    "cancelled": {"burned"},
}
"""By ending: what is said, without an account, of what the record does not name."""


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_a_node_has_forgotten_is_not_made_up(name: str) -> None:
    """The record says who raced and what it cost; who the judges were it does not."""
    chain = new_chain()
    unit_id = ENDINGS[name][0](chain)
    unit = to_the_end(chain, unit_id)
    found, is_all = payments(chain, unit_id, oldest=unit.ended_at + 1)
    assert is_all == (name == "cancelled")
    assert sum(payment.grains for payment in found) == unit.paid
    named = {"burned"} if unit.state is UnitState.SETTLED else set[str]()  # a half of the fee
    assert {payment.role for payment in found if payment.account is None} == FORGOTTEN[name] | named


def test_another_block_than_that_of_the_end_says_nothing_of_it() -> None:
    chain = new_chain()
    unit_id = alone(chain)
    unit = to_the_end(chain, unit_id)
    chain.told[unit.ended_at] = chain.told[unit.ended_at - 1]
    assert payments(chain, unit_id)[1] is False


@pytest.mark.parametrize("oldest", [0, 1_000])
def test_of_a_batch_that_is_checked_by_its_leaves_the_auditor_is_named(oldest: int) -> None:
    stage = LeafChain(kind=WatchedChain)
    unit_id = stage.settled()
    assert isinstance(stage.chain, WatchedChain)
    shown, is_all = payments(stage.chain, unit_id, oldest)
    unit = stage.unit(unit_id)
    assert sum(payment.grains for payment in shown if payment.source == OF_CUSTOMER) == unit.paid
    fee = check_fee(unit.rules, unit.price, unit.terms.requests)
    assert [payment.grains for payment in shown if "auditor of its leaves" in payment.role] == [fee]
    assert is_all == (oldest == 0)
