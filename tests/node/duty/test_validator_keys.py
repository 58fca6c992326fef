"""The keys at work: proofs for peers, and what is final never falls."""

from __future__ import annotations

from pathlib import Path

import pytest

from block_maker import Maker
from node.p2p.hello import Role
from node.peers.peer_proof import PeerProofs


def test_peers_believe_the_proof_of_the_session_key(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    proofs = PeerProofs(maker.chain.genesis, maker.chain.is_seated)
    assert proofs.accepts("me", Role.VALIDATOR, maker.validator.prove_peer("me"))
    assert proofs.sessions == {"me": maker.validator.session}
    assert proofs.is_validator("me"), "Alice sits in the set of the chain's own state"
    assert not proofs.accepts("thief", Role.VALIDATOR, maker.validator.prove_peer("me"))


def test_the_final_height_never_falls(tmp_path: Path) -> None:
    keys = Maker(tmp_path).validator
    keys.note_final(0, 1, 5)
    assert keys.file.final_height == 5
    for height in (4, 0):
        with pytest.raises(AssertionError, match="never falls"):
            keys.note_final(0, 2, height)
