"""The consensus messages between peers, in SCALE, each with a size limit.

Queries and chits are unsigned, because an honest preference may change. A chit counts for the validator that proved its
session key on the connection. All other messages carry signatures and are valid from any peer.
"""

from typing import Annotated

from consensus.certificates import BITMAP_BYTES_MAX, Certificate
from runtime.blocks.votes import SignedBallot, SignedProposal
from runtime.encoding.codec import U32, Bounded, Codec, Tagged, codec, variant
from runtime.encoding.types import Hash

CERTIFICATES_PER_MESSAGE_MAX = 32
MESSAGE_BYTES_MAX = 512 * 1024


@variant(0)
class PullQuery:
    """A request for the peer's preferred tip and its preference at `height`. `tip` is the sender's own preference."""

    request: U32
    tip: Hash
    height: U32


@variant(1)
class Chits:
    """The answer to a query: preferred tip, preferred block at the requested height, and progress."""

    request: U32
    tip: Hash
    at_height: Hash
    accepted: Hash
    accepted_height: U32
    final_height: U32


@variant(2)
class Propose:
    """The leader's proposal for its round."""

    proposal: SignedProposal


@variant(3)
class Vote:
    """A ballot. A notarise ballot includes the proposal, for peers that missed it."""

    vote: SignedBallot
    proposal: SignedProposal | None


@variant(4)
class Certified:
    """Certificates, forwarded or requested."""

    certificates: Annotated[tuple[Certificate, ...], Bounded(CERTIFICATES_PER_MESSAGE_MAX)]


@variant(5)
class NeedCerts:
    """The sender's position: it is in (epoch, round), lacks nothing up to `parent_round`, and has `final_round` final.

    `linked` names the members of the epoch that the sender is directly connected to, itself included (bit i of byte i
    // 8: the i-th member). It needs the ballots of all other members from its peers. An empty bitmap says nothing about
    links.
    """

    epoch: U32
    round: U32
    parent_round: U32
    final_round: U32
    linked: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]


Message = PullQuery | Chits | Propose | Vote | Certified | NeedCerts
MESSAGE: Codec[Message] = codec(Annotated[Message, Tagged("ogpu::ConsensusMessage")])
