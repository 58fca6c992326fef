"""A chain's handoffs without its blocks: consecutive sets with real keys, and a node that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from consensus.certificates import make_certificate
from consensus.handoffs import HANDOFF, Handoff, seats_log, seats_of
from consensus.parameters import DEVNET
from consensus.validators import Validator, ValidatorSet
from runtime.blocks.block import HEADER, Header, block_id
from runtime.blocks.digest import consensus_item
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, keypair_from_seed, sign
from wallet.proved.finality import FinalHeader, TrustRoot

GENESIS = blake2_256(b"handed sets")


@cache
def keys(number: int) -> tuple[bytes, bytes]:
    """Return the session key of member `number`."""
    return keypair_from_seed(Scheme.ED25519, number.to_bytes(32, "big"))


def set_of(epoch: int, people: Sequence[int], weight: int = 1) -> ValidatorSet:
    """Return the active set of an epoch."""
    members = (Validator(number.to_bytes(32, "big"), keys(number)[0], bytes(32), weight) for number in people)
    return ValidatorSet(epoch, tuple(sorted(members, key=lambda member: member.stash)))


def root_of(first: ValidatorSet) -> TrustRoot:
    """Return the trust root of the genesis."""
    header = Header(bytes(32), 0, bytes(32), bytes(32), ())
    return TrustRoot(FinalHeader(GENESIS, header, 0), DEVNET, seats_of(first))


def handoff(of: ValidatorSet, following: ValidatorSet, voters: Sequence[int], kind: int = BallotKind.FINALISE) -> bytes:
    """Return the handoff of an epoch's last block, with these votes."""
    number = DEVNET.boundary(of.epoch)
    header = Header(bytes(32), number, bytes(32), bytes(32), (consensus_item(seats_log(seats_of(following))),))
    ballot = Ballot(BallotKind(kind), of.epoch, 1, number, block_id(header))
    payload = ballot_payload(GENESIS, ballot)
    signatures = {keys(voter)[0]: sign(Scheme.ED25519, *keys(voter), payload) for voter in voters}
    return HANDOFF.encode(Handoff(HEADER.encode(header), make_certificate(ballot, of, signatures), seats_of(following)))


@dataclass
class HandingNode:
    """A node that serves handoffs. `asked` has the requested epochs and counts."""

    handoffs: list[Any]

    def __post_init__(self) -> None:
        """Start without requests."""
        self.asked: list[tuple[int, int]] = []

    async def ask(self, method: str, *parameters: Any) -> Any:
        """Its JSON-RPC."""
        assert method == "ogpu_handoffs"
        first, count = parameters
        self.asked.append((first, count))
        page = self.handoffs[first : first + count]
        return ["0x" + each.hex() if isinstance(each, bytes) else each for each in page]


def walk(sets: Sequence[Sequence[int]]) -> HandingNode:
    """Return an honest node of a chain with these sets. All but one member of each set sign."""
    known = [set_of(epoch, people) for epoch, people in enumerate(sets)]
    pairs = zip(known[:-1], known[1:], sets[:-1], strict=True)
    return HandingNode([handoff(old, new, people[: max(3, len(people) - 1)]) for old, new, people in pairs])
