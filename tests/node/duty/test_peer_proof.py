"""A session key is shown to stand behind one peer id, and behind no other."""

from __future__ import annotations

import pytest

import node.duty.peer_proof
from node.duty.keystore import KeyPair
from node.duty.peer_proof import PeerProofs, prove
from node.p2p.hello import Role
from runtime.cryptography.signatures import verify_ed25519

GENESIS = b"g" * 32
PAIR = KeyPair.from_seed(bytes(range(32)))


def proofs(genesis: bytes = GENESIS) -> PeerProofs:
    return PeerProofs(genesis, verify_ed25519, {})


def test_a_proof_holds_for_its_peer_and_chain_only() -> None:
    proof = prove(PAIR, GENESIS, "me")
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
    known.accepts("me", Role.VALIDATOR, prove(PAIR, GENESIS, "me"))
    assert known.accepts("me", Role.FULL, b"anything")
    assert known.sessions == {}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.duty.peer_proof, "SESSIONS_MAX", 3)
    known = proofs()
    for number in range(6):
        assert known.accepts(f"peer{number}", Role.VALIDATOR, prove(PAIR, GENESIS, f"peer{number}"))
    assert list(known.sessions) == ["peer3", "peer4", "peer5"]
