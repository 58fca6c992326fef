"""`ClaimsApi`: the claims in which an account must act, the costliest to omit first."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.claims.claims import ClaimStage
from gpu_tasks.market.claims.claims_api import CLAIMS_SHOWN_MAX, ClaimsApi, ClaimStatus
from gpu_tasks.market.claims.result_claims import ResultClaims
from node.rpc.methods.state import MAX_CALL_KEYS
from runtime.frame.api import Apis
from runtime.state.overlay import RecordedReads
from simulation.chains.claim_chain import Checks, ClaimChain
from simulation.chains.market_chain import GENESIS_HASH

STASH = b"s" * 32


def ask(stage: ClaimChain, name: str, argument: bytes, state: Any = None) -> Any:
    """Return the answer of a proved call."""
    apis = Apis(stage.chain.runtime, (ClaimsApi,))
    reads = RecordedReads(stage.chain.state if state is None else state, MAX_CALL_KEYS)
    return apis.methods[f"ClaimsApi_{name}"].output.decode(
        apis.call(reads, GENESIS_HASH, f"ClaimsApi_{name}", argument)
    )


@pytest.mark.parametrize("at", list(ClaimStage))
def test_each_stage_names_its_actor_and_its_duties(at: ClaimStage) -> None:
    stage = ClaimChain(checker=lambda *_: Checks(label=b"other", is_conceded=at is ClaimStage.CALLING))
    claim_id = stage.open()
    stage.run(claim_id, until=at)
    claim = stage.claim(claim_id)
    provider, checker = stage.owner.stash, claim.checks[-1].checker if claim.checks else None
    actors = {
        ClaimStage.COMMITTING: checker,
        ClaimStage.SHOWING: provider,
        ClaimStage.OPENING: checker,
        ClaimStage.CONCEDING: checker,
    }
    status = ClaimStatus(claim_id, claim, actors.get(at), claim.deadline)
    assert ask(stage, "claim", claim_id) == status
    bound = [provider, checker] if at is ClaimStage.DISPUTED else [actors.get(at)]
    for who in (provider, *(keys.stash for keys in stage.chain.validators)):
        assert ask(stage, "duties", who) == ((status,) if who in bound else ())


def test_a_dispute_names_its_claim() -> None:
    stage = ClaimChain(checker=lambda *_: Checks(label=b"other"))
    claim_id = stage.open()
    stage.run(claim_id, until=ClaimStage.DISPUTED)
    dispute_id = next(iter(stage.chain.now()[ResultClaims].claim_of_dispute.keys()))
    assert ask(stage, "claim_of_dispute", dispute_id).id == claim_id
    assert ask(stage, "claim_of_dispute", claim_id) is None
    assert ask(stage, "claim", b"?" * 32) is None


@pytest.mark.parametrize("flood", [CLAIMS_SHOWN_MAX + 200, 3_000])
def test_a_flood_of_checks_hides_no_duty_that_costs_more(flood: int) -> None:
    stage = ClaimChain()
    claim_id = stage.open()
    stage.run(claim_id, until=ClaimStage.SHOWING)
    claim, bound = stage.claim(claim_id), stage.chain.now()
    planted = {number.to_bytes(4, "big").ljust(32, b"\0"): (ClaimStage.COMMITTING, 5) for number in range(flood)}
    costly = (ClaimStage.SHOWING, ClaimStage.OPENING, ClaimStage.DISPUTED, ClaimStage.CONCEDING)
    own = {b"\xff" * 31 + bytes((number,)): (at, 9_000) for number, at in enumerate(costly)}
    for name, (at, deadline) in (planted | own).items():
        bound[ResultClaims].duties[STASH, name] = at
        bound[ResultClaims].claims[name] = replace(claim, stage=at, deadline=deadline)
    found = ask(stage, "duties", STASH, stage.chain.state.updated(bound.overlay.changes()))
    assert len(found) == CLAIMS_SHOWN_MAX
    assert [status.id for status in found[:4]] == list(own)
    assert all(status.id in planted for status in found[4:])
