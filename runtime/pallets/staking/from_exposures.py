"""Storage version 2 of TrustLock: the share of an offender is that of its seat, and says of how much.

Always: who offended under the program before keeps its share, so later accomplices raise it to what it would have been.
"""

from typing import Annotated

from runtime.encoding.codec import U32, Bounded, codec, struct
from runtime.encoding.types import AccountId, Balance, Weight
from runtime.frame.storage import storage_prefix
from runtime.pallets.staking.offences import Offender, Offenders
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.staking.stakers import VALIDATORS_MAX
from runtime.pallets.weights import WEIGHTS

VERSION = 2


@struct
class ExposedOffender:
    """Who offended, and the stake that its era's exposure had found behind it."""

    stash: AccountId
    epoch: U32
    era: U32
    exposed: Balance
    slashed_ppm: U32


def migrate(stake: StakeLedger) -> Weight:
    """Write behind each offender what its exposure was a share of: all that its era exposed."""
    key = storage_prefix("TrustLock", "Offenders")
    raw = stake.overlay.raw(key)
    if raw is not None:
        before = codec(Annotated[tuple[ExposedOffender, ...], Bounded(VALIDATORS_MAX)]).decode(raw)
        stake.overlay.store_raw(key, codec(Offenders).encode(tuple(_with_total(stake, past) for past in before)))
    return WEIGHTS["TrustLock.on_initialize strike"]


def _with_total(stake: StakeLedger, past: ExposedOffender) -> Offender:
    total = max(stake.eras_total[past.era], past.exposed)
    return Offender(past.stash, past.epoch, past.era, past.exposed, past.slashed_ppm, total)
