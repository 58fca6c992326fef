"""Evidence of double proposals on a `MarketChain`: two sealed headers of one author in one slot."""

from runtime.blocks.block import HEADER, Header, seal_payload
from runtime.blocks.digest import PreDigest, author_item, pre_digest_item, seal_item
from runtime.blocks.evidence import DoubleHeader
from runtime.frame.call import Call
from runtime.pallets.staking.trust_lock import TrustLock
from simulation.chains.market_chain import GENESIS_HASH, Keys
from simulation.chains.named_keys import NamedKeys


def sealed(
    author: NamedKeys,
    slot: int = 9,
    epoch: int = 0,
    parent: bytes = b"p" * 32,
    signer: NamedKeys | None = None,
    role: str = "session",
    genesis: bytes = GENESIS_HASH,
) -> bytes:
    """Return an encoded header by `author`, sealed with the key of `signer` in a role."""
    digest = (author_item(author.stash), pre_digest_item(PreDigest(slot, epoch, bytes(32), bytes(80))))
    header = Header(parent, 5, b"s" * 32, b"x" * 32, digest)
    signature = (signer or author).sign(role, seal_payload(genesis, header))
    return HEADER.encode(Header(parent, 5, b"s" * 32, b"x" * 32, (*digest, seal_item(signature))))


def report(first: bytes, second: bytes) -> Call:
    """Return the call that reports two headers."""
    return TrustLock.report_offence(evidence=DoubleHeader(first, second))


def double(author: Keys, slot: int = 9, epoch: int = 0) -> Call:
    """Return the call that proves a double proposal."""
    return report(sealed(author, slot, epoch), sealed(author, slot, epoch, b"q" * 32))
