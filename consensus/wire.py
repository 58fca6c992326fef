"""The consensus messages that peers exchange, in SCALE, with a limit on everything.

Always: queries and chits are unsigned, because a preference may change honestly; they count for
the validator that proved its session key on the connection. Everything else carries signatures
and counts whoever brings it.
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
    """Which block do you prefer? Ours is `tip`; `height` asks for the preference there, too."""

    request: U32
    tip: Hash
    height: U32


@variant(1)
class Chits:
    """Answer to a query: preferred tip, preferred block at the asked height, and progress."""

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
    """A ballot; a notarise ballot brings the proposal along, for those who missed it."""

    vote: SignedBallot
    proposal: SignedProposal | None


@variant(4)
class Certified:
    """Certificates, forwarded or asked for."""

    certificates: Annotated[tuple[Certificate, ...], Bounded(CERTIFICATES_PER_MESSAGE_MAX)]


@variant(5)
class NeedCerts:
    """The sender is in (epoch, round), lacks nothing up to `parent_round`, knows `final_round` final.

    `linked` names the members of the epoch that it is directly connected to (bit i of byte i // 8: the i-th member),
    itself among them: the ballots of all others it needs from its peers. Empty: it says nothing of that.
    """

    epoch: U32
    round: U32
    parent_round: U32
    final_round: U32
    linked: Annotated[bytes, Bounded(BITMAP_BYTES_MAX)]


Message = PullQuery | Chits | Propose | Vote | Certified | NeedCerts
MESSAGE: Codec[Message] = codec(Annotated[Message, Tagged("ogpu::ConsensusMessage")])
