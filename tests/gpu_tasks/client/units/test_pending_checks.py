"""The open claim and dispute of a unit: every step names its actor and its last block, for people and programs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from asked_chain import AskedChain
from error_codes import raises_code
from gpu_tasks.client.units.pending_checks import PendingChecks, pending_checks
from gpu_tasks.data.appeals import AppealError, appeal_against
from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.disputes import Dispute, DisputeStage
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import ItemVote, Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.inference.units import UnitState, is_open
from simulation.chains.dispute_chain import voter_steps
from simulation.chains.market_chain import CUSTOMER, MarketChain, Step, named_keys, signed
from unit_cases import RIGHT, WRONG, checker_steps, declined_twice, raced, vote_for

ACTORS = {
    ClaimStage.DRAWING: {"beacon"},
    ClaimStage.CALLING: {"beacon"},
    ClaimStage.COMMITTING: {"checker"},
    ClaimStage.SHOWING: {"provider"},
    ClaimStage.OPENING: {"checker", "chain"},
    ClaimStage.CONCEDING: {"checker"},
    ClaimStage.DISPUTED: {"voters"},
}


def checked_chain(validators: int = 12) -> MarketChain:
    """Return a chain that checks each result."""
    return MarketChain(named_keys(validators), [], {"ResultClaims.check_rate": 1_000_000})


def end_race(chain: MarketChain, unit_id: bytes) -> None:
    while chain.unit(unit_id).state is UnitState.RACING:
        chain.block()


def look(chain: MarketChain, unit_id: bytes) -> PendingChecks | None:
    return asyncio.run(pending_checks(cast("Any", AskedChain(chain)), unit_id, chain.unit(unit_id)))


def life(chain: MarketChain, unit_id: bytes, steps: Callable[[], Iterator[Step]]) -> list[PendingChecks]:
    """Make blocks until the unit ends. Return all looks at it."""
    looks: list[PendingChecks] = []
    end_race(chain, unit_id)
    while is_open(chain.unit(unit_id)):
        found = look(chain, unit_id)
        assert found is not None
        looks.append(found)
        chain.block(*steps())
    assert look(chain, unit_id) is None
    return looks


def test_a_unit_without_a_claim_or_a_dispute_has_none() -> None:
    chain = checked_chain()
    unit_id, unit, _ = raced(chain, {0: RIGHT, 1: RIGHT})
    assert unit.state is UnitState.RACING
    racing = asyncio.run(pending_checks(cast("Any", AskedChain(chain)), unit_id, unit))
    assert racing is None, "the view of an older block"


@pytest.mark.parametrize("has_wrong_finding", [False, True])
def test_every_step_of_a_claim_names_its_actor_and_its_last_block(*, has_wrong_finding: bool) -> None:
    chain = checked_chain()
    unit_id, *_ = raced(chain, {0: RIGHT, 1: RIGHT})
    label = b"another" if has_wrong_finding else b""

    def steps() -> Iterator[Step]:
        yield from checker_steps(chain, Verdict.RIGHT, label)
        yield from voter_steps(chain, vote_for(Verdict.RIGHT, weight=64))

    looks = life(chain, unit_id, steps)
    stages = {each.claim.claim.stage for each in looks if each.claim is not None}
    expected = {ClaimStage.DRAWING, ClaimStage.COMMITTING, ClaimStage.SHOWING, ClaimStage.OPENING}
    assert expected <= stages
    assert ({ClaimStage.CONCEDING, ClaimStage.DISPUTED} <= stages) == has_wrong_finding
    provider = chain.unit(unit_id).racers
    for each in looks:
        assert each.claim is not None
        claim, facts, says = each.claim.claim, each.claim_facts(), each.says()
        assert facts is not None
        assert facts["stage"] == claim.stage.name.lower()
        assert facts["actor"] in ACTORS[claim.stage]
        assert (facts["account"] is None) == (facts["actor"] in {"beacon", "chain", "voters"})
        assert facts["actor"] != "provider" or facts["account"] in {racer.owner for racer in provider}
        assert (each.dispute_facts() is None) == (claim.stage is not ClaimStage.DISPUTED)
        if facts["until_block"] is not None:
            assert f"block {facts['until_block']}" in says
            assert facts["until_block"] >= chain_height_of(each)
        assert re.search(r"\bNone\b|[{}]", says) is None


def chain_height_of(look_at: PendingChecks) -> int:
    """Return the block of the last step of a claim."""
    assert look_at.claim is not None
    return look_at.claim.claim.recorded_at


def voting(chain: MarketChain, vote: Callable[[Dispute], ItemVote | None]) -> Callable[[], Iterator[Step]]:
    return lambda: voter_steps(chain, vote)


def test_a_dispute_between_racers_names_its_step() -> None:
    chain = checked_chain()
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    end_race(chain, unit_id)
    assert chain.unit(unit_id).state is UnitState.DISPUTED
    looks = []
    while chain.unit(unit_id).state is UnitState.DISPUTED:
        found = look(chain, unit_id)
        assert found is not None
        looks.append(found)
        chain.block(*voter_steps(chain, vote_for(Verdict.RIGHT)))
    facts = [each.dispute_facts() for each in looks]
    assert {each["stage"] for each in facts if each} == {"drawing", "voting", "appealable"}
    assert {each["actor"] for each in facts if each} == {"beacon", "voters", "parties"}
    assert {each["question"] for each in facts if each} == {"sides"}
    assert all(each.claim_facts() is None for each in looks)
    assert all(each.says().startswith("its racers gave different answers; ") for each in looks)
    decided = next(each for each in facts if each and each["stage"] == "appealable")
    assert (decided["decision"], decided["request"]) == ("right", None)


def test_a_dispute_about_an_input_counts_those_that_declined() -> None:
    chain = checked_chain()
    unit_id, _ = declined_twice(chain)
    found = look(chain, unit_id)
    assert found is not None
    facts = found.dispute_facts()
    assert facts is not None
    assert (facts["question"], facts["request"]) == ("input", None)
    assert found.says().startswith("2 providers could not use its input; the beacon draws the voters by block ")


def test_on_a_chain_without_checks_the_payment_waits_for_the_beacons_alone() -> None:
    chain = MarketChain(named_keys(3))
    unit_id, *_ = raced(chain, {0: RIGHT}, racers=1)
    end_race(chain, unit_id)
    found = look(chain, unit_id)
    assert found is not None
    assert "too few validators for checks" in found.says()


# An appeal against a decision: of the dispute about a unit, or about its claim.


def appealed(chain: MarketChain, unit_id: bytes, appellant: bytes = CUSTOMER.stash) -> Any:
    return asyncio.run(appeal_against(cast("Any", AskedChain(chain)), unit_id, appellant))


def test_a_decision_can_be_appealed_and_nothing_else() -> None:
    chain = checked_chain()
    unit_id, *_ = raced(chain, {0: WRONG, 1: RIGHT})
    end_race(chain, unit_id)
    with raises_code(AppealError, "no_decision"):
        appealed(chain, unit_id)
    dispute, dispute_id = None, b""
    while dispute is None or dispute.stage is not DisputeStage.APPEALABLE:
        chain.block(*voter_steps(chain, vote_for(Verdict.RIGHT)))
        ((dispute_id, dispute),) = chain.now()[Disputes].disputes.items()
    found = appealed(chain, unit_id)
    assert (found.facts["decision"], found.facts["final_after_block"]) == ("right", dispute.appealable_until)
    assert (found.facts["dispute"], found.facts["you_are"]) == (dispute_id, "a party")
    chain.block(signed(CUSTOMER.stash, found.call))
    assert chain.now()[Disputes].open_dispute(dispute_id).appellant == CUSTOMER.stash
    with raises_code(AppealError, "no_dispute"):
        appealed(chain, b"?" * 32)


def test_a_decision_about_a_claim_can_be_appealed() -> None:
    chain = checked_chain()
    unit_id, *_ = raced(chain, {0: RIGHT, 1: RIGHT})
    end_race(chain, unit_id)
    with raises_code(AppealError, "no_dispute"):
        appealed(chain, unit_id)
    chain.block(signed(CUSTOMER.stash, ResultClaims.dispute(claim=unit_id, index=0)))
    while True:
        ((dispute_id, dispute),) = chain.now()[Disputes].disputes.items()
        assert dispute is not None
        if dispute.stage is DisputeStage.APPEALABLE:
            break
        chain.block(*voter_steps(chain, vote_for(Verdict.RIGHT, weight=64)))
    assert appealed(chain, unit_id).facts["dispute"] == dispute_id
