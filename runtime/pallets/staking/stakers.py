"""The records of TrustStake."""

from typing import Annotated

from runtime.encoding.codec import U32, Bounded, Fixed, struct
from runtime.encoding.types import AccountId, Balance
from runtime.frame.holds import HoldReason
from runtime.pallets.staking.slashing import PPM

VALIDATORS_MAX = 128
"""Certificates are lists of ed25519 signatures; more voters wait for aggregated ones."""
CANDIDATES_MAX = 4_096
UNLOCKING_MAX = 32
STAKE = HoldReason("Stake", "A bond or a delegation, also while it is on its way out; the case is the validator.")
COMMISSION_MAX_PPM = PPM

PublicKey = Annotated[bytes, Fixed(32)]
EpochIndex = U32
EraIndex = U32


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
    """Stake on its way out. It can be slashed for `validator` until it is withdrawn."""

    validator: AccountId
    value: Balance
    until_epoch: EpochIndex
    """The first epoch in which it may be withdrawn."""


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
class EraReward:
    """What an era emitted to validators, and how much of it is not claimed yet."""

    total: Balance
    unclaimed: Balance


Seats = Annotated[tuple[Seat, ...], Bounded(VALIDATORS_MAX)]
Standings = Annotated[tuple[Standing, ...], Bounded(VALIDATORS_MAX)]
EraPoints = Annotated[tuple[Points, ...], Bounded(VALIDATORS_MAX)]
Unlockings = Annotated[tuple[Unlocking, ...], Bounded(UNLOCKING_MAX)]
