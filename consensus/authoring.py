"""When this validator may build a block, and on what."""

from consensus.events import BlockFacts, Build, CertifiedRef
from consensus.parameters import Parameters
from consensus.proposer import proposer
from consensus.validators import Epochs


def plan_block(
    parameters: Parameters,
    epochs: Epochs,
    session: bytes,
    slot: int,
    built_slot: int,
    tip: BlockFacts,
    processing: int,
    final: CertifiedRef | None,
) -> Build | None:
    """The block to build now on the preferred `tip`, if the slot is ours and a block may be valid.

    `built_slot` is the newest slot in which we built, `processing` counts the undecided blocks up
    to the tip, `final` is the newest final block known, None for genesis.
    """
    if slot <= built_slot or slot <= tip.slot or processing >= parameters.processing_max:
        return None
    height = tip.height + 1
    number = parameters.epoch_of(height)
    is_news = final is not None and final.height > tip.referenced_height
    referenced = final.height if final is not None and is_news else tip.referenced_height
    # Headers refuse what runs further ahead of finality, or before the epoch's seed is final.
    if height - referenced > parameters.final_lag_max or referenced < parameters.settled_height(number):
        return None
    epoch = epochs(number)
    if epoch is None or proposer(epoch, slot) != session:
        return None
    is_heartbeat = slot - tip.slot >= parameters.heartbeat_slots
    return Build(slot, tip.id, height, number, final if is_news else None, is_heartbeat)
