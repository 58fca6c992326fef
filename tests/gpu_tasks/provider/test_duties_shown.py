"""`status` shows the claims in which a stash must act, and its votes."""

from dataclasses import replace

import pytest

from gpu_tasks.market.claims.claims import Check, ClaimStage, ClaimTerms, ResultClaim
from gpu_tasks.market.claims.claims_api import ClaimStatus
from gpu_tasks.market.claims.disputes import (
    Dispute,
    DisputeQuestion,
    DisputeStage,
    DisputeTerms,
    DisputeWindows,
    VotingSeat,
)
from gpu_tasks.market.claims.disputes_api import BallotStatus, DisputeStatus
from gpu_tasks.market.claims.findings import CANNOT_FETCH
from gpu_tasks.provider.commands.status import BALLOTS, CLAIMS, ballot_row, claim_row
from wallet.amounts import Grains

ME, OTHER, CLAIM, DISPUTE = (bytes([letter]) * 32 for letter in b"mocd")
TERMS = ClaimTerms(1, OTHER, b"k" * 32, b"r" * 32, 1, 1, 1, 5, 9, 1, 1, 1, 1, 0, 3, ())
CLAIMED = ResultClaim(TERMS, 30, ClaimStage.COMMITTING, 7, deadline=44)
MINE = Check(ME, b"s" * 32, is_second=False, held=9)


@pytest.mark.parametrize(
    ("claim", "role"),
    [
        (replace(CLAIMED, checks=(MINE,)), "checker"),
        (replace(CLAIMED, terms=replace(TERMS, provider=ME)), "provider"),
        (replace(CLAIMED, disputer=ME), "disputer"),
    ],
)
def test_a_claim_is_shown_with_the_part_of_the_stash(claim: ResultClaim, role: str) -> None:
    row = claim_row(ClaimStatus(CLAIM, claim, ME, claim.deadline), ME)
    assert tuple(row) == CLAIMS
    assert row == {"claim": CLAIM, "role": role, "stage": "committing", "until_block": 44}


@pytest.mark.parametrize(
    ("ballot", "said"),
    [
        (VotingSeat(0, 1, 8), "nothing yet"),
        (VotingSeat(0, 1, 8, commitment=b"h" * 32), "committed"),
        (VotingSeat(0, 1, 8, commitment=b"h" * 32, vote=CANNOT_FETCH), "opened"),
    ],
)
def test_a_ballot_is_shown_with_its_hold_and_progress(ballot: VotingSeat, said: str) -> None:
    terms = DisputeTerms(1, DisputeQuestion.SIDES, CLAIM, 0, None, (), (), (), 4, 0, 3)
    dispute = Dispute(terms, DisputeWindows(1, 1, 1), DisputeStage.VOTING, 7)
    row = ballot_row(BallotStatus(DISPUTE, ballot, DisputeStatus(dispute, 0, 0, 0)))
    assert tuple(row) == BALLOTS
    assert row == {
        "dispute": DISPUTE, "work": CLAIM, "question": "sides", "held": Grains(8), "stage": "voting", "said": said,
    }  # fmt: skip
