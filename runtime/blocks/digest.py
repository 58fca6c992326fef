"""The consensus data in headers: digest items, and the contents of ours.

Order in a header: `PreRuntime("nmbs", author)`, `PreRuntime("ogpu", PreDigest)`, then `Consensus("ogpu", ...)` items,
and `Seal("ogpu", signature)` last. Explorers show the 32 bytes under the engine "nmbs" as the block's author.
"""

from typing import Annotated

from runtime.encoding.codec import U32, U64, Bounded, Codec, DecodeError, Fixed, Tagged, codec, struct, variant
from runtime.encoding.type_info import CompositeShape, FieldInfo, TypeInfo, rust_path
from runtime.encoding.types import AccountId, BlockNumber, Hash

DIGEST_ITEMS_MAX = 8
# Room for a certificate of `CERTIFICATE_BYTES_MAX`, with its height and hash.
DIGEST_ITEM_BYTES_MAX = 17 * 1024
CERTIFICATE_BYTES_MAX = 16 * 1024
# polkadot-js shows the content of an item with this engine, 32 bytes, as the author's account.
AUTHOR_ENGINE = b"nmbs"
ENGINE = b"ogpu"
SIGNATURE_BYTES = 64

Engine = Annotated[bytes, Fixed(4)]
Content = Annotated[bytes, Bounded(DIGEST_ITEM_BYTES_MAX)]


@variant(0, unnamed=True)
class Other:
    """Bytes that no engine owns."""

    data: Content


@variant(4, unnamed=True)
class Consensus:
    """Data from the runtime or the author to the consensus engine."""

    engine: Engine
    data: Content


@variant(5, unnamed=True)
class Seal:
    """The author's signature over the rest of the header."""

    engine: Engine
    data: Content


@variant(6, unnamed=True)
class PreRuntime:
    """Data from the author to the runtime, before execution."""

    engine: Engine
    data: Content


@variant(8)
class RuntimeEnvironmentUpdated:
    """The runtime's rules changed in this block."""


DigestItem = Annotated[
    Other | Consensus | Seal | PreRuntime | RuntimeEnvironmentUpdated,
    Tagged("sp_runtime::generic::digest::DigestItem"),
]
DIGEST_ITEM = codec(DigestItem)
LOGS = codec(Annotated[tuple[DigestItem, ...], Bounded(DIGEST_ITEMS_MAX)])
_DIGEST_INFO = TypeInfo(
    CompositeShape((FieldInfo("logs", LOGS.info, "Vec<DigestItem>"),)), rust_path("sp_runtime::generic::digest::Digest")
)
Digest = Annotated[
    tuple[Other | Consensus | Seal | PreRuntime | RuntimeEnvironmentUpdated, ...],
    Codec(LOGS.encode, LOGS.decode_from, _DIGEST_INFO, "Digest"),
]
"""The digest items of a header, in order. A tuple, though metadata shows the SDK's struct of one field."""


@struct
class PreDigest:
    """The block's slot, and the proof of its author's randomness in it."""

    slot: U64
    epoch: U32
    vrf_output: Annotated[bytes, Fixed(32)]
    vrf_proof: Annotated[bytes, Fixed(80)]


@variant(0)
class FinalRef:
    """The newest final block that the author knows, with its certificate (opaque to the runtime)."""

    height: BlockNumber
    hash: Hash
    certificate: Annotated[bytes, Bounded(CERTIFICATE_BYTES_MAX)]


@variant(1)
class NextValidators:
    """In the last block of an epoch: `blake2_256(SCALE(Seats))` of the validators of the next epoch."""

    hash: Hash


ConsensusLog = Annotated[FinalRef | NextValidators, Tagged("ogpu::ConsensusLog")]


def author_item(author: bytes) -> PreRuntime:
    """Return the first item: the author of the block."""
    return PreRuntime(AUTHOR_ENGINE, codec(AccountId).encode(author))


def pre_digest_item(pre_digest: PreDigest) -> PreRuntime:
    """Return the second item: slot and randomness."""
    return PreRuntime(ENGINE, codec(PreDigest).encode(pre_digest))


def consensus_item(log: FinalRef | NextValidators) -> Consensus:
    """Return a consensus item of ours from the author."""
    return Consensus(ENGINE, codec(ConsensusLog).encode(log))


def seal_item(signature: bytes) -> Seal:
    """Return the last item, the seal."""
    return Seal(ENGINE, signature)


def find_author(digest: Digest) -> bytes | None:
    """Return the author of the block, None unless the first item names an account of 32 bytes."""
    first = digest[0] if digest else None
    if isinstance(first, PreRuntime) and first.engine == AUTHOR_ENGINE and len(first.data) == 32:
        return first.data
    return None


def find_pre_digest(digest: Digest) -> PreDigest | None:
    """Return the pre-digest, None if the second item is not ours. Raise DecodeError if it is malformed."""
    second = digest[1] if len(digest) > 1 else None
    if isinstance(second, PreRuntime) and second.engine == ENGINE:
        return codec(PreDigest).decode(second.data)
    return None


def consensus_logs(digest: Digest) -> tuple[FinalRef | NextValidators, ...]:
    """Return our consensus items, in order. Raise DecodeError if one is malformed."""
    decode = codec(ConsensusLog).decode
    return tuple(decode(item.data) for item in digest if isinstance(item, Consensus) and item.engine == ENGINE)


def split_seal(digest: Digest) -> tuple[Digest, bytes]:
    """Return the digest without its seal, and the seal's signature.

    Raise DecodeError if the last item is not a seal of ours.
    """
    last = digest[-1] if digest else None
    if not isinstance(last, Seal) or last.engine != ENGINE or len(last.data) != SIGNATURE_BYTES:
        raise DecodeError("last digest item is no seal")
    return digest[:-1], last.data
