"""What each epoch's last block hands on to the next epoch, kept by the database for ever.

What always holds: a handoff is written in the batch that makes its block final, so a database that is past a boundary
has it; whoever knows the set of an epoch can follow it (`consensus.handoffs.follow`), and needs nothing else.
"""

from __future__ import annotations

from consensus.certificates import Certificate
from consensus.handoffs import HANDOFF, Handoff
from consensus.parameters import Parameters
from node.ledger.storage import Storage
from runtime.blocks.block import HEADER, Header
from runtime.frame.runtime import Bound
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake


def handed_on(
    parameters: Parameters, header: Header, certificate: Certificate, state: Bound
) -> tuple[int, bytes] | None:
    """The epoch that a final block ends, and the handoff; None where it ends none. `state` is that after it."""
    if not parameters.is_boundary(header.number):
        return None
    epoch = parameters.epoch_of(header.number)
    following = state[TrustStake].validators(epoch + 1)
    return epoch, HANDOFF.encode(Handoff(HEADER.encode(header), certificate, following))


def handed_seats(storage: Storage, epoch: int) -> tuple[Seat, ...] | None:
    """Who sits in an epoch, by the handoff of the one before; None where there is none."""
    kept = storage.handoff(epoch - 1)
    return None if kept is None else HANDOFF.decode(kept).seats
