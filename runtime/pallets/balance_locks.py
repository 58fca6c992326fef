"""What `pallet_balances` of the SDK keeps besides balances and holds, in its layout: here nothing is ever kept in it.

Wallets, explorers and exchanges read these maps before they say what an account may spend; an empty one is an answer,
one that is missing is an error to them.
"""

from enum import IntEnum
from typing import Annotated

from runtime.encoding.codec import Bounded, Fixed, named, struct
from runtime.encoding.types import Balance

LOCKS_MAX = 50

LockIdentifier = Annotated[bytes, Fixed(8)]


@named("pallet_balances::types::Reasons")
class LockReasons(IntEnum):
    """What locked grains may not be used for."""

    Fee = 0
    Misc = 1
    All = 2


@struct(path="pallet_balances::types::BalanceLock", params={"Balance": Balance})
class BalanceLock:
    """Grains that may not be spent; there are none."""

    id: LockIdentifier
    amount: Balance
    reasons: LockReasons


@struct(path="pallet_balances::types::ReserveData", params={"ReserveIdentifier": LockIdentifier, "Balance": Balance})
class ReserveData:
    """Grains reserved under a name; there are none."""

    id: LockIdentifier
    amount: Balance


@named("ogpu_runtime::RuntimeFreezeReason")
class RuntimeFreezeReason(IntEnum):
    """Why grains are frozen by this pallet: nobody asks it to."""


@struct(path="frame_support::traits::tokens::misc::IdAmount", params={"Id": RuntimeFreezeReason, "Balance": Balance})
class FrozenAmount:
    """Grains frozen for a reason; there are none."""

    id: RuntimeFreezeReason
    amount: Balance


AccountLocks = Annotated[tuple[BalanceLock, ...], Bounded(LOCKS_MAX)]
AccountReserves = Annotated[tuple[ReserveData, ...], Bounded(LOCKS_MAX)]
AccountFreezes = Annotated[tuple[FrozenAmount, ...], Bounded(LOCKS_MAX)]
