"""Messages between simulated nodes: consensus messages, blocks as bare facts, and handoffs with real headers.

Invariant: the id of a boundary block is its header's hash, so its certificate also proves the next set.
"""

from dataclasses import dataclass
from hashlib import blake2b

from consensus.certificates import Certificate
from consensus.events import BlockFacts
from consensus.handoffs import Handoff, seats_log, seats_of
from consensus.validators import ValidatorSet
from consensus.wire import Message
from runtime.blocks.block import HEADER, Header, block_id
from runtime.blocks.digest import consensus_item


@dataclass(frozen=True, slots=True)
class ProvenHandoff:
    """A handoff, and its header's facts for consensus, which a real node reads from the header itself."""

    handoff: Handoff
    boundary: BlockFacts


def header_of(facts: BlockFacts, next_set: ValidatorSet) -> Header:
    """Return the header of a boundary block. The id in `facts` serves as the hash of its extrinsics."""
    header_digest = (consensus_item(seats_log(seats_of(next_set))),)
    return Header(facts.parent, facts.height, _summary(facts), facts.id, header_digest)


def is_of(boundary_header: Header, facts: BlockFacts) -> bool:
    """Return whether a header commits to these facts."""
    committed_values = (
        block_id(boundary_header),
        boundary_header.parent_hash,
        boundary_header.number,
        boundary_header.state_root,
    )
    return committed_values == (facts.id, facts.parent, facts.height, _summary(facts))


def proven_handoff(
    boundary_header: Header, facts: BlockFacts, certificate: Certificate, next_set: ValidatorSet
) -> ProvenHandoff:
    """Return the handoff of an epoch with a final last block."""
    return ProvenHandoff(Handoff(HEADER.encode(boundary_header), certificate, seats_of(next_set)), facts)


def _summary(facts: BlockFacts) -> bytes:
    encoded_numbers = facts.slot.to_bytes(8, "big") + facts.referenced_height.to_bytes(8, "big")
    return blake2b(encoded_numbers + facts.author, digest_size=32).digest()


@dataclass(frozen=True, slots=True)
class BlocksAsked:
    """A request for a block and its ancestors above a height."""

    block: bytes
    above: int


@dataclass(frozen=True, slots=True)
class BlocksSent:
    """Blocks, oldest first: an answer, or an announcement of a new block."""

    blocks: tuple[BlockFacts, ...]


@dataclass(frozen=True, slots=True)
class HandoffsAsked:
    """A request for the handoffs from an epoch's set to the next ones."""

    epoch: int


@dataclass(frozen=True, slots=True)
class HandoffsSent:
    """Handoffs of consecutive epochs, a bounded number.

    With the newest handoff of all come the blocks up to its boundary, oldest first, that later headers may still name.
    """

    handoffs: tuple[ProvenHandoff, ...]
    tail: tuple[BlockFacts, ...]


Packet = Message | BlocksAsked | BlocksSent | HandoffsAsked | HandoffsSent
