"""What TrustStake tells the world: its events, and why a call of it can fail."""

from runtime.encoding.codec import U32
from runtime.encoding.types import AccountId
from runtime.encoding.types import Balance as Grains
from runtime.frame.pallet import DispatchError, event
from runtime.pallets.staking.slash_factors import SlashStep
from runtime.pallets.staking.stakers import EraIndex, ProfileName, ProfileWeb, PublicKey, Standings


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
    """A staker was paid what it had earned with a validator."""

    staker: AccountId
    validator: AccountId
    amount: Grains


@event
class StakeSlashed:
    """Stake was lost that is held for a validator: its own, all delegators' together (`modlog/bonds`), or who left."""

    validator: AccountId
    staker: AccountId
    amount: Grains


@event
class Tombstoned:
    """A validator may never be elected or mine again."""

    stash: AccountId


@event
class Redelegated:
    """Stake went from behind one validator to behind another; for a time it answers for both."""

    delegator: AccountId
    source: AccountId
    target: AccountId
    amount: Grains


@event
class CommissionAnnounced:
    """From an era on a validator will keep another part of its delegators' rewards."""

    stash: AccountId
    commission_ppm: U32
    era: EraIndex


@event
class ProfileSet:
    """A validator gave itself a name and a web address; without both it has none."""

    stash: AccountId
    name: ProfileName
    web: ProfileWeb


@event
class SlashHeld:
    """A slash waits until `take_era`: from `step.taken` to `step.wanted` millionths of what is behind the offender."""

    number: U32
    offender: AccountId
    era: EraIndex
    step: SlashStep
    take_era: EraIndex


@event
class SlashTaken:
    """A slash that was held was taken."""

    number: U32
    offender: AccountId
    amount: Grains


@event
class SlashCancelled:
    """A slash that was held will not be taken."""

    number: U32
    offender: AccountId


@event
class TombstoneLifted:
    """A validator may return."""

    stash: AccountId


@event
class SetElected:
    """So many validators, with so much weight together, sit from epoch `first` on, for an era."""

    first: U32
    seats: U32
    weight: Grains


@event
class Jailed:
    """A validator gave no sign of life for too long: it is not elected until it asks to be."""

    stash: AccountId
    era: EraIndex


@event
class Unjailed:
    """A validator left jail, and may be elected again."""

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


class TooManyChunks(DispatchError):
    """Too much is unlocking already; withdraw first."""


class NotEnoughStake(DispatchError):
    """There is less stake than that."""


class NothingToWithdraw(DispatchError):
    """Nothing that was unbonded is free yet."""


class UnsafeKey(DispatchError):
    """A key is of small order or malformed: anybody could sign for it."""


class InvalidKeysProof(DispatchError):
    """The proof does not show that the holder of both keys lets this account register them."""


class KeyTaken(DispatchError):
    """A key belongs to another stash, or two keys are the same."""


class CommissionTooHigh(DispatchError):
    """A commission is at most 100 %."""


class IsTombstoned(DispatchError):
    """The validator committed an offence and may not return."""


class NothingToClaim(DispatchError):
    """Nothing was earned there since it was last claimed."""


class PoolSpent(DispatchError):
    """Slashes left too little behind the validator for others to join."""


class SlashPending(DispatchError):
    """A slash of the validator waits to be taken; until then nothing leaves it."""


class StillAnswering(DispatchError):
    """The stake came from another validator, and may not move again before evidence against that one is too old."""


class TooManyMoves(DispatchError):
    """The account moved stake to that validator too often lately."""


class SameValidator(DispatchError):
    """Stake moves from one validator to another."""


class CommissionTooLow(DispatchError):
    """The commission would be below the least that is allowed."""


class CommissionFixed(DispatchError):
    """The commission of a validator changes by `announce_commission` alone."""


class CommissionStep(DispatchError):
    """The commission would change by more than is allowed in an era."""


class NoProfile(DispatchError):
    """The account has given itself no name and no web address."""


class NotTombstoned(DispatchError):
    """The validator has no tombstone."""


class NotJailed(DispatchError):
    """The validator is not in jail."""
