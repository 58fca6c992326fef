"""Headers and blocks: Substrate's five-field header, and opaque extrinsics under it.

A block's id is the hash of its sealed header. The author's seal covers the rest of the header.
"""

from contextlib import suppress
from typing import Annotated

from runtime.blocks.digest import Digest, split_seal
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signing import domain
from runtime.encoding.codec import Bounded, Codec, CompactU32, DecodeError, EncodeError, codec, struct
from runtime.encoding.scale import decode_compact, encode_compact
from runtime.encoding.type_info import BYTES
from runtime.encoding.types import Hash
from runtime.frame.weights import BLOCK_LENGTH_MAX_BYTES, EXTRINSIC_LENGTH_MAX_BYTES, EXTRINSICS_PER_BLOCK_MAX
from runtime.state.trie import Trie

HEADER_BYTES_MAX = 24 * 1024
BLOCK_BYTES_MAX = HEADER_BYTES_MAX + BLOCK_LENGTH_MAX_BYTES + 1024
GENESIS_PARENT = bytes(32)


def _decode_extrinsic(encoded: bytes, start: int) -> tuple[bytes, int]:
    content_length, begin = decode_compact(encoded, start)
    if content_length > EXTRINSIC_LENGTH_MAX_BYTES:
        raise DecodeError("extrinsic too long", start)
    end = begin + content_length
    if end > len(encoded):
        raise DecodeError("end of input", len(encoded))
    return encoded[start:end], end


def _encode_extrinsic(extrinsic_bytes: bytes) -> bytes:
    content_length, begin = decode_compact(extrinsic_bytes, 0)
    # The prefix is part of the hash, so it must be there and match.
    if begin + content_length != len(extrinsic_bytes):
        raise EncodeError("extrinsic with a wrong length prefix")
    return extrinsic_bytes


RawExtrinsic = Annotated[bytes, Codec(_encode_extrinsic, _decode_extrinsic, BYTES, "OpaqueExtrinsic")]
"""An extrinsic in the form that is sent, hashed and shown: with its length prefix."""


@struct(path="sp_runtime::generic::header::Header")
class Header:
    """The commitment to a block: its position, the state after it, its extrinsics, and consensus data."""

    parent_hash: Hash
    number: CompactU32
    state_root: Hash
    extrinsics_root: Hash
    digest: Digest


@struct(path="sp_runtime::generic::block::Block")
class Block:
    """A header and its extrinsics."""

    header: Header
    extrinsics: Annotated[tuple[RawExtrinsic, ...], Bounded(EXTRINSICS_PER_BLOCK_MAX)]


HEADER = codec(Header)
BLOCK = codec(Block)


def block_id(header: Header) -> bytes:
    """Return the hash of a header, seal included."""
    return blake2_256(HEADER.encode(header))


def without_seal(header: Header) -> Header:
    """Return the header for execution, without its seal. Raise DecodeError if it has no seal."""
    unsealed_digest, _ = split_seal(header.digest)
    return Header(header.parent_hash, header.number, header.state_root, header.extrinsics_root, unsealed_digest)


def seal_payload(genesis_hash: bytes, header: Header) -> bytes:
    """Return the bytes that the author signs: the header without its seal, if it has one already."""
    # Unsealed while its author signs it, sealed when others verify it.
    with suppress(DecodeError):
        header = without_seal(header)
    return domain(b"header", genesis_hash, HEADER.encode(header))


def extrinsics_root(extrinsics: tuple[bytes, ...]) -> bytes:
    """Return the root of the trie that maps positions to extrinsics."""
    return Trie({encode_compact(position): extrinsic_bytes for position, extrinsic_bytes in enumerate(extrinsics)}).root


def genesis_header(state_root: bytes) -> Header:
    """Return the header of block 0: no parent, no extrinsics, no seal."""
    return Header(GENESIS_PARENT, 0, state_root, extrinsics_root(()), ())
