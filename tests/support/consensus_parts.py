"""Small validators, blocks and votes for consensus tests. Signatures are the simulator's fake ones."""

from collections.abc import Callable, Iterable
from hashlib import blake2b

from consensus.certificates import Certificate, make_certificate
from consensus.events import BlockFacts, CertifiedRef
from consensus.validators import Epoch, Validator, ValidatorSet
from devnet.simulation.keys import Signer, fake_signer
from runtime.blocks.votes import Ballot, BallotKind, SignedBallot, ballot_payload

GENESIS = blake2b(b"test chain", digest_size=32).digest()
GENESIS_BLOCK = BlockFacts(GENESIS, bytes(32), 0, 0, bytes(32), 0)


def signers(count: int) -> list[Signer]:
    return [fake_signer(number) for number in range(count)]


def members(count: int, epoch: int = 0, weights: tuple[int, ...] = ()) -> ValidatorSet:
    return ValidatorSet(
        epoch,
        tuple(
            Validator(number.to_bytes(32, "big"), signer.public, signer.public, weights[number] if weights else 1)
            for number, signer in enumerate(signers(count))
        ),
    )


def set_of(places: Iterable[int], epoch: int) -> ValidatorSet:
    """Return a set of these signers, each with weight 1."""
    return ValidatorSet(
        epoch,
        tuple(
            Validator(place.to_bytes(32, "big"), fake_signer(place).public, fake_signer(place).public, 1)
            for place in sorted(places)
        ),
    )


def epochs_of(count: int) -> Callable[[int], Epoch]:
    return lambda number: Epoch(members(count, number), number.to_bytes(32, "big"))


def block(
    parent: BlockFacts, slot: int, author: bytes = b"a" * 32, final_ref: CertifiedRef | None = None
) -> BlockFacts:
    name = blake2b(parent.id + slot.to_bytes(8, "big") + author, digest_size=32).digest()
    referenced = parent.referenced_height if final_ref is None else final_ref.height
    return BlockFacts(name, parent.id, parent.height + 1, slot, author, referenced, final_ref)


def ballot(kind: BallotKind, round_: int, on: BlockFacts, epoch: int = 0) -> Ballot:
    return Ballot(kind, epoch, round_, on.height, on.id)


def cast(signer: Signer, content: Ballot) -> SignedBallot:
    return SignedBallot(content, signer.public, signer.sign(ballot_payload(GENESIS, content)))


def certificate(content: Ballot, count: int, voters: range) -> Certificate:
    return certificate_by(content, members(count, content.epoch), voters)


def certificate_by(content: Ballot, of: ValidatorSet, voters: Iterable[int]) -> Certificate:
    payload = ballot_payload(GENESIS, content)
    signatures = {fake_signer(number).public: fake_signer(number).sign(payload) for number in voters}
    return make_certificate(content, of, signatures)
