"""What simulated nodes send each other: consensus messages, blocks as bare facts, and handoffs."""

from dataclasses import dataclass

from consensus.events import BlockFacts
from consensus.wire import Message
from devnet.simulation.boundaries import ProvenHandoff


@dataclass(frozen=True, slots=True)
class BlocksAsked:
    """Ask for a block and its ancestors above a height."""

    block: bytes
    above: int


@dataclass(frozen=True, slots=True)
class BlocksSent:
    """Blocks, oldest first: an answer, or an announcement of a new block."""

    blocks: tuple[BlockFacts, ...]


@dataclass(frozen=True, slots=True)
class HandoffsAsked:
    """Ask for what leads from an epoch's set to the next ones."""

    epoch: int


@dataclass(frozen=True, slots=True)
class HandoffsSent:
    """Handoffs of epochs that follow each other, a bounded number.

    The last of all brings along the blocks up to its boundary, oldest first, that later headers may still name.
    """

    handoffs: tuple[ProvenHandoff, ...]
    tail: tuple[BlockFacts, ...]


Packet = Message | BlocksAsked | BlocksSent | HandoffsAsked | HandoffsSent
