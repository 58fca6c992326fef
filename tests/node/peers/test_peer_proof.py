"""A session key is shown to stand behind one peer id, and behind no other."""

from __future__ import annotations

import pytest

import node.peers.peer_proof
from consensus.validators import Validator, ValidatorSet
from node.duty.keystore import KeyPair
from node.p2p.hello import Role
from node.peers.peer_proof import PeerProofs, prove

GENESIS = b"g" * 32
PAIR = KeyPair.from_seed(bytes(range(32)))


def prove_as(peer_id: str) -> bytes:
    return prove(PAIR.public, PAIR.secret, GENESIS, peer_id)


def proofs(genesis: bytes = GENESIS) -> PeerProofs:
    return PeerProofs(genesis, lambda session: session == PAIR.public)


def test_a_proof_holds_for_its_peer_and_chain_only() -> None:
    proof = prove_as("me")
    known = proofs()
    assert known.accepts("me", Role.VALIDATOR, proof)
    assert known.sessions == {"me": PAIR.public}
    assert not known.accepts("thief", Role.VALIDATOR, proof)
    assert not proofs(b"x" * 32).accepts("me", Role.VALIDATOR, proof)
    assert known.sessions == {"me": PAIR.public}


@pytest.mark.parametrize("proof", [b"", b"\0", bytes(96), bytes(97), b"\xff" * 1024])
def test_a_claim_without_a_proof_is_refused(proof: bytes) -> None:
    assert not proofs().accepts("me", Role.VALIDATOR, proof)


def test_a_full_node_needs_none_and_loses_what_it_proved() -> None:
    known = proofs()
    known.accepts("me", Role.VALIDATOR, prove_as("me"))
    assert known.accepts("me", Role.FULL, b"anything")
    assert known.sessions == {}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.peers.peer_proof, "SESSIONS_MAX", 3)
    known = proofs()
    for number in range(6):
        assert known.accepts(f"peer{number}", Role.VALIDATOR, prove_as(f"peer{number}"))
    assert list(known.sessions) == ["peer3", "peer4", "peer5"]


def test_the_stashes_behind_peers_are_those_of_the_validators_that_they_proved() -> None:
    known = proofs()
    known.accepts("me", Role.VALIDATOR, prove_as("me"))
    member = Validator(b"s" * 32, PAIR.public, b"v" * 32, 1)
    other = Validator(b"o" * 32, b"k" * 32, b"v" * 32, 1)
    assert known.stashes(ValidatorSet(0, (other, member))) == {b"me": b"s" * 32}
    assert known.stashes(ValidatorSet(0, (other,))) == {}


def test_m2_only_a_key_in_office_makes_a_validator_and_only_one_peer_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.peers.peer_proof, "SESSIONS_MAX", 8)
    known = proofs()
    assert known.accepts("me", Role.VALIDATOR, prove_as("me"))
    assert known.is_validator("me")
    for number in range(20):
        made_up, name = KeyPair.from_seed(bytes([number]) * 32), f"peer{number}"
        assert known.accepts(name, Role.VALIDATOR, prove(made_up.public, made_up.secret, GENESIS, name))
        assert not known.is_validator(name)
    assert known.is_validator("me"), "made-up keys push out no validator"
    assert known.accepts("again", Role.VALIDATOR, prove_as("again"))
    assert (known.is_validator("me"), known.is_validator("again")) == (False, True)
