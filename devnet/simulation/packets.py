"""What simulated nodes send each other: consensus messages, and blocks as bare facts."""

from dataclasses import dataclass

from consensus.events import BlockFacts
from consensus.wire import Message


@dataclass(frozen=True, slots=True)
class BlocksAsked:
    """Ask for a block and its ancestors above a height."""

    block: bytes
    above: int


@dataclass(frozen=True, slots=True)
class BlocksSent:
    """Blocks, oldest first: an answer, or an announcement of a new block."""

    blocks: tuple[BlockFacts, ...]


Packet = Message | BlocksAsked | BlocksSent
