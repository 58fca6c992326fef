"""The events and errors of TrustStake."""

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
    """Stake began to unlock. It may be withdrawn from `until_epoch` on."""

    staker: AccountId
    validator: AccountId
    amount: Grains
    until_epoch: U32


@event
class Withdrawn:
    """Unlocked stake became free again."""

    staker: AccountId
    amount: Grains


@event
class CandidateSet:
    """A stash became a candidate, to validate and to mine with these keys."""

    stash: AccountId
    session_key: PublicKey
    vrf_key: PublicKey
    provider_key: AccountId
    commission_ppm: U32


@event
class Chilled:
    """A stash withdrew its candidacy."""

    stash: AccountId


@event
class EraStarted:
    """A new era began with these validators. `emitted` left the reserve for the previous era."""

    era: EraIndex
    elected: Standings
    emitted: Grains


@event
class Rewarded:
    """A staker received its rewards from a validator."""

    staker: AccountId
    validator: AccountId
    amount: Grains


@event
class StakeSlashed:
    """Stake behind a validator was slashed: its own, all delegators' together (`modlog/bonds`), or that of a leaver."""

    validator: AccountId
    staker: AccountId
    amount: Grains


@event
class Tombstoned:
    """A validator may no longer be elected or mine, unless Root lifts its tombstone."""

    stash: AccountId


@event
class Redelegated:
    """Stake moved from one validator to another. For a time it answers for both."""

    delegator: AccountId
    source: AccountId
    target: AccountId
    amount: Grains


@event
class CommissionAnnounced:
    """A validator announced another commission, from an era on."""

    stash: AccountId
    commission_ppm: U32
    era: EraIndex


@event
class ProfileSet:
    """A validator set its name and web address. Two empty texts removed them."""

    stash: AccountId
    name: ProfileName
    web: ProfileWeb


@event
class SlashHeld:
    """A slash was proven. In `take_era` it raises the loss from `step.taken` to `step.wanted` ppm of the stake."""

    number: U32
    offender: AccountId
    era: EraIndex
    step: SlashStep
    take_era: EraIndex


@event
class SlashTaken:
    """An unapplied slash was taken."""

    number: U32
    offender: AccountId
    amount: Grains


@event
class SlashCancelled:
    """An unapplied slash was cancelled."""

    number: U32
    offender: AccountId


@event
class TombstoneLifted:
    """Root lifted a validator's tombstone. It may return."""

    stash: AccountId


@event
class SetElected:
    """A set of `seats` validators with this weight was elected, from epoch `first` on, for an era."""

    first: U32
    seats: U32
    weight: Grains


@event
class Jailed:
    """A validator gave no sign of life for too long. No election seats it until it calls `unjail`."""

    stash: AccountId
    era: EraIndex


@event
class Unjailed:
    """A validator left jail, and may be elected again."""

    stash: AccountId


class AlreadyBonded(DispatchError):
    """The account has a bond already. Add to it with bond_extra."""


class NotBonded(DispatchError):
    """The account has no bond of its own."""


class BondTooSmall(DispatchError):
    """The bond or delegation would be below the minimum."""


class NotCandidate(DispatchError):
    """The account is no candidate."""


class StillCandidate(DispatchError):
    """A candidate's bond may not fall below the minimum. Chill first."""


class TooManyCandidates(DispatchError):
    """All places for candidates are taken."""


class TooManyChunks(DispatchError):
    """The account has too many unlocking chunks. Withdraw first."""


class NotEnoughStake(DispatchError):
    """The stake is smaller than the requested amount."""


class NothingToWithdraw(DispatchError):
    """Nothing that was unbonded is free yet."""


class UnsafeKey(DispatchError):
    """A key is of small order or malformed: anyone could sign for it."""


class InvalidKeysProof(DispatchError):
    """The proof does not show that the owner of both keys lets this account register them."""


class KeyTaken(DispatchError):
    """A key belongs to another stash, or two keys are the same."""


class CommissionTooHigh(DispatchError):
    """A commission is at most 100 %."""


class IsTombstoned(DispatchError):
    """The validator committed an offence and may not return."""


class NothingToClaim(DispatchError):
    """The account earned nothing with this validator since its last claim."""


class PoolSpent(DispatchError):
    """Slashes left too little behind the validator for others to join."""


class SlashPending(DispatchError):
    """A slash of the validator is not taken yet. Until then no stake leaves the validator."""


class StillAnswering(DispatchError):
    """The stake came from another validator, and may not move again before evidence against that one is too old."""


class TooManyMoves(DispatchError):
    """The account moved stake to that validator too often lately."""


class SameValidator(DispatchError):
    """Source and target are the same validator."""


class CommissionTooLow(DispatchError):
    """The commission would be below the minimum."""


class CommissionFixed(DispatchError):
    """Only `announce_commission` changes the commission of a validator."""


class CommissionStep(DispatchError):
    """The commission would change by more than an era allows."""


class NoProfile(DispatchError):
    """The account has no name and no web address."""


class NotTombstoned(DispatchError):
    """The validator has no tombstone."""


class NotJailed(DispatchError):
    """The validator is not in jail."""
