"""What a block is worth before its body is looked at: its header first, then a body that can be its own.

What always holds: nothing of a body is decoded before its header was found right; how many extrinsics it has is judged
by its length, before any of them is cut out; a header whose parent is not here counts only with its proposer's seal.
"""

from __future__ import annotations

from consensus.headers import InvalidHeaderError, NotYetError, read_header
from consensus.proposer import proposer
from node.ledger.chain import Chain, ProvenBlock
from node.ledger.epochs import UNKNOWN_SEED
from node.sync.waiting import Peer, Waiting
from runtime.blocks.block import BLOCK, HEADER, HEADER_BYTES_MAX, extrinsics_root, seal_payload
from runtime.cryptography import signatures
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError
from runtime.encoding.scale import decode_compact

SIGNED_BYTES_MIN = 100
"""No signed extrinsic is shorter: an address and a signature alone are 98 bytes."""
INHERENTS_MAX = 256
"""Extrinsics that may be shorter: those that the author adds, of which there are a few."""


class WrongBodyError(Exception):
    """The body is not the one that the header commits to: nobody who executed the block has sent it."""


def read_waiting(data: bytes, peer: Peer) -> Waiting:
    """Take the header off a block's bytes.  Raises `DecodeError`."""
    # Encodings are canonical, so the header's hash is that of the bytes it was read from.
    header, end = HEADER.decode_prefix(data[:HEADER_BYTES_MAX])
    return Waiting(blake2_256(data[:end]), header, data, end, peer)


def read_body(waiting: Waiting) -> ProvenBlock:
    """The whole block.  Raises `WrongBodyError`."""
    try:
        count, _ = decode_compact(waiting.data, waiting.body_start)
        # 50,000 extrinsics of one byte took 0.25 s to cut out and to commit to (a trie's nodes are per extrinsic).
        if count > INHERENTS_MAX + (len(waiting.data) - waiting.body_start) // SIGNED_BYTES_MIN:
            raise WrongBodyError("more extrinsics than a body of that length can hold")
        block = BLOCK.decode(waiting.data)
    except (DecodeError, IndexError) as error:
        raise WrongBodyError(f"malformed body: {error}") from error
    if extrinsics_root(block.extrinsics) != waiting.header.extrinsics_root:
        # The id covers the header alone: a wrong body must not condemn the block that it was put to.
        raise WrongBodyError("a block with another body than its header's")
    return ProvenBlock(block, waiting.data[: waiting.body_start], waiting.data[waiting.body_start :])


def check_unattached(chain: Chain, waiting: Waiting) -> None:
    """See that a header whose parent is not here bears the seal of its slot's proposer.

    Raises `NotYetError` where that cannot be known here, and `InvalidHeaderError`.
    """
    header = waiting.header
    number = chain.parameters.epoch_of(header.number)
    epoch = chain.epochs(number)
    if epoch is None:
        raise NotYetError("the epoch is not determined here")
    parts = read_header(header)
    member = next((member for member in epoch.validators.members if member.stash == parts.author), None)
    if member is None or parts.pre_digest.epoch != number:
        raise InvalidHeaderError("the author is no validator of the epoch")
    if not signatures.verify_ed25519(member.session, seal_payload(chain.genesis, header), parts.signature):
        raise InvalidHeaderError("the seal does not verify")
    # The seed of an epoch that is over is not kept.
    if epoch.seed != UNKNOWN_SEED and proposer(epoch, parts.pre_digest.slot) != member.session:
        raise InvalidHeaderError("not the slot's proposer")
