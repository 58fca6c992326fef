"""The active keys of a node: the key of each epoch, proofs for peers, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import Maker
from consensus.signstate import SigningRefusedError
from consensus.validators import Epoch, ValidatorSet
from consensus.validators import Validator as Member
from node.duty.keystore import KeyPair
from node.duty.signing_key import SigningKey
from node.duty.signstate_file import SignStateFile
from node.duty.validator_keys import ValidatorKeys
from node.p2p.hello import Role
from node.peers.peer_proof import PeerProofs
from runtime.blocks.block import Header, seal_payload
from runtime.blocks.votes import Ballot, BallotKind
from runtime.cryptography.signatures import verify_ed25519

GENESIS, STASH = b"g" * 32, b"s" * 32
FIRST, SECOND, STRANGER = (KeyPair.from_seed(bytes([number]) * 32) for number in (1, 2, 3))
VRF, OTHER_VRF = (KeyPair.from_seed(bytes([number]) * 32) for number in (4, 5))
HEADER = Header(bytes(32), 1, bytes(32), bytes(32), ())


def epochs_of(*seats: Member | None) -> Callable[[int], Epoch | None]:
    """Return the node's own seats beside a stranger's, epoch by epoch. An epoch beyond the last is undetermined."""
    sets = []
    for number, seat in enumerate(seats):
        members = [Member(b"t" * 32, STRANGER.public, OTHER_VRF.public, 5), *([] if seat is None else [seat])]
        ordered = tuple(sorted(members, key=lambda member: member.stash))
        sets.append(Epoch(ValidatorSet(number, ordered), bytes(32)))
    return lambda number: sets[number] if number < len(sets) else None


def seat(session: KeyPair, vrf: KeyPair = VRF) -> Member:
    return Member(STASH, session.public, vrf.public, 1)


def made(folder: Path, epochs: Callable[[int], Epoch | None], *, begun: tuple[KeyPair, ...]) -> ValidatorKeys:
    """Return a node that holds both keys. Those in `begun` have a sign-state."""

    def file(pair: KeyPair) -> SignStateFile | None:
        path = folder / pair.public.hex()
        return SignStateFile.create(path, GENESIS, pair.public) if pair in begun else None

    return ValidatorKeys(GENESIS, epochs, [SigningKey(pair, file(pair)) for pair in (FIRST, SECOND)], [VRF])


def test_the_key_that_sits_signs_and_after_a_rotation_the_other(tmp_path: Path) -> None:
    keys = made(tmp_path, epochs_of(None, seat(FIRST), seat(SECOND), None), begun=(FIRST, SECOND))
    assert [keys.session_of(epoch) for epoch in range(5)] == [None, FIRST.public, SECOND.public, None, None]
    for epoch, pair in ((1, FIRST), (2, SECOND)):
        ballot = Ballot(BallotKind.NOTARISE, epoch, 1, 1, bytes(32))
        keys.sign_vote(ballot)
        sealed = keys.seal(epoch, epoch, replace(HEADER, number=epoch))
        seal = sealed.digest[-1]
        assert verify_ed25519(pair.public, seal_payload(GENESIS, replace(HEADER, number=epoch)), seal.data)  # type: ignore[union-attr]
        record = keys.sessions[pair.public].file
        assert record is not None
        assert ballot in record.state.ballots


@pytest.mark.parametrize("epoch", [0, 3, 4])
def test_without_a_seat_nothing_is_signed(tmp_path: Path, epoch: int) -> None:
    keys = made(tmp_path, epochs_of(None, seat(FIRST), seat(SECOND), None), begun=(FIRST, SECOND))
    with pytest.raises(SigningRefusedError, match=f"epoch {epoch}"):
        keys.sign_vote(Ballot(BallotKind.NOTARISE, epoch, 1, 1, bytes(32)))
    with pytest.raises(SigningRefusedError, match=f"epoch {epoch}"):
        keys.seal(epoch, 7, HEADER)
    with pytest.raises(SigningRefusedError, match=f"epoch {epoch}"):
        keys.prove_vrf(epoch, b"alpha")


@pytest.mark.parametrize(
    ("begun", "vrf"), [((SECOND,), VRF), ((FIRST, SECOND), OTHER_VRF)], ids=["no sign-state", "no VRF key"]
)
def test_who_lacks_a_part_of_it_has_no_seat(tmp_path: Path, begun: tuple[KeyPair, ...], vrf: KeyPair) -> None:
    keys = made(tmp_path, epochs_of(seat(FIRST, vrf)), begun=begun)
    assert keys.seat(0) is None
    assert keys.session_of(0) is None


def test_two_keys_of_one_node_seal_no_two_headers_of_one_slot(tmp_path: Path) -> None:
    keys = made(tmp_path, epochs_of(seat(FIRST), seat(SECOND)), begun=(FIRST, SECOND))
    assert keys.seal(0, 9, HEADER) == keys.seal(0, 9, HEADER), "the same again is no second one"
    for slot in (8, 9):
        with pytest.raises(SigningRefusedError, match="slot 9"):
            keys.seal(1, slot, replace(HEADER, number=2))
    keys.seal(1, 10, replace(HEADER, number=2))
    assert keys.last_header().slot == 10
    assert keys.sign_state(0).header.slot == 10, "who builds again knows what any key has sealed"


def test_finality_is_noted_for_the_key_that_sits_and_for_the_next_one(tmp_path: Path) -> None:
    keys = made(tmp_path, epochs_of(seat(FIRST), seat(SECOND), seat(SECOND)), begun=(FIRST, SECOND))
    keys.note_final(0, 3, 30)
    assert [key.file.final_height for key in keys.sessions.values() if key.file] == [30, 30]
    keys.note_final(1, 1, 40)
    assert [key.file.final_height for key in keys.sessions.values() if key.file] == [30, 40]
    assert keys.noted_height == 40


def test_a_database_that_was_rolled_back_signs_nothing(tmp_path: Path) -> None:
    keys = made(tmp_path, epochs_of(seat(FIRST)), begun=(FIRST,))
    keys.note_final(0, 3, 30)
    again = ValidatorKeys(GENESIS, epochs_of(seat(FIRST)), keys.sessions.values(), [VRF])
    with pytest.raises(SigningRefusedError, match="rolled back"):
        again.sign_vote(Ballot(BallotKind.NOTARISE, 0, 9, 31, bytes(32)))
    again.note_final(0, 2, 20)
    assert again.noted_height == 30, "the file keeps what it has seen while the database catches up"
    again.note_final(0, 3, 30)
    again.sign_vote(Ballot(BallotKind.NOTARISE, 0, 9, 31, bytes(32)))


def test_peers_believe_the_proofs_of_the_session_keys(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    proofs = PeerProofs(maker.chain.genesis, maker.chain.is_seated)
    assert proofs.accepts("me", Role.VALIDATOR, maker.validator.prove_peer("me"))
    assert proofs.sessions == {"me": (maker.session.public,)}
    assert proofs.is_validator("me"), "Alice sits in the set of the chain's own state"
    assert not proofs.accepts("thief", Role.VALIDATOR, maker.validator.prove_peer("me"))


def test_the_final_height_never_falls(tmp_path: Path) -> None:
    keys = Maker(tmp_path).validator
    keys.note_final(0, 1, 5)
    assert keys.noted_height == 5
    for height in (4, 0):
        with pytest.raises(AssertionError, match="never falls"):
            keys.note_final(0, 2, height)
