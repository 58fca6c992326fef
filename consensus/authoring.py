"""When this validator may build a block, and on what."""

from collections.abc import Callable

from consensus.certificates import Certificate
from consensus.events import BlockFacts, Build, CertifiedRef
from consensus.parameters import Parameters
from consensus.proposer import proposer
from consensus.validators import Epochs, SessionOf


def plan_block(
    parameters: Parameters,
    epochs: Epochs,
    session_of: SessionOf,
    slot: int,
    built_slot: int,
    tip: BlockFacts,
    processing: int,
    final: Certificate | None,
    boundary_of: Callable[[int], Certificate | None],
) -> Build | None:
    """The block to build now on the preferred `tip`, if the slot is ours and a block may be valid.

    `built_slot` is the newest slot in which we built, `processing` counts the undecided blocks up
    to the tip, `final` certifies the newest final block known (None for genesis), `boundary_of` the last one of an
    epoch, if it is known.
    """
    if slot <= built_slot or slot <= tip.slot or processing >= parameters.processing_max:
        return None
    height = tip.height + 1
    number = parameters.epoch_of(height)
    # Blocks of an epoch are built before the one before it has ended: the key is that of the block's epoch.
    session = session_of(number)
    if session is None:
        return None
    reference = choose_reference(parameters, tip, final, boundary_of)
    # Headers refuse what runs further ahead of finality, or before the epoch's seed is final.
    if (tip.referenced_height if reference is None else reference.height) < parameters.referenced_min(height):
        return None
    epoch = epochs(number)
    if epoch is None or proposer(epoch, slot) != session:
        return None
    is_heartbeat = slot - tip.slot >= parameters.heartbeat_slots
    return Build(slot, tip.id, height, number, reference, is_heartbeat)


def choose_reference(
    parameters: Parameters, tip: BlockFacts, final: Certificate | None, boundary_of: Callable[[int], Certificate | None]
) -> CertifiedRef | None:
    """The final block to name on a tip: the newest one, but no boundary is passed over; None if there is no news."""
    limit = parameters.reference_max(tip.referenced_height)
    if final is not None and final.ballot.height > limit:
        final = boundary_of(parameters.epoch_of(limit))
    if final is None or final.ballot.height <= tip.referenced_height:
        return None
    return CertifiedRef(final.ballot.height, final.ballot.block, final)
