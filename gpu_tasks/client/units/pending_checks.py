"""The open claim and the open dispute of a unit: objects for programs, and a sentence for people.

A claimed unit has a claim: the customer can read the answer, and the payment waits for a check. A unit whose racers
differ, or whose input was declined, has a dispute. So has a claim whose item is in doubt.

Invariants:

* All facts are of one block, which the node proves.
* Blocks are named as `block N`, so that a command can add the time. The sentence changes only with the facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cli.output import Account
from gpu_tasks.data import claim_reads, market_reads
from gpu_tasks.market.claims.claims import CheckEnd, ClaimStage, ResultClaim
from gpu_tasks.market.claims.claims_storage import owed
from gpu_tasks.market.claims.convictions import disputed_place, open_check
from gpu_tasks.market.claims.disputes import SEATS, DisputeQuestion, DisputeStage
from gpu_tasks.market.claims.disputes_api import DisputeStatus
from gpu_tasks.market.claims.draws import beacon_heights
from gpu_tasks.market.draws import BEACON_DELAY
from gpu_tasks.market.inference.units import Unit, UnitState, declines_of
from gpu_tasks.market.leaf_disputes.disputes import LeafDispute, LeafDisputeStage
from runtime.cryptography import ss58
from wallet.amounts import Grains, counted
from wallet.client import ChainClient

ACCOUNT_LETTERS = 8
WAITS = "the answer can be read; its payment waits for a check"
ENDS_NEXT = "the next block compares the checker's finding with the provider's samples"


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """An open claim with its next event. The actor is `beacon`, `provider`, `checker`, `voters` or `chain`."""

    claim: ResultClaim

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
                return f"the beacons draw requests to check {by}, most often none"
            case ClaimStage.CALLING:
                return f"the beacon draws another checker {by}"
            case ClaimStage.COMMITTING:
                return f"checker {who} computes {counted(len(claim.points), 'drawn request')} {by}"
            case ClaimStage.SHOWING:
                return f"provider {who} must show its samples {by}"
            case ClaimStage.OPENING:
                return f"checker {who} must open its finding {by}" if who else ENDS_NEXT
            case ClaimStage.CONCEDING:
                return f"checker {who} found something else, and may concede {by}"
            case ClaimStage.DISPUTED:
                return "validators vote about one request"


@dataclass(frozen=True, slots=True)
class OpenDispute:
    """A dispute about which validators vote."""

    id: bytes
    status: DisputeStatus
    item: int | None
    """The number of the request in its unit; None for the input, or if no account has named it."""

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
            "request": self.item,
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


@dataclass(frozen=True, slots=True)
class PendingChecks:
    """The checks that a unit waits for, as of one block."""

    unit: Unit
    claim: OpenClaim | None = None
    dispute: OpenDispute | None = None
    trees: LeafDispute | None = None
    """The search for the first request in which racers of a batch differ, before a dispute about it."""

    def claim_facts(self) -> dict[str, Any] | None:
        """Return the claim for programs, or None."""
        return None if self.claim is None else self.claim.facts()

    def dispute_facts(self) -> dict[str, Any] | None:
        """Return the dispute for programs, or None."""
        if self.dispute is not None:
            return self.dispute.facts()
        if self.trees is None or self.trees.stage is LeafDisputeStage.JUDGED:
            return None
        return {
            "id": None,
            "question": "trees",
            "stage": self.trees.stage.name.lower(),
            "actor": "racers",
            "until_block": self.trees.deadline or None,
            "request": None,
            "voters": 0,
            "decision": None,
            "parties": [Account(account) for side in self.trees.sides for account in side.accounts],
        }

    def says(self) -> str:
        """Return the reason of the wait as a sentence."""
        dispute = None if self.dispute is None else self.dispute.says()
        if self.claim is not None:
            return "; ".join(filter(None, (WAITS, self.claim.says(), dispute)))
        if dispute is None and self.trees is not None and self.trees.stage is not LeafDisputeStage.JUDGED:
            return why_differing(self.trees)
        return "; ".join(filter(None, (self._cause(), dispute)))

    def _cause(self) -> str:
        dispute = self.dispute
        if dispute is not None and dispute.status.dispute.terms.question is DisputeQuestion.INPUT:
            return f"{counted(declines_of(self.unit), 'provider')} could not use its input"
        if self.trees is not None and self.unit.terms.requests > 1:
            return f"its racers first differ in request {self.trees.leaf}, and validators vote about that one alone"
        return "its racers gave different answers"


def why_differing(dispute: LeafDispute) -> str:
    """Return a sentence about a batch whose racers differ, while they show their trees."""
    subject = "their trees" if dispute.stage is LeafDisputeStage.SUBTREES else "their leaves"
    who = "both" if len(dispute.sides) == 2 else f"all {len(dispute.sides)} sides"
    shown = sum(side.has_shown for side in dispute.sides)
    so_far = f"{shown or 'none'} did so far"
    return f"its racers gave different answers; {who} must show {subject} by block {dispute.deadline}, {so_far}"


async def pending_checks(
    client: ChainClient, unit_id: bytes, unit: Unit, block_hash: bytes | None = None
) -> PendingChecks | None:
    """Return the checks that a unit waits for at a block, or None if it waits for none."""
    if unit.state not in (UnitState.CLAIMED, UnitState.DISPUTED):
        return None
    status = await market_reads.unit(client, unit_id, block_hash)
    if status is None or status.unit.state is not unit.state:
        return None
    dispute_id = claim_reads.open_dispute_of(unit_id, status)
    found = None if dispute_id is None else await claim_reads.item_dispute(client, dispute_id, block_hash)
    item = None if status.claim is None else _item_of(status.claim)
    dispute = None if dispute_id is None or found is None else _open_dispute(dispute_id, found, item)
    if unit.state is UnitState.CLAIMED:
        return None if status.claim is None else PendingChecks(unit, OpenClaim(status.claim), dispute)
    trees = await market_reads.dispute(client, unit_id, block_hash) if unit.terms.requests > 1 else None
    return PendingChecks(unit, None, dispute, trees)


def _open_dispute(dispute_id: bytes, status: DisputeStatus, item: int | None) -> OpenDispute:
    terms = status.dispute.terms
    if terms.point is None:
        item = None if terms.question is DisputeQuestion.INPUT else terms.index
    return OpenDispute(dispute_id, status, item)


def _item_of(claim: ResultClaim) -> int | None:
    """Return the request at the disputed point, as the provider's samples name it, or None without samples."""
    check = open_check(claim)
    if claim.stage is not ClaimStage.DISPUTED or check is None or check.shown is None or claim.disputer is not None:
        return None
    return check.shown[disputed_place(claim)].index
