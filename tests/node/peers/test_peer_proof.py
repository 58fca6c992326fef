"""A session key is proved for one peer id, and for no other."""

from __future__ import annotations

import pytest

import node.peers.peer_proof
from consensus.validators import Validator, ValidatorSet
from node.duty.keystore import KeyPair
from node.p2p.hello import Role
from node.peers.peer_proof import PROOFS_MAX, PeerProofs, prove

GENESIS = b"g" * 32
PAIR = KeyPair.from_seed(bytes(range(32)))


def prove_as(peer_id: str) -> bytes:
    return prove([(PAIR.public, PAIR.secret)], GENESIS, peer_id)


def proofs(genesis: bytes = GENESIS) -> PeerProofs:
    return PeerProofs(genesis, lambda session: session == PAIR.public)


def test_a_proof_holds_for_its_peer_and_chain_only() -> None:
    proof = prove_as("me")
    known = proofs()
    assert known.accepts("me", Role.VALIDATOR, proof)
    assert known.sessions == {"me": (PAIR.public,)}
    assert not known.accepts("thief", Role.VALIDATOR, proof)
    assert not proofs(b"x" * 32).accepts("me", Role.VALIDATOR, proof)
    assert known.sessions == {"me": (PAIR.public,)}


@pytest.mark.parametrize("proof", [b"", b"\0", bytes(96), bytes(97), b"\xff" * 1024])
def test_a_claim_without_a_proof_is_refused(proof: bytes) -> None:
    assert not proofs().accepts("me", Role.VALIDATOR, proof)


def test_a_full_node_needs_none_and_loses_what_it_proved() -> None:
    known = proofs()
    known.accepts("me", Role.VALIDATOR, prove_as("me"))
    assert known.accepts("me", Role.FULL, b"anything")
    assert known.sessions == {}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.peers.peer_proof, "PEERS_MAX", 3)
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
    monkeypatch.setattr(node.peers.peer_proof, "PEERS_MAX", 8)
    known = proofs()
    assert known.accepts("me", Role.VALIDATOR, prove_as("me"))
    assert known.is_validator("me")
    for number in range(20):
        made_up, name = KeyPair.from_seed(bytes([number]) * 32), f"peer{number}"
        assert known.accepts(name, Role.VALIDATOR, prove([(made_up.public, made_up.secret)], GENESIS, name))
        assert not known.is_validator(name)
    assert known.is_validator("me"), "made-up keys push out no validator"
    assert known.accepts("again", Role.VALIDATOR, prove_as("again"))
    assert (known.is_validator("me"), known.is_validator("again")) == (False, True)


def test_a_node_proves_each_of_its_keys_and_one_bad_proof_spoils_all() -> None:
    second, third = (KeyPair.from_seed(bytes([number]) * 32) for number in (7, 8))
    pairs = [(pair.public, pair.secret) for pair in (PAIR, second)]
    known = proofs()
    assert known.accepts("me", Role.VALIDATOR, prove(pairs, GENESIS, "me"))
    assert known.sessions == {"me": (PAIR.public, second.public)}
    assert known.is_validator("me"), "one of them sits"
    assert not known.accepts("me", Role.VALIDATOR, prove([*pairs, (third.public, second.secret)], GENESIS, "me"))
    assert known.sessions == {}
    assert not known.accepts("me", Role.VALIDATOR, prove([*pairs, pairs[0]], GENESIS, "me")), "twice"
    assert not known.accepts("me", Role.VALIDATOR, prove([], GENESIS, "me"))


def test_the_key_of_another_peer_is_taken_over_alone() -> None:
    second = KeyPair.from_seed(bytes([7]) * 32)
    known = PeerProofs(GENESIS, lambda session: session in {PAIR.public, second.public})
    both = [(pair.public, pair.secret) for pair in (PAIR, second)]
    assert known.accepts("old", Role.VALIDATOR, prove(both, GENESIS, "old"))
    assert known.accepts("new", Role.VALIDATOR, prove(both[:1], GENESIS, "new"))
    assert (known.is_validator("old"), known.is_validator("new")) == (True, True), "the second key is the old one's"
    assert known.accepts("new", Role.VALIDATOR, prove(both, GENESIS, "new"))
    assert (known.is_validator("old"), known.is_validator("new")) == (False, True)


def test_more_proofs_than_a_hello_holds_are_refused() -> None:
    many = [KeyPair.from_seed(bytes([number]) * 32) for number in range(PROOFS_MAX + 1)]
    with pytest.raises(ValueError, match=str(PROOFS_MAX)):
        prove([(pair.public, pair.secret) for pair in many], GENESIS, "me")


def test_who_lost_its_key_to_another_peer_takes_nothing_along_when_it_goes() -> None:
    known = proofs()
    assert known.accepts("old", Role.VALIDATOR, prove_as("old"))
    assert known.accepts("new", Role.VALIDATOR, prove_as("new"))
    assert known.accepts("old", Role.FULL, b"")
    assert known.is_validator("new")
