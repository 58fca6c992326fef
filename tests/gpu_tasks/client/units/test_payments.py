"""The payments of ended units: what is shown is what moved in the block of the end, to the grain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from gpu_tasks.client.units.payments import (
    OF_CUSTOMER,
    UnitEnd,
    UnitPayment,
    check_fees_of,
    lost_by,
    payments_of,
    unit_end,
)
from gpu_tasks.market.claims.claims import CheckEnd
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.inference import money
from gpu_tasks.market.inference.events import ProviderSlashed, RaceMissed
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import Refund, Unit, UnitState, is_open
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, TREASURY
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import CUSTOMER, OGPU, named_keys, signed, terms
from unit_cases import RIGHT, WRONG, checker_steps, concluded, decided, declined_twice, raced, vote_for
from watched_chain import KeptNode, WatchedChain

VALIDATORS = 12
ALWAYS = {"ResultClaims.check_rate": 1_000_000}


def new_chain(**numbers: Any) -> WatchedChain:
    """Return a chain with an emission that has something. By default it checks each result."""
    chain = WatchedChain(named_keys(VALIDATORS), [], {**ALWAYS, **numbers})
    chain.block(lambda bound: bound[Balances].transfer(CUSTOMER.stash, PROVIDER_REWARDS, OGPU))
    chain.blocks(5)  # so that no era turns, and pays out, in the block of an end
    return chain


def shown(chain: WatchedChain, unit_id: bytes, oldest: int = 0) -> tuple[list[UnitPayment], bool, UnitEnd | None]:
    unit = chain.unit(unit_id)
    end = asyncio.run(unit_end(cast("Any", KeptNode(chain, oldest)), unit_id, unit))
    return *payments_of(unit_id, unit, end), end


def passed(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: RIGHT, 1: RIGHT})
    concluded(chain, unit_id)
    return unit_id


def silent_checker(chain: WatchedChain) -> bytes:
    """The first checker commits to nothing; two others replace it."""
    unit_id, *_ = raced(chain, {0: RIGHT, 1: RIGHT})
    is_late = False
    while chain.unit(unit_id).state is UnitState.CLAIMED:
        steps = list(checker_steps(chain)) if is_late else []
        chain.block(*steps)
        is_late = is_late or any(type(event).__name__ == "CheckEnded" for event in chain.events)
    return unit_id


def lone(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: RIGHT})
    concluded(chain, unit_id)
    return unit_id


def refuted(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: WRONG})
    concluded(chain, unit_id, Verdict.WRONG, vote_for(Verdict.WRONG, weight=64))
    return unit_id


def sides(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    decided(chain, unit_id, vote_for(Verdict.RIGHT))
    concluded(chain, unit_id)
    return unit_id


def unusable(chain: WatchedChain) -> bytes:
    unit_id, _ = declined_twice(chain)
    decided(chain, unit_id, vote_for(Verdict.UNAVAILABLE))
    return unit_id


def undecided(chain: WatchedChain) -> bytes:
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    while is_open(chain.unit(unit_id)):
        chain.block(*voter_steps(chain, lambda _: None))
    return unit_id


def cancelled(chain: WatchedChain) -> bytes:
    chain.blocks(3)
    (unit_id,) = chain.post(terms(racers=8))
    chain.block(signed(CUSTOMER.stash, InferenceMarket.cancel(unit=unit_id)))
    return unit_id


ENDINGS: dict[str, tuple[Callable[[WatchedChain], bytes], set[str]]] = {
    "passed": (passed, {"winner", "witness", "fee", "checker", "burned", "winner, fee rebate"}),
    "silent checker": (silent_checker, {"winner", "witness", "fee", "checker", "burned", "winner, fee rebate"}),
    "lone": (lone, {"winner", "fee", "checker", "burned"}),
    "sides": (sides, {"winner", "fee", "checker", "burned"}),
    "cancelled": (cancelled, {"burned"}),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_what_is_shown_is_what_moved(name: str) -> None:
    ending, roles = ENDINGS[name]
    chain = new_chain()
    unit_id = ending(chain)
    unit = chain.unit(unit_id)
    found, is_all, _ = shown(chain, unit_id)
    assert is_all
    assert roles <= {payment.role for payment in found}
    of_customer = [payment for payment in found if payment.source == OF_CUSTOMER]
    assert {payment.payer for payment in of_customer} == {CUSTOMER.stash}
    assert sum(payment.grains for payment in of_customer) == unit.paid
    for account in (*(keys.stash for keys in chain.validators), CUSTOMER.stash, TREASURY, PROVIDER_REWARDS):
        got = sum(payment.grains for payment in found if payment.account == account)
        gave = sum(payment.grains for payment in found if payment.payer == account)
        assert chain.owned_at(account, unit.ended_at) - chain.owned_at(account, unit.ended_at - 1) == got - gave


@pytest.mark.parametrize(
    ("ending", "refund", "role"),
    [(refuted, Refund.REFUTED, "finder, voters, or burned"), (unusable, Refund.INPUT_BAD, "voters, or burned")],
)
def test_the_payer_of_a_refuted_result_or_a_bad_input_is_named(
    ending: Callable[[WatchedChain], bytes], refund: Refund, role: str
) -> None:
    chain = new_chain()
    unit_id = ending(chain)
    unit = chain.unit(unit_id)
    ((payment,), is_all, _) = shown(chain, unit_id)
    assert (unit.refund, payment.role, is_all) == (refund, role, True)
    before, after = (chain.owned_at(payment.payer, height) for height in (unit.ended_at - 1, unit.ended_at))
    assert before - after == payment.grains
    assert unit.paid == (payment.grains if refund is Refund.INPUT_BAD else 0)


def test_nobody_is_paid_for_a_dispute_without_a_decision() -> None:
    chain = new_chain()
    unit_id = undecided(chain)
    assert (chain.unit(unit_id).refund, shown(chain, unit_id)[:2]) == (Refund.INCONCLUSIVE, ([], True))


def test_the_checks_of_a_claim_are_shown_with_their_ends_and_fees() -> None:
    chain = new_chain()
    unit_id = silent_checker(chain)
    unit, (found, _, end) = chain.unit(unit_id), shown(chain, unit_id)
    assert end is not None
    checks = end.check_facts()
    assert [check["end"] for check in checks][:1] == [CheckEnd.SILENT.name.lower()]
    assert {check["end"] for check in checks[1:]} == {CheckEnd.PASSED.name.lower()}
    paid = [payment.grains for payment in found if payment.role == "checker"]
    assert sum(check["fee"] for check in checks) == sum(paid)
    of_customer = sum(
        payment.grains for payment in found if payment.role == "checker" and payment.source == OF_CUSTOMER
    )
    assert check_fees_of(unit) == of_customer < sum(paid)
    assert check_fees_of(unit) <= money.check_fees_max(unit.rules, unit.price)


@pytest.mark.parametrize("name", ["passed", "lone", "cancelled"])
def test_what_a_node_has_forgotten_is_not_made_up(name: str) -> None:
    """The record has the racers and the cost, but not the checkers."""
    chain = new_chain()
    unit_id = ENDINGS[name][0](chain)
    unit = chain.unit(unit_id)
    found, is_all, end = shown(chain, unit_id, oldest=unit.ended_at + 1)
    assert (is_all, end) == (name == "cancelled", None)
    assert sum(payment.grains for payment in found) == unit.paid
    unnamed = {payment.role for payment in found if payment.account is None}
    assert unnamed == ({"burned"} if name == "cancelled" else {"burned", "checkers"})


def test_another_block_than_that_of_the_end_says_nothing_of_it() -> None:
    chain = new_chain()
    unit_id = lone(chain)
    unit = chain.unit(unit_id)
    chain.told[unit.ended_at] = chain.told[unit.ended_at - 1]
    assert shown(chain, unit_id)[1] is False


@pytest.mark.parametrize("ending", [passed, lone, refuted, sides, undecided])
def test_the_losses_of_racers_are_those_of_the_events(ending: Callable[[WatchedChain], bytes]) -> None:
    chain = new_chain()
    unit_id = ending(chain)
    unit: Unit = chain.unit(unit_id)
    lost = dict.fromkeys((racer.owner for racer in unit.racers), 0)
    for events in chain.told.values():
        for event in events:
            if isinstance(event, ProviderSlashed | RaceMissed) and event.unit == unit_id:
                lost[event.provider] += event.amount
    told = {racer.owner: lost_by(unit, racer) for racer in unit.racers}
    assert {owner: grains for owner, grains in told.items() if grains is not None} == {
        owner: grains for owner, grains in lost.items() if told[owner] is not None
    }
    assert list(told.values()).count(None) == (ending is lone), "a racer whose window nobody can tell"
    assert any(lost.values()) == (ending in (refuted, sides))


def test_a_racer_of_an_unpriced_unit_lost_nothing() -> None:
    chain = new_chain()
    unit = chain.unit(passed(chain))
    assert lost_by(replace(unit, price=0), unit.racers[0]) == 0
