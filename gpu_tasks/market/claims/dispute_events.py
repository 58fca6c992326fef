"""The events and errors of the pallet Disputes."""

from typing import Annotated

from gpu_tasks.market.claims.disputes import DisputeQuestion
from gpu_tasks.market.claims.findings import ItemVote
from runtime.encoding.codec import U8, Bounded
from runtime.encoding.types import AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import DispatchError, event
from runtime.pallets.staking.stakers import VALIDATORS_MAX


@event
class DisputeOpened:
    """A dispute waits for its voters. `handler` is the index of the pallet that opened it."""

    dispute: Hash
    handler: U8
    question: DisputeQuestion


@event
class VotersDrawn:
    """The voters of a round were drawn. Each holds `bond` until the end of the dispute."""

    dispute: Hash
    round: U8
    voters: Annotated[tuple[AccountId, ...], Bounded(VALIDATORS_MAX)]
    bond: Balance


@event
class VoteCommitted:
    """A voter committed to its vote."""

    dispute: Hash
    voter: AccountId


@event
class VoteOpened:
    """A voter opened its vote."""

    dispute: Hash
    voter: AccountId
    vote: ItemVote


@event
class DisputeDecided:
    """Five of nine voters agreed. A party or an outvoted voter may appeal until block `appealable_until`."""

    dispute: Hash
    vote: ItemVote
    appealable_until: BlockNumber


@event
class DisputeAppealed:
    """A party or an outvoted voter appealed. All eligible validators will vote."""

    dispute: Hash
    appellant: AccountId


@event
class VoterCharged:
    """A voter lost fees, because it was outvoted or silent."""

    dispute: Hash
    voter: AccountId
    amount: Balance


@event
class DisputeEnded:
    """A dispute ended with a vote, or with None: nobody may be convicted."""

    dispute: Hash
    vote: ItemVote | None


class UnknownDispute(DispatchError):
    """There is no such dispute, or it is over."""


class NotAVoter(DispatchError):
    """The signer is no voter of the present round."""


class NotAParty(DispatchError):
    """The signer is no party of the dispute, and no outvoted voter."""


class OutsideWindow(DispatchError):
    """The window for this call is not open."""


class ActedAlready(DispatchError):
    """The voter has already done this in this round."""


class NotTheCommittedVote(DispatchError):
    """The vote and the salt do not open the voter's commitment."""


class MalformedVote(DispatchError):
    """The vote lacks an answer or a sample for each seed, or states one although the item could not be fetched."""


class NoDecisionToAppeal(DispatchError):
    """The dispute has no decision that can be appealed, or the window is over."""
