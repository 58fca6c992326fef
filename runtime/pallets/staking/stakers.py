"""The records of TrustStake."""

from enum import IntEnum
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, Fixed, struct
from runtime.encoding.types import AccountId, Balance
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.slash_factors import Liability, SlashStep
from runtime.pallets.staking.slashing import PPM

VALIDATORS_MAX = 128
"""Certificates are lists of ed25519 signatures; more voters wait for aggregated ones."""
CANDIDATES_MAX = 4_096
UNLOCKING_MAX = 32
STAKE = HoldReason("Stake", "A bond or delegations, also while they are on their way out; the case is the validator.")
PROFILE = HoldReason("Profile", "For a validator's name and web address; the case is the validator.", is_deposit=True)
NAME_BYTES_MAX = 32
WEB_BYTES_MAX = 96
COMMISSION_MAX_PPM = PPM

PublicKey = Annotated[bytes, Fixed(32)]
EpochIndex = U32
EraIndex = U32
ProfileName = Annotated[bytes, Bounded(NAME_BYTES_MAX)]
ProfileWeb = Annotated[bytes, Bounded(WEB_BYTES_MAX)]


@struct
class Candidate:
    """A stash that offers to validate, and to mine: its keys and its commission."""

    session_key: PublicKey
    """ed25519: signs headers and votes. It can be slashed for, it cannot spend."""
    vrf_key: PublicKey
    """Proves the randomness of this validator's blocks."""
    provider_key: AccountId
    """ed25519: the account of the provider daemon; signs attestations and duty calls."""
    commission_ppm: U32
    """Kept from the delegators' rewards, in millionths."""


def may_be_elected(*, is_tombstoned: bool, own_stake: int, least: int) -> bool:
    """Whether a stash that offers itself may be elected and drawn for work: bonded, no tombstone."""
    return not is_tombstoned and own_stake >= least


@struct
class Seat:
    """A validator in office: who may propose and vote, with which keys and weight."""

    stash: AccountId
    session_key: PublicKey
    vrf_key: PublicKey
    weight: Balance


@struct
class Unlocking:
    """Stake on its way out, as it was when it was last reckoned."""

    validator: AccountId
    value: Balance
    until_epoch: EpochIndex
    """The first epoch in which it may be withdrawn."""
    answers: Annotated[tuple[Liability, ...], Bounded(2)] = ()
    """Whose slashes it bears still: the validator's, and that of another from which it had come there."""


@struct
class Standing:
    """What stands behind one elected validator."""

    stash: AccountId
    total: Balance


@struct
class Points:
    """What a validator did in an era: 20 points for each of its blocks."""

    stash: AccountId
    points: U32


@struct
class CommissionChange:
    """What a validator will ask of its delegators, and from which era on."""

    commission_ppm: U32
    era: EraIndex


@struct
class Profile:
    """What a validator says of itself, as text: nobody has checked it."""

    name: ProfileName
    web: ProfileWeb
    deposit: Balance


class Why(IntEnum):
    """How somebody would fare in an election, and why."""

    ELECTED = 0
    WAITS = 1
    """Its rank is high enough, and the set may not change by more at once."""
    OUT_RANKED = 2
    OFF_LINE = 3
    """No block, no vote that the chain carries and no heartbeat in the last whole epoch."""
    JAILED = 4
    TOMBSTONED = 5
    TOO_SMALL = 6
    """Its own bond is below the least."""
    NOT_OFFERED = 7
    MUST_STAY = 8
    """It should leave, and the set may not change by more at once."""


@struct
class HeldSlash:
    """A slash that is proven and not yet taken; nothing leaves its offender meanwhile."""

    era: EraIndex
    """Of the offence."""
    step: SlashStep
    reporter: AccountId | None
    """None where what another did later raised it: nobody is paid for that."""
    take_era: EraIndex
    """Taken in the first blocks of this era."""


Seats = Annotated[tuple[Seat, ...], Bounded(VALIDATORS_MAX)]


@struct
class Waiter:
    """An elected candidate for whom a set had no room yet."""

    stash: AccountId
    since: EpochIndex
    """The first epoch for which it was elected, and at every election from then on."""


Waiters = Annotated[tuple[Waiter, ...], Bounded(VALIDATORS_MAX)]
Standings = Annotated[tuple[Standing, ...], Bounded(VALIDATORS_MAX)]
EraPoints = Annotated[tuple[Points, ...], Bounded(VALIDATORS_MAX)]
Unlockings = Annotated[tuple[Unlocking, ...], Bounded(UNLOCKING_MAX)]
