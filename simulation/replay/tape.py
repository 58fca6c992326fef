"""A recorded chain: its specification and its sealed blocks, as bytes.

Always: a replay needs nothing else. Signatures are recorded because those of sr25519 hold randomness of the machine
that signed; a second recording with the same seed is another chain.
"""

from typing import Annotated

from runtime.blocks.block import BLOCK_BYTES_MAX
from runtime.encoding.codec import Bounded, codec, struct

SPEC_BYTES_MAX = 1_000_000
BLOCKS_MAX = 100_000


@struct
class Tape:
    """Block 0 as a chain specification, and every block after it, parents first."""

    spec: Annotated[bytes, Bounded(SPEC_BYTES_MAX)]
    blocks: Annotated[tuple[Annotated[bytes, Bounded(BLOCK_BYTES_MAX)], ...], Bounded(BLOCKS_MAX)]


TAPE = codec(Tape)
