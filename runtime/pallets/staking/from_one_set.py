"""Storage version 2: the one set of validators for ever becomes the set of each epoch, and elections seat the next.

Always: whoever sat in an epoch until now is who `validators` names for it, also after the migration.
"""

from runtime.encoding.types import Weight
from runtime.pallets.staking import elections
from runtime.pallets.staking.stake_ledger import StakeLedger
from runtime.pallets.weights import WEIGHTS

VERSION = 2


def migrate(stake: StakeLedger) -> Weight:
    """The set in office has sat since the genesis; it goes on in the era under way and, if that ends, in the next."""
    elections.seat(stake, 0, stake.seats.get())
    stake.elected_to.set((stake.beacon.epoch() // stake.era_epochs + 2) * stake.era_epochs - 1)
    return WEIGHTS["TrustStake.on_initialize era"]
