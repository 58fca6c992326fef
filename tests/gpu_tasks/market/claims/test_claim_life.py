"""A claim from its opening to its end, with a provider and checkers that compute."""

import pytest

from gpu_tasks.market.claims.claim_events import CheckerDrawn, PointsDrawn
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimStage
from gpu_tasks.market.claims.result_claims import ResultClaims
from simulation.chains.claim_chain import PRICE, ClaimChain
from simulation.chains.market_chain import CUSTOMER


def test_a_claim_without_a_point_passes_once_its_beacons_are_final() -> None:
    stage = ClaimChain()
    earned, spent = stage.free(stage.owner.stash), stage.free(CUSTOMER.stash)
    claim_id = stage.open(rate_ppm=0)
    assert stage.chain.now()[ResultClaims].is_open(claim_id)
    assert stage.run(claim_id) is ClaimOutcome.PASSED
    # Block 1 has the beacons of 17 to 32, and block 33 refers to block 32 as final.
    assert stage.chain.height == 33
    assert not stage.chain.now()[ResultClaims].is_open(claim_id)
    assert (stage.free(stage.owner.stash) - earned, spent - stage.free(CUSTOMER.stash)) == (PRICE, PRICE)
    assert not stage.chain.happened(PointsDrawn)


def test_a_drawn_claim_is_checked_and_passes() -> None:
    stage = ClaimChain()
    claim_id = stage.open()
    assert stage.run(claim_id, until=ClaimStage.COMMITTING) is None
    assert stage.claim(claim_id).checks[0].checker in [keys.stash for keys in stage.chain.validators]
    assert stage.run(claim_id, until=ClaimStage.DRAWING) is None
    assert stage.claim(claim_id).is_second
    assert stage.run(claim_id) is ClaimOutcome.PASSED
    assert len(stage.chain.happened(PointsDrawn)) == 1


@pytest.mark.parametrize("size", [1, 3])
def test_a_development_chain_checks_nothing(size: int) -> None:
    stage = ClaimChain(size=size)
    assert stage.run(stage.open()) is ClaimOutcome.PASSED
    assert not stage.chain.happened(CheckerDrawn)
