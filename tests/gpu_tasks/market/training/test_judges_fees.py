"""Fees of a task's judges: an audit's follow the paid price, all others the greatest price, which no bid lowers."""

from collections.abc import Callable
from typing import Any

import pytest

from gpu_tasks.market.courts.cases import JUDGE_SEAT, CourtCase
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.courts.money import COURT_FEES, FIRST_JUDGES, SEAT_FEES, CaseOutcome
from gpu_tasks.market.courts.opinions import Unanswerable
from gpu_tasks.market.training import money
from gpu_tasks.market.training.fraud_claims import claim_commitment
from gpu_tasks.market.training.life.leaving import RaisePrice
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.showing import refuted
from gpu_tasks.market.training.tasks import TASK_CHALLENGE, TASK_DISPUTE, JudgedFor, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from gpu_tasks.traces.trace import proof_of_fraud
from looked_at import (
    CALLED_FEE,
    CALLED_TRACE_FEE,
    DIGESTS,
    OFTEN,
    SEGMENTS,
    TRACE,
    judged,
    judges_say,
    says,
)  # fmt: skip
from runtime.frame.holds import Hold
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU
from task_chain import COLLATERAL, PRICE, RIGHT, WRONG, Books, TaskChain, an_offer, forfeit, net, with_offers

DUST = 1_000
"""The price that a bid by the winner's second account sets, in grains."""
LEAST = OGPU // 1_000
"""The least fee of a judge."""
STOOD_BY = DUST // 50
PROOF = proof_of_fraud(DIGESTS, 7, b"n" * 32)
SALT = b"s" * 32


def sold_for_dust(
    constants: dict[str, int] | None = None, collateral: int = COLLATERAL, **order: object
) -> tuple[TaskChain, Books]:
    """Return a task with a raised greatest price that Alice has for dust: the second lowest bid is her own too."""
    chain = TaskChain(size=14, constants=constants or {})
    books = Books(chain)
    chain.submit(**{"time_value": 0, "loss": 0, "price_max": PRICE // 2, **order})
    chain.amend(RaisePrice(PRICE))
    chain.auction(with_offers(chain.keys, 1, DUST, 8 * OGPU, collateral=collateral))
    assert (chain.now().slots[0].price, chain.now().slots[0].provider) == (DUST, chain.alice.stash)
    return chain, books


def finished_for_dust(root: bytes = RIGHT, **sold: Any) -> tuple[TaskChain, Books]:
    """Return the same task with a result."""
    chain, books = sold_for_dust(**sold)
    chain.start(chain.alice)
    chain.finish(chain.alice, root=root)
    return chain, books


def case_of(chain: TaskChain, place: int = 0) -> CourtCase:
    """Return the case about a slot."""
    found = chain.chain.now()[Courts].cases[slot_case(chain.task, place)]
    assert found is not None
    return found


def held(chain: TaskChain, who: bytes, hold: Hold) -> int:
    """Return the grains that an account holds for a reason."""
    return chain.chain.now()[Balances].held_cases[who, hold]


def challenged_for_dust() -> tuple[TaskChain, Books]:
    """Return a task sold for dust with a challenged trace."""
    chain, books = finished_for_dust(TRACE, segments=SEGMENTS)
    eve = chain.keys[4]
    commitment = claim_commitment(GENESIS_HASH, chain.task, eve.stash, 0, PROOF, SALT)
    chain.do(eve, TrainingMarket.claim_fraud(task=chain.task, commitment=commitment))
    assert held(chain, eve.stash, Hold(TASK_CHALLENGE, chain.task)) == 5 * CALLED_TRACE_FEE
    chain.do(eve, TrainingMarket.show_fraud(task=chain.task, place=0, proof=PROOF, salt=SALT))
    return chain, books


def reported_for_dust(**sold: Any) -> tuple[TaskChain, Books]:
    """Return a task sold for dust whose winner reports a missing input."""
    chain, books = sold_for_dust(**sold)
    chain.do(chain.alice, TrainingMarket.report_input(task=chain.task, place=0))
    return chain, books


def disputed_for_dust(**sold: Any) -> tuple[TaskChain, Books]:
    """Return a task sold for dust with a right result that the customer disputes."""
    chain, books = finished_for_dust(**sold)
    chain.dispute()
    return chain, books


@pytest.mark.parametrize(
    ("called", "fee", "from_pot"),
    [
        (disputed_for_dust, CALLED_FEE, FIRST_JUDGES * LEAST),
        (challenged_for_dust, CALLED_TRACE_FEE, 0),
        (reported_for_dust, CALLED_FEE, FIRST_JUDGES * LEAST),
    ],
)
def test_a_price_of_dust_makes_no_judges_cheap_whom_somebody_calls(
    called: Callable[[], tuple[TaskChain, Books]], fee: int, from_pot: int
) -> None:
    """The pot gives no more than for an audit, whose pay follows the price."""
    chain, _ = called()
    while chain.state() is not TaskState.JUDGED:
        chain.block()
    case = case_of(chain)
    assert case.fee == fee
    assert case.terms.pot_max == from_pot


@pytest.mark.parametrize("called", [disputed_for_dust, reported_for_dust])
def test_a_judge_holds_a_court_and_twice_what_the_customer_is_due(
    called: Callable[..., tuple[TaskChain, Books]],
) -> None:
    """This holds for a committee and for an audit's pair: a successful appeal may cost them that much."""
    chain, _ = called(collateral=35 * OGPU)
    chain.blocks(4)
    case, seat = case_of(chain), COURT_FEES * CALLED_FEE + 2 * PRICE
    assert seat > max(35 * OGPU, SEAT_FEES * CALLED_FEE)
    assert case.seat == seat
    judges = case.benches[-1].members
    assert [held(chain, judge, Hold(JUDGE_SEAT, slot_case(chain.task, 0))) for judge in judges] == [seat] * len(judges)


def test_an_audit_of_a_gang_goes_by_the_price_of_each_partner() -> None:
    chain = TaskChain(size=14)
    chain.submit(slots=2, milestones=1)
    alice, bob, third = chain.keys[:3]
    chain.auction({alice: an_offer(5 * OGPU, 20), bob: an_offer(6 * OGPU, 40), third: an_offer(8 * OGPU, 40)})
    prices = [slot.price for slot in chain.now().slots]
    assert prices[0] > prices[1]
    chain.start_all()
    chain.finish(alice)
    chain.finish(bob, 1, root=WRONG)
    assert (chain.state(), chain.now().judged_for) == (TaskState.JUDGED, JudgedFor.AUDIT)
    for place, price in enumerate(prices):
        case = case_of(chain, place)
        assert (case.fee, case.terms.pot_max) == (price // 20, 5 * (price // 20))


def test_an_audit_of_dust_pays_what_its_premium_is_of() -> None:
    for seed in range(20):
        chain, _ = finished_for_dust(constants={**OFTEN, "TrainingMarket.accept_blocks": 40})
        chain.chain.chance.seed(seed)
        chain.until_checked()
        if chain.state() is TaskState.JUDGED:
            case = case_of(chain)
            assert (case.fee, case.terms.pot_max) == (LEAST, FIRST_JUDGES * LEAST)
            assert money.premium(chain.now().rules, DUST) == 2 * LEAST
            return
    raise AssertionError("no beacon asks for an audit")


def test_a_right_result_of_dust_that_is_disputed_pays_its_judges_by_the_greatest_price() -> None:
    chain, books = disputed_for_dust()
    pot, bond = chain.pot, DUST // 10 + 3 * CALLED_FEE
    assert held(chain, CUSTOMER.stash, Hold(TASK_DISPUTE, slot_case(chain.task, 0))) == bond
    assert judged(chain, says(RIGHT)) is CaseOutcome.AUDIT_RIGHT
    assert chain.now().outcome is TaskOutcome.DISPUTED_FALSELY
    premium = money.premium(chain.now().rules, DUST)
    assert chain.pot == pot + premium
    assert books.change(chain.alice) == net(DUST) + (bond - 2 * CALLED_FEE) // 2
    assert books.change(CUSTOMER) == -DUST - STOOD_BY - premium - bond


def test_a_missing_input_of_dust_pays_its_judges_by_the_greatest_price_and_the_rest_returns() -> None:
    chain, books = reported_for_dust()
    pot, customer = chain.pot, -forfeit(DUST) - STOOD_BY
    while chain.state() is TaskState.JUDGED:
        chain.block(*judges_say(chain, lambda _keys: Unanswerable()))
    assert chain.now().outcome is TaskOutcome.INPUT_MISSING
    assert (chain.pot, books.change(CUSTOMER)) == (pot, customer - 3 * CALLED_FEE)


def test_a_wrong_proof_about_dust_pays_its_judges_by_the_greatest_price() -> None:
    chain, books = challenged_for_dust()
    pot, eve = chain.pot, chain.keys[4]
    while chain.state() is TaskState.JUDGED:
        chain.block(*judges_say(chain, says(TRACE)))
    assert (chain.pot, books.change(eve)) == (pot, -5 * CALLED_TRACE_FEE)


def test_a_right_proof_about_dust_brings_what_judges_cost_twice() -> None:
    chain, books = challenged_for_dust()
    judged(chain, says(refuted(TRACE)))
    assert chain.now().outcome is TaskOutcome.LIED
    assert books.change(chain.keys[4]) == min(10 * CALLED_TRACE_FEE, COLLATERAL // 4)
    assert books.change(chain.alice) == -COLLATERAL
