"""Handoffs from set to set by development accounts, as peers of a chain with many epochs send them."""

from __future__ import annotations

from collections.abc import Sequence

from consensus.certificates import make_certificate
from consensus.handoffs import HANDOFF, Handoff, seats_log, seats_of
from consensus.parameters import Parameters
from consensus.validators import Validator, ValidatorSet
from genesis import dev_accounts
from runtime.blocks.block import HEADER, Header, block_id
from runtime.blocks.digest import consensus_item
from runtime.blocks.votes import Ballot, BallotKind, ballot_payload
from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme

WEIGHT = 10**12


def members_of(names: Sequence[str], epoch: int) -> ValidatorSet:
    """Return a set of development accounts, all of one weight."""
    seated = [
        Validator(
            dev_accounts.stash(name),
            dev_accounts.key(name, dev_accounts.SESSION),
            dev_accounts.key(name, dev_accounts.VRF),
            WEIGHT,
        )
        for name in names
    ]
    return ValidatorSet(epoch, tuple(sorted(seated, key=lambda member: member.stash)))


def handed(
    parameters: Parameters, genesis: bytes, names: Sequence[str], old: ValidatorSet, following: ValidatorSet
) -> bytes:
    """Return the handoff of the old set's last block, signed by `names`."""
    digest = (consensus_item(seats_log(seats_of(following))),)
    header = Header(b"p" * 32, parameters.boundary(old.epoch), b"s" * 32, b"x" * 32, digest)
    ballot = Ballot(BallotKind.FINALISE, old.epoch, 3, header.number, block_id(header))
    payload = ballot_payload(genesis, ballot)
    signed = {}
    for name in names:
        session, secret = signatures.keypair_from_seed(
            Scheme.ED25519, dev_accounts.key_seed(name, dev_accounts.SESSION)
        )
        signed[session] = signatures.sign(Scheme.ED25519, session, secret, payload)
    return HANDOFF.encode(Handoff(HEADER.encode(header), make_certificate(ballot, old, signed), seats_of(following)))


def handed_on(
    parameters: Parameters, genesis: bytes, first: ValidatorSet, sets: Sequence[Sequence[str]]
) -> tuple[list[bytes], list[ValidatorSet]]:
    """Return the handoffs from epoch 0 on, and the sets from epoch 1 on. The first set is Alice's."""
    names: Sequence[str] = ("Alice",)
    old, handoffs, following = first, [], []
    for epoch, after in enumerate(sets, 1):
        members = members_of(after, epoch)
        handoffs.append(handed(parameters, genesis, names, old, members))
        following.append(members)
        names, old = after, members
    return handoffs, following
