"""What is committed to, and what breaks ties and draws segments: nothing of it can be used in another's place."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.market.training.bids import bid_commitment, tie_seed
from gpu_tasks.market.training.fraud_claims import claim_commitment
from gpu_tasks.market.training.showing import drawn_parts
from gpu_tasks.traces.trace import proof_of_fraud
from looked_at import DIGESTS
from task_chain import an_offer

A, B = b"a" * 32, b"b" * 32
OFFER = an_offer(5)
BID: dict[str, Any] = {"genesis": A, "auction": A, "provider": A, "device": A, "offer": OFFER, "salt": A}
PROOF = proof_of_fraud(DIGESTS, 7, A)
CLAIM: dict[str, Any] = {"genesis": A, "task": A, "challenger": A, "place": 0, "proof": PROOF, "salt": A}


@pytest.mark.parametrize(
    "changed",
    [
        *({name: B} for name in ("genesis", "auction", "provider", "device", "salt")),
        *({"offer": replace(OFFER, **{name: 1})} for name in ("price", "blocks", "collateral")),
    ],
    ids=str,
)
def test_a_bid_is_committed_to_with_all_that_it_is_of(changed: dict[str, Any]) -> None:
    assert bid_commitment(**{**BID, **changed}) != bid_commitment(**BID)


@pytest.mark.parametrize(
    "changed",
    [
        *({name: B} for name in ("genesis", "task", "challenger", "salt")),
        {"place": 1},
        {"proof": replace(PROOF, right=B)},
    ],
    ids=str,
)
def test_a_fraud_proof_is_committed_to_with_all_that_it_is_of(changed: dict[str, Any]) -> None:
    assert claim_commitment(**{**CLAIM, **changed}) != claim_commitment(**CLAIM)


def test_the_ties_of_two_auctions_are_broken_apart() -> None:
    assert len({tie_seed(A, A), tie_seed(A, B), tie_seed(B, A)}) == 3


def test_partners_do_not_know_what_to_show_by_each_other() -> None:
    assert drawn_parts(A, A, range(500)) != drawn_parts(A, B, range(500))
    assert drawn_parts(A, A, range(500)) != drawn_parts(B, A, range(500))
