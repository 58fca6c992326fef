"""A claim from its opening to its end, with a provider and checkers that compute."""

import pytest

from gpu_tasks.market.claims.claim_events import CheckerDrawn, PointsDrawn
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.handlers import Ruling
from gpu_tasks.market.claims.result_claims import ResultClaims
from simulation.chains.claim_chain import PRICE, ClaimChain, ToyMarket
from simulation.chains.market_chain import CUSTOMER, signed


def test_a_claim_without_a_point_passes_once_its_beacons_are_final() -> None:
    stage = ClaimChain()
    earned, spent = stage.free(stage.owner.stash), stage.free(CUSTOMER.stash)
    claim_id = stage.open(rate_ppm=100_000)
    assert stage.chain.now()[ResultClaims].is_open(claim_id)
    assert stage.run(claim_id) is ClaimOutcome.PASSED
    # Block 1 has the beacons of 17 to 32, and block 33 refers to block 32 as final.
    assert stage.chain.height == 33
    assert not stage.chain.now()[ResultClaims].is_open(claim_id)
    assert (stage.free(stage.owner.stash) - earned, spent - stage.free(CUSTOMER.stash)) == (PRICE, PRICE)
    assert not stage.chain.happened(PointsDrawn)


@pytest.mark.parametrize("size", [1, 3])
def test_a_development_chain_checks_nothing(size: int) -> None:
    """The provider is paid as soon as its claim is final."""
    stage = ClaimChain(size=size)
    claim_id = stage.open()
    assert stage.outcome(claim_id) is None
    stage.chain.block()
    assert stage.outcome(claim_id) is ClaimOutcome.PASSED
    assert not stage.chain.happened(CheckerDrawn)


def test_a_claim_of_rate_zero_ends_at_once_after_a_false_dispute() -> None:
    stage, claim_id = ClaimChain(), b"c" * 32
    terms = stage.terms(rate_ppm=0)
    disputes = signed(stage.stranger.stash, ResultClaims.dispute(claim=claim_id, index=0))
    stage.chain.block(lambda bound: bound[ToyMarket].bring(claim_id, terms), disputes)
    stage.decide(claim_id, Ruling(None, is_appealed=False, voters=()))
    stage.chain.block()
    assert stage.outcome(claim_id) is ClaimOutcome.PASSED
