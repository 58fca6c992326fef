"""What TrustStake tells the world: its events, and why a call of it can fail."""

from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId
from runtime.encoding.types import Balance as Grains
from runtime.frame.pallet import DispatchError, event
from runtime.pallets.staking.stakers import EraIndex, PublicKey, Standings


@event
class Bonded:
    """A stash added to its own bond."""

    stash: AccountId
    amount: Grains


@event
class Delegated:
    """An account put stake behind a validator."""

    delegator: AccountId
    validator: AccountId
    amount: Grains


@event
class Unbonded:
    """Stake began to leave; it may be withdrawn from `until_epoch` on."""

    staker: AccountId
    validator: AccountId
    amount: Grains
    until_epoch: U32


@event
class Withdrawn:
    """Unbonded stake is free again."""

    staker: AccountId
    amount: Grains


@event
class CandidateSet:
    """A stash offers to validate and to mine with these keys."""

    stash: AccountId
    session_key: PublicKey
    vrf_key: PublicKey
    provider_key: AccountId
    commission_ppm: U32


@event
class Chilled:
    """A stash no longer offers to validate or to mine."""

    stash: AccountId


@event
class EraStarted:
    """A new era began with this election; `emitted` left the reserve for the era before."""

    era: EraIndex
    elected: Standings
    emitted: Grains


@event
class Rewarded:
    """A staker was paid for an era."""

    staker: AccountId
    validator: AccountId
    era: EraIndex
    amount: Grains


@event
class StakeSlashed:
    """A staker lost stake that stood behind an offending validator."""

    validator: AccountId
    staker: AccountId
    amount: Grains


@event
class Tombstoned:
    """A validator may never be elected or mine again."""

    stash: AccountId


class AlreadyBonded(DispatchError):
    """The account has a bond; add to it with bond_extra."""


class NotBonded(DispatchError):
    """The account has no bond of its own."""


class BondTooSmall(DispatchError):
    """The bond or delegation would be below the minimum."""


class NotCandidate(DispatchError):
    """The account does not offer to validate."""


class StillCandidate(DispatchError):
    """A candidate's bond may not fall below the minimum; chill first."""


class TooManyCandidates(DispatchError):
    """All places for candidates are taken."""


class TooManyDelegators(DispatchError):
    """The validator has as many delegators as it may have."""


class TooManyChunks(DispatchError):
    """Too much is unlocking already; withdraw first."""


class NotEnoughStake(DispatchError):
    """There is less stake than that."""


class NothingToWithdraw(DispatchError):
    """Nothing that was unbonded is free yet."""


class UnsafeKey(DispatchError):
    """A key is of small order or malformed: anybody could sign for it."""


class KeyTaken(DispatchError):
    """A key belongs to another stash, or two keys are the same."""


class CommissionTooHigh(DispatchError):
    """A commission is at most 100 %."""


class InOffice(DispatchError):
    """In this release the genesis validators hold office: their genesis bonds and keys stay."""


class IsTombstoned(DispatchError):
    """The validator committed an offence and may not return."""


class NothingToClaim(DispatchError):
    """No reward of that validator and era, or it was paid already."""
