"""The open claims and disputes about results of units and tasks: objects for programs, and clauses for people.

Invariant: blocks are named as `block N`, so that a command can add the time. A clause changes only with the facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cli.output import Account
from gpu_tasks.market.claims.claims import CheckEnd, ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_storage import owed
from gpu_tasks.market.claims.convictions import disputed_place, open_check
from gpu_tasks.market.claims.disputes import SEATS, DisputeQuestion, DisputeStage
from gpu_tasks.market.claims.disputes_api import DisputeStatus
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.draws import BEACON_DELAY
from runtime.cryptography import ss58
from runtime.pallets.staking.slashing import PPM
from wallet.amounts import Grains, counted

ACCOUNT_LETTERS = 8
ENDS_NEXT = "the next block compares the checker's finding with the provider's samples"


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """An open claim with its next event. The actor is `beacon`, `provider`, `checker`, `voters` or `chain`."""

    claim: ResultClaim
    noun: str = "request"
    """The word for an item of the claim."""

    @property
    def account(self) -> bytes | None:
        """The account that must act now, or None."""
        return None if self.claim.stage is ClaimStage.DISPUTED else next(iter(owed(self.claim)), None)

    @property
    def actor(self) -> str:
        """The actor that the claim waits for."""
        match self.claim.stage:
            case ClaimStage.DRAWING | ClaimStage.CALLING:
                return "beacon"
            case ClaimStage.DISPUTED:
                return "voters"
            case ClaimStage.SHOWING:
                return "provider"
            case _:
                return "chain" if self.account is None else "checker"

    @property
    def until(self) -> int | None:
        """The last block of the wait; None while the previous step is not final, and during a dispute."""
        claim = self.claim
        if claim.stage is ClaimStage.DRAWING:
            return beacon_heights(claim.recorded_at)[-1]
        if claim.stage is ClaimStage.CALLING:
            return claim.recorded_at + BEACON_DELAY
        return None if self.actor == "chain" else claim.deadline or None

    def facts(self) -> dict[str, Any]:
        """Return the claim for programs."""
        claim, terms = self.claim, self.claim.terms
        return {
            "stage": claim.stage.name.lower(),
            "actor": self.actor,
            "account": None if self.account is None else Account(self.account),
            "until_block": self.until,
            "provider": Account(terms.provider),
            "price": Grains(terms.price),
            "collateral": Grains(terms.collateral),
            "check_fees_max": Grains(terms.fees_held),
            "points": len(claim.points),
            "is_second_check": claim.is_second,
            "checks": [
                {"checker": Account(check.checker), "is_second": check.is_second, "end": check.end.name.lower()}
                for check in claim.checks
            ],
            "disputes": claim.disputes,
        }

    def says(self) -> str:
        """Return the stage as a clause."""
        claim = self.claim
        who = "" if self.account is None else ss58.encode(self.account)[:ACCOUNT_LETTERS]
        by = f"by block {self.until}" if self.until else "once the previous step is final"
        match claim.stage:
            case ClaimStage.DRAWING if claim.is_second:
                passed = sum(check.end is CheckEnd.PASSED for check in claim.checks)
                return f"{counted(passed, 'check')} passed, and the beacons decide about a second checker {by}"
            case ClaimStage.DRAWING if not claim.terms.rate_ppm:
                return f"this chain has too few validators for checks, so it is paid after that {by}"
            case ClaimStage.DRAWING:
                none = ", most often none" if 2 * claim.terms.items * claim.terms.rate_ppm < PPM else ""
                return f"the beacons draw {self.noun}s to check {by}{none}"
            case ClaimStage.CALLING:
                return f"the beacon draws another checker {by}"
            case ClaimStage.COMMITTING:
                return f"checker {who} computes {counted(len(claim.points), f'drawn {self.noun}')} {by}"
            case ClaimStage.SHOWING:
                return f"provider {who} must show its samples {by}"
            case ClaimStage.OPENING:
                return f"checker {who} must open its finding {by}" if who else ENDS_NEXT
            case ClaimStage.CONCEDING:
                return f"checker {who} found something else, and may concede {by}"
            case ClaimStage.DISPUTED:
                return f"validators vote about one {self.noun}"


@dataclass(frozen=True, slots=True)
class OpenDispute:
    """A dispute about which validators vote."""

    id: bytes
    status: DisputeStatus
    item: int | None
    """The number of the item; None for a whole result or input, or if no account has named it."""
    item_name: str = "request"
    """The name of that number for programs."""

    @property
    def until(self) -> int | None:
        """The last block of the wait."""
        dispute, status = self.status.dispute, self.status
        if dispute.stage is DisputeStage.APPEALABLE:
            return dispute.appealable_until
        if dispute.round is None:
            return dispute.recorded_at + BEACON_DELAY
        return (status.opens_until if status.opens_from else status.commits_until) or None

    def facts(self) -> dict[str, Any]:
        """Return the dispute for programs."""
        dispute = self.status.dispute
        is_drawn = dispute.round is not None
        return {
            "id": self.id,
            "question": dispute.terms.question.name.lower(),
            "stage": dispute.stage.name.lower(),
            "actor": "parties" if dispute.stage is DisputeStage.APPEALABLE else "voters" if is_drawn else "beacon",
            "until_block": self.until,
            self.item_name: self.item,
            "voters": len(dispute.electorate if dispute.stage is DisputeStage.APPEAL else dispute.voters),
            "decision": None if dispute.vote is None else dispute.vote.verdict.name.lower(),
            "parties": [Account(party) for party in dispute.terms.parties],
        }

    def says(self) -> str:
        """Return the step of the voters as a clause."""
        dispute, by = self.status.dispute, f"by block {self.until}" if self.until else "soon"
        if dispute.stage is DisputeStage.APPEALABLE:
            assert dispute.vote is not None, "a decision is a vote"
            verdict = dispute.vote.verdict.name.lower()
            return f"{SEATS} voters found it {verdict}, which is final without an appeal {by}"
        if dispute.round is None:
            return f"the beacon draws the voters {by}"
        voters = "all validators" if dispute.stage is DisputeStage.APPEAL else f"{SEATS} validators"
        return f"{voters} open their votes {by}" if self.status.opens_from else f"{voters} compute it {by}"


def open_dispute(
    dispute_id: bytes, status: DisputeStatus, claim: ResultClaim | None, item_name: str = "request"
) -> OpenDispute:
    """Return a dispute about a claim, or about results that differ, with the number of its item."""
    terms, item = status.dispute.terms, None if claim is None else _item_of(claim)
    if terms.point is None:
        item = terms.index if terms.question is DisputeQuestion.ITEM else None
    return OpenDispute(dispute_id, status, item, item_name)


def _item_of(claim: ResultClaim) -> int | None:
    """Return the item at the disputed point, as the provider's samples name it, or None without samples."""
    check = open_check(claim)
    if claim.stage is not ClaimStage.DISPUTED or check is None or check.shown is None or claim.disputer is not None:
        return None
    return check.shown[disputed_place(claim)].index
