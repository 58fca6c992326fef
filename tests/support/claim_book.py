"""Claims and disputes without their pallets: records that a test sets, and the daemons' calls applied to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_tasks.batches.leaf_draws import total_weight, weight_floor
from gpu_tasks.batches.leaves import Leaf, leaves_of
from gpu_tasks.batches.outcomes import decode_outcomes
from gpu_tasks.batches.requests import TOKEN
from gpu_tasks.batches.sum_tree import totals_of
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
from gpu_tasks.market.claims.findings import finding_commitment
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.money import work_allowed
from gpu_tasks.market.rounds import Round
from gpu_tasks.provider.blobs.deliveries import Deliverer
from gpu_tasks.provider.chain.port import ChainError, View
from gpu_tasks.provider.duties.checking import CheckingDuty
from gpu_tasks.provider.duties.dispute_appeals import DisputeAppealDuty
from gpu_tasks.provider.duties.item_sources import ItemSources
from gpu_tasks.provider.duties.parts import Parts
from gpu_tasks.provider.duties.unit_items import UnitItemSource
from gpu_tasks.provider.duties.voting import VotingDuty
from provider_chain import INPUT_SALT, FakeChain, Miner, Village
from runtime.frame.call import Call
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH

SEED = b"seed of a check".ljust(32, b".")
NEW_SEED = b"seed of a round".ljust(32, b".")
WINDOW = 30


@dataclass
class ClaimBook:
    """Open claims and disputes, and the ballots of each stash."""

    claims: dict[bytes, ResultClaim] = field(default_factory=dict)
    disputes: dict[bytes, Dispute] = field(default_factory=dict)
    ballots: dict[bytes, dict[bytes, VotingSeat]] = field(default_factory=dict)
    """By stash and dispute."""
    is_final: bool = True
    """False if the final chain has none of it."""
    final_claims: dict[bytes, ResultClaim | None] = field(default_factory=dict)
    final_disputes: dict[bytes, Dispute] = field(default_factory=dict)
    """The records of another branch, which the final chain has instead."""
    commits_until: int = 0
    opens_from: int = 0
    sent: list[tuple[bytes, Call]] = field(default_factory=list)
    """The stashes of submitted calls, and the calls."""

    def calls(self, name: str) -> list[dict[str, Any]]:
        """Return the arguments of the sent calls of a name, such as `ResultClaims.show_samples`."""
        return [call.named_arguments for _, call in self.sent if call.name == name]


class ClaimChain:
    """`ClaimPort` for one provider: claims from a `ClaimBook`, all else from its fake chain."""

    def __init__(self, book: ClaimBook, chain: FakeChain) -> None:
        self.book = book
        self.chain = chain
        self.stash = chain.keys.stash

    def __getattr__(self, name: str) -> Any:
        return getattr(self.chain, name)

    async def claim(self, claim: bytes, *, final: bool = False) -> ResultClaim | None:
        self._reach()
        if final and claim in self.book.final_claims:
            return self.book.final_claims[claim]
        return self.book.claims.get(claim) if self.book.is_final or not final else None

    async def item_dispute(self, dispute: bytes, *, final: bool = False) -> Dispute | None:
        self._reach()
        if final and dispute in self.book.final_disputes:
            return self.book.final_disputes[dispute]
        return self.book.disputes.get(dispute) if self.book.is_final or not final else None

    def view(self, height: int) -> View:
        """Return what this provider sees of claims and disputes."""
        return View(height, (), claims=self._duties(), ballots=self._ballots())

    def _duties(self) -> tuple[ClaimStatus, ...]:
        return tuple(
            ClaimStatus(name, claim, None, claim.deadline)
            for name, claim in self.book.claims.items()
            if self._owes(claim)
        )

    async def final_ballots(self) -> tuple[BallotStatus, ...]:
        self._reach()
        return self._ballots() if self.book.is_final else ()

    def _ballots(self) -> tuple[BallotStatus, ...]:
        held = self.book.ballots.get(self.stash, {})
        clocks = (self.book.commits_until, self.book.opens_from, self.book.opens_from and self.book.opens_from + WINDOW)
        return tuple(
            BallotStatus(name, ballot, DisputeStatus(self.book.disputes[name], *clocks))
            for name, ballot in held.items()
        )

    async def submit(self, call: Call) -> None:
        self._reach()
        self.book.sent.append((self.stash, call))

    def _reach(self) -> None:
        if self.chain.is_away:
            raise ChainError("the node is away")

    def _owes(self, claim: ResultClaim) -> bool:
        if claim.stage is ClaimStage.SHOWING:
            return claim.terms.provider == self.stash
        is_checker = bool(claim.checks) and claim.checks[-1].checker == self.stash
        return is_checker or (claim.stage is ClaimStage.DISPUTED and claim.terms.provider == self.stash)


@dataclass
class ClaimedBatch:
    """A settled unit of a village, its provider, and its claim in a book."""

    village: Village
    book: ClaimBook
    id: bytes
    provider: Miner
    leaves: tuple[Leaf, ...]
    floor: int

    @property
    def claim(self) -> ResultClaim:
        """The claim's record."""
        return self.book.claims[self.id]

    def change(self, **changed: Any) -> None:
        """Change the claim's record."""
        self.book.claims[self.id] = replace(self.claim, **changed)

    def others(self) -> list[Miner]:
        """Return the providers beside the claim's."""
        return [miner for miner in self.village.miners if miner is not self.provider]

    def point_of(self, index: int) -> int:
        """Return a point in an item."""
        return index and sum((leaf.tokens_out + self.floor) * TOKEN for leaf in self.leaves[:index])

    def call_checker(self, checker: Miner, *indices: int, deadline: int = 0) -> None:
        """Have one checker check the items at these indices."""
        check = Check(checker.keys.stash, SEED, is_second=False, held=100)
        points = tuple(self.point_of(index) for index in indices)
        self.change(stage=ClaimStage.COMMITTING, points=points, checks=(check,), deadline=deadline)

    def change_check(self, **changed: Any) -> None:
        """Change the newest check."""
        self.change(checks=(*self.claim.checks[:-1], replace(self.claim.checks[-1], **changed)))

    def apply(self) -> None:
        """Apply the sent calls of the claim's check, as the chain would."""
        sent, self.book.sent = self.book.sent, []
        for stash, call in sent:
            given = call.named_arguments
            if call.name == "ResultClaims.commit_finding":
                self.change_check(commitment=given["commitment"])
                self.change(stage=ClaimStage.SHOWING)
            elif call.name == "ResultClaims.show_samples":
                self.change_check(shown=given["samples"])
                self.change(stage=ClaimStage.OPENING)
            else:
                assert call.name == "ResultClaims.open_finding"
                number, finding, salt = len(self.claim.checks) - 1, given["finding"], given["salt"]
                commitment = finding_commitment(GENESIS_HASH, self.id, number, stash, finding, salt)
                assert self.claim.checks[-1].commitment == commitment
                self.change_check(finding=finding)

    def dispute(self, name: bytes, voters: list[Miner], **changed: Any) -> None:
        """Open a dispute in which these miners vote. `changed` are fields of its terms."""
        parties = (self.provider.keys.stash,)
        terms = DisputeTerms(
            InferenceMarket.index,
            DisputeQuestion.ITEM,
            self.id,
            0,
            None,
            (SEED,),
            parties,
            (),
            10,
            sealed_at=0,
            run_blocks=1,
        )
        stashes = tuple(miner.keys.stash for miner in voters)
        self.book.disputes[name] = Dispute(
            replace(terms, **changed),
            DisputeWindows(WINDOW, WINDOW, WINDOW),
            DisputeStage.VOTING,
            recorded_at=1,
            seed=NEW_SEED,
            voters=stashes,
            round=Round(drawn_at=1, commits_from=2),
        )
        for stash in stashes:
            self.book.ballots.setdefault(stash, {})[name] = VotingSeat(round=0, weight=1, held=20)


def parts_of(book: ClaimBook, miner: Miner) -> Parts[Any]:
    """Return a miner's parts over a book of claims."""
    return replace(miner.daemon.parts, chain=ClaimChain(book, miner.chain))


def sources_of(book: ClaimBook, miner: Miner) -> ItemSources:
    """Return a miner's items of units over a book of claims."""
    return {InferenceMarket.index: UnitItemSource(parts_of(book, miner))}


def serve_deliveries(book: ClaimBook, miner: Miner) -> None:
    """Let a miner's server answer checkers and voters."""
    parts = parts_of(book, miner)
    miner.daemon.server._deliverer = Deliverer(GENESIS_HASH, parts.chain, sources_of(book, miner))


async def claimed_batch(
    village: Village, requests: list[bytes] | bytes, *, spoil: bool = False, trouble: Exception | None = None
) -> ClaimedBatch:
    """Post a unit, and let one racer answer it, with a lie or a trouble. Its result becomes a claim."""
    unit_id = await village.post(requests, racers=1, tokens_max=256)
    for miner in village.drawn(unit_id):
        miner.executor.spoil, miner.executor.trouble = spoil, trouble
    provider = village.racers(unit_id)[0]
    for _ in range(60):
        entry = provider.daemon.parts.journal.races.get((unit_id, village.unit(unit_id).unit.attempt))
        if entry is not None and entry.result is not None:
            break
        await village.block()
    else:
        raise AssertionError("no result")
    provider.executor.spoil, provider.executor.trouble = False, None
    unit, result = village.unit(unit_id).unit, entry.result
    assert result is not None
    leaves = leaves_of(GENESIS_HASH, unit_id, INPUT_SALT, decode_outcomes(result.outcomes))
    floor = weight_floor(-(-work_allowed(unit) // TOKEN), len(leaves))
    weight = total_weight(totals_of(leaves), floor, input_share=unit.input_share)
    terms = ClaimTerms(
        handler=InferenceMarket.index, provider=provider.keys.stash, customer=CUSTOMER.stash,
        root=result.output_root, items=len(leaves), weight=weight, item_weight_max=weight, price=unit.price,
        collateral=100,
        rate_ppm=1_000_000, check_ppm=1_000_000, fee_min=1, fees_held=10, sealed_at=unit.terms.sealed_at, run_blocks=1,
        excluded=(),
    )  # fmt: skip
    book = ClaimBook({unit_id: ResultClaim(terms, WINDOW, ClaimStage.DRAWING, recorded_at=village.node.chain.height)})
    batch = ClaimedBatch(village, book, unit_id, provider, leaves, floor)
    for miner in village.miners:
        serve_deliveries(book, miner)
    return batch


async def stepped(duty: CheckingDuty | VotingDuty | DisputeAppealDuty, height: int) -> None:
    """Give a duty one view, and complete its started work."""
    chain = duty.parts.chain
    assert isinstance(chain, ClaimChain)
    await duty.step(chain.view(height))
    while any(tasks._tasks for tasks in duty.running):
        await asyncio.sleep(0.001)
