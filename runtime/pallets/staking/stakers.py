"""The records of TrustStake."""

from enum import IntEnum
from typing import Annotated

from runtime.encoding.codec import U32, Bounded, Fixed, struct
from runtime.encoding.types import AccountId, Balance
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.slash_factors import Liability, SlashStep
from runtime.pallets.staking.slashing import PPM

VALIDATORS_MAX = 128
"""The most members of a set. Certificates are lists of ed25519 signatures, so more need aggregated ones."""
CANDIDATES_MAX = 4_096
UNLOCKING_MAX = 32
STAKE = HoldReason("Stake", "A bond or delegations, also while unbonding. One for each validator.")
PROFILE = HoldReason(
    "Profile", "The deposit for a validator's name and web address. One for each validator.", is_deposit=True
)
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
    """A stash that offers to validate and to mine: its keys and its commission."""

    session_key: PublicKey
    """ed25519: signs headers and votes. Its misuse is slashed, but it cannot spend."""
    vrf_key: PublicKey
    """Proves the randomness of this validator's blocks."""
    provider_key: AccountId
    """ed25519: the account of the provider daemon. Signs attestations and duty calls."""
    commission_ppm: U32
    """The part of the delegators' rewards that the validator keeps, in millionths."""


def may_be_elected(*, is_tombstoned: bool, own_stake: int, least: int) -> bool:
    """Return True if a candidate may be elected and drawn for work: bonded, no tombstone."""
    return not is_tombstoned and own_stake >= least


@struct
class Seat:
    """A place of the active set: the stash that proposes and votes, its keys and weight."""

    stash: AccountId
    session_key: PublicKey
    vrf_key: PublicKey
    weight: Balance


@struct
class Unlocking:
    """Unlocking stake, in the amount when it was last brought up to date."""

    validator: AccountId
    value: Balance
    until_epoch: EpochIndex
    """The first epoch in which it may be withdrawn."""
    answers: Annotated[tuple[Liability, ...], Bounded(2)] = ()
    """The answers that it carries: for the validator that it left, and for an earlier one from which it had moved."""


@struct
class Standing:
    """The stake behind one elected validator."""

    stash: AccountId
    total: Balance


@struct
class Points:
    """A validator's work in an era: 20 points for each of its blocks."""

    stash: AccountId
    points: U32


@struct
class CommissionChange:
    """An announced commission, and the era from which on it applies."""

    commission_ppm: U32
    era: EraIndex


@struct
class Profile:
    """A validator's name and web address, as unchecked text."""

    name: ProfileName
    web: ProfileWeb
    deposit: Balance


class Why(IntEnum):
    """The result of an election for one stash, and its reason."""

    ELECTED = 0
    WAITS = 1
    """Elected by rank, but the churn limit leaves no room yet."""
    OUT_RANKED = 2
    OFF_LINE = 3
    """No block, no vote in a certificate on the chain and no heartbeat in the last whole epoch."""
    JAILED = 4
    TOMBSTONED = 5
    TOO_SMALL = 6
    """Its own bond is below the minimum."""
    NOT_OFFERED = 7
    MUST_STAY = 8
    """It should leave, but the churn limit keeps it."""


@struct
class HeldSlash:
    """An unapplied slash: proven and not yet taken. Meanwhile no stake leaves the offender."""

    era: EraIndex
    """The era of the offence."""
    step: SlashStep
    reporter: AccountId | None
    """None if a later offence of another validator raised it: nobody is paid for that."""
    take_era: EraIndex
    """The era in whose first blocks it is taken."""


Seats = Annotated[tuple[Seat, ...], Bounded(VALIDATORS_MAX)]


@struct
class Waiter:
    """An elected candidate that waits for room in the set."""

    stash: AccountId
    since: EpochIndex
    """The first epoch for which it was elected. It has been elected ever since."""


Waiters = Annotated[tuple[Waiter, ...], Bounded(VALIDATORS_MAX)]
Standings = Annotated[tuple[Standing, ...], Bounded(VALIDATORS_MAX)]
EraPoints = Annotated[tuple[Points, ...], Bounded(VALIDATORS_MAX)]
Unlockings = Annotated[tuple[Unlocking, ...], Bounded(UNLOCKING_MAX)]
