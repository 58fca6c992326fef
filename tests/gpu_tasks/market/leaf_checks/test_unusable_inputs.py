"""The judges' pay for unusable inputs, which a customer and its own racer can post at will."""

from gpu_tasks.market.courts.events import CaseEnded
from gpu_tasks.market.courts.money import CaseOutcome
from gpu_tasks.market.courts.opinions import Unanswerable
from gpu_tasks.market.inference.events import ProviderSlashed
from gpu_tasks.market.leaf_checks.checks import LeafCheck, LeafStage
from simulation.chains.batch_chain import LeafChain
from simulation.chains.market_chain import CUSTOMER, signed

JUDGES = 3


def found_unusable(stage: LeafChain, unit: bytes, until: LeafStage | None = None) -> LeafCheck:
    """Return the check after all judges found its leaf's input unusable, and blocks up to a stage."""
    check = stage.check(unit)
    assert check.case is not None
    stage.said[check.case] = Unanswerable()
    stage.until(unit, *(() if until is None else (until,)))
    (ended,) = stage.chain.happened(CaseEnded)
    assert ended.outcome is CaseOutcome.INPUT_BAD
    assert not stage.chain.happened(ProviderSlashed)
    return check


def test_a_customer_that_disputes_a_leaf_of_an_unusable_input_pays_the_judges() -> None:
    """For a twentieth of a price it could take one and a half from the pot, repeatedly."""
    stage = LeafChain()
    unit = stage.settled()
    stage.shown(unit)
    stage.until(unit, LeafStage.OPEN)  # auditors cannot use it either
    customer, pot = stage.owned(CUSTOMER.stash), stage.pot
    stage.chain.block(signed(CUSTOMER.stash, stage.dispute_call(unit, 3, stage.claim(unit, 3, is_right=False))))
    terms = found_unusable(stage, unit).terms
    assert stage.owned(CUSTOMER.stash) == customer - terms.fee - JUDGES * terms.judge_fee
    assert stage.pot == pot + terms.fee


def test_an_auditor_that_doubts_a_leaf_of_an_unusable_input_takes_no_more_from_the_pot_than_a_check_brings() -> None:
    stage = LeafChain()
    unit = stage.settled()
    auditor = stage.shown(unit)
    pot, held, index = stage.pot, stage.owned(auditor.stash), stage.check(unit).shown[0].index
    stage.chain.block(stage.doubts(unit, auditor, index, stage.claim(unit, index, is_right=False)))
    terms = found_unusable(stage, unit, LeafStage.CHECKING).terms
    assert pot - terms.fee == stage.pot
    assert stage.owned(auditor.stash) == held, "the judges may be the ones whom the customer left out"
    stage.until(unit)
    assert stage.pot == pot
