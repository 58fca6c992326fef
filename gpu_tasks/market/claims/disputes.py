"""The records of disputes: the question, the rounds of a vote, and each voter's actions.

Invariants: the terms of a dispute are frozen when it opens. It has at most one round of nine drawn voters, and at most
one round of all eligible validators. Each round has a new seed. Every voter holds two fees from its first draw to the
end.
"""

from enum import IntEnum
from typing import Annotated

from gpu_tasks.market.claims.findings import SEEDS_MAX, ItemVote
from gpu_tasks.market.rounds import Round
from runtime.encoding.codec import U8, U32, U64, Bounded, named, struct
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.stakers import VALIDATORS_MAX

SEATS = 9
"""The drawn voters of the first round."""
EQUAL_VOTES = 5
"""The number of equal votes that decides the first round."""
VOTERS_MIN = 3
"""With fewer voters than these beside the parties, nobody is convicted."""
VOTER_FEES = 2
"""The fees that a voter holds, and that an outvoted one loses."""
DRAWN, APPEAL = 0, 1
"""The numbers of the rounds."""
PARTIES_MAX = 33
"""The customer, and the 32 providers of a gang."""
EXCLUDED_MAX = 35
"""Eight racers, 24 decliners, and three others."""
BARRED_MAX = EXCLUDED_MAX + 14
"""The excluded accounts of a claim, its customer and disputer with their stashes, and ten checkers."""

VOTER_BOND = HoldReason("VoterBond", "Two fees of a voter, from its draw to the end of the dispute. One a dispute.")


@named("ogpu::DisputeQuestion")
class DisputeQuestion(IntEnum):
    """The question of a dispute."""

    ITEM = 0
    """Is this item of the claim right?"""
    SIDES = 1
    """Results differ in this item: which claim of it is right?"""
    INPUT = 2
    """Several providers could not open this input: can it be opened?"""


@named("ogpu::DisputeStage")
class DisputeStage(IntEnum):
    """The stage of a dispute."""

    DRAWING = 0
    VOTING = 1
    """The drawn voters commit and open."""
    APPEALABLE = 2
    """Five votes are equal. A party or an outvoted voter may appeal."""
    APPEAL = 3
    """All eligible validators vote, by stake: after an appeal, or if nine voters do not suffice or do not agree."""


@struct
class DisputeTerms:
    """The terms of a dispute at its opening."""

    handler: U8
    """The index of the pallet that receives the ruling."""
    question: DisputeQuestion
    work: Hash
    """The unit or task with the item."""
    index: U32
    """The item, unless `point` names it."""
    point: U64 | None
    """The point in the disputed item, if a draw named it."""
    seeds: Annotated[tuple[Hash, ...], Bounded(SEEDS_MAX - 1)]
    """The seeds of the disputed samples. The draw of the voters adds a new one."""
    parties: Annotated[tuple[AccountId, ...], Bounded(PARTIES_MAX)]
    """The accounts that may lose collateral. They may appeal, and not vote."""
    excluded: Annotated[tuple[AccountId, ...], Bounded(BARRED_MAX)]
    """Other accounts that may not vote: the customer, earlier checkers, racers."""
    fee: Balance
    """The fee of each voter."""
    sealed_at: BlockNumber
    """Voters can open inputs that are not older than their keys."""
    run_blocks: BlockNumber
    """The most blocks of a computation of the item. Voters get three times as many."""


@struct
class DisputeWindows:
    """The windows of a dispute in blocks, by the parameters at its opening."""

    commit: BlockNumber
    reveal: BlockNumber
    appeal: BlockNumber


@struct
class Dispute:
    """The record of an open dispute."""

    terms: DisputeTerms
    windows: DisputeWindows
    stage: DisputeStage
    recorded_at: BlockNumber
    """The beacon of two blocks after this one draws the voters of the next round."""
    seed: Hash | None = None
    """The new seed of the present round, once its voters are drawn."""
    round: Round | None = None
    voters: Annotated[tuple[AccountId, ...], Bounded(SEATS)] = ()
    """The voters of the first round, in the order drawn. None if fewer than nine are eligible."""
    electorate: Annotated[tuple[AccountId, ...], Bounded(VALIDATORS_MAX)] = ()
    """The voters of the second round."""
    to_commit: U8 = 0
    to_open: U8 = 0
    vote: ItemVote | None = None
    """The decision of the first round."""
    appealable_until: BlockNumber = 0
    appellant: AccountId | None = None


@struct
class VotingSeat:
    """The actions of one voter in its newest round."""

    round: U8
    """The round of the fields below: `DRAWN` or `APPEAL`."""
    weight: Balance
    """1 in the first round, else the voter's stake."""
    held: Balance
    commitment: Hash | None = None
    vote: ItemVote | None = None
    first: ItemVote | None = None
    """The vote of the first round, once the voter votes again in the second."""


def seeds_of(dispute: Dispute) -> tuple[bytes, ...]:
    """Return the seeds of a vote's samples, the new one last."""
    assert dispute.seed is not None, "voters are drawn with a seed"
    return (*dispute.terms.seeds, dispute.seed)
