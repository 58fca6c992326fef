"""New keys for a node, and proofs of the keys that it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from error_codes import raises_code
from node.config import Paths
from node.duty.key_proofs import new_keys, prove_stored, stored_keys
from node.duty.keystore import SESSION, VRF, Keystore
from node.duty.signstate_file import SignStateFile
from node.errors import BadInputError
from runtime.pallets.session_keys import SessionKeys, verify_keys

GENESIS, OWNER = b"g" * 32, b"o" * 32


def test_new_keys_are_in_the_keystore_with_a_sign_state_of_nothing(tmp_path: Path) -> None:
    paths = Paths(tmp_path, "dev")
    first, second = (new_keys(paths, GENESIS) for _ in range(2))
    store = Keystore(paths.keystore)
    assert first != second
    assert set(store.public_keys(SESSION)) == {first.session, second.session}
    assert set(store.public_keys(VRF)) == {first.vrf, second.vrf}
    for keys in (first, second):
        file = SignStateFile.load(paths.sign_state(keys.session), GENESIS, keys.session)
        assert file is not None
        assert (file.final_height, file.state.ballots) == (0, ())
        proof = prove_stored(store, keys, GENESIS, OWNER)
        assert verify_keys(GENESIS, OWNER, keys, proof)
        assert not verify_keys(GENESIS, b"x" * 32, keys, proof)


def test_a_crash_before_the_keys_are_stored_leaves_no_key_without_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = Paths(tmp_path, "dev")

    def cut(*_: object) -> bytes:
        raise OSError(5, "power cut")

    monkeypatch.setattr(Keystore, "insert", cut)
    with pytest.raises(OSError, match="power cut"):
        new_keys(paths, GENESIS)
    assert Keystore(paths.keystore).public_keys(SESSION) == []
    assert len(list(paths.sign_states.iterdir())) == 1, "of a key that nobody has"


def test_the_only_keys_are_meant_where_none_are_named(tmp_path: Path) -> None:
    store = Keystore(tmp_path)
    with pytest.raises(BadInputError, match="holds: none"):
        stored_keys(store, None, None)
    session, vrf = store.insert(SESSION, b"1" * 32), store.insert(VRF, b"2" * 32)
    assert stored_keys(store, None, None) == SessionKeys(session, vrf)
    other = store.insert(SESSION, b"3" * 32)
    with pytest.raises(BadInputError, match="--session"):
        stored_keys(store, None, None)
    assert stored_keys(store, other, None) == SessionKeys(other, vrf)
    with pytest.raises(BadInputError, match="--vrf"):
        stored_keys(store, other, b"x" * 32)


def test_what_is_not_held_is_not_proved(tmp_path: Path) -> None:
    store = Keystore(tmp_path)
    session = store.insert(SESSION, b"1" * 32)
    with raises_code(BadInputError, "key_missing"):
        prove_stored(store, SessionKeys(session, b"x" * 32), GENESIS, OWNER)


def test_a_crash_between_the_keys_leaves_no_session_key_without_its_vrf_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, insert, stored = Paths(tmp_path, "dev"), Keystore.insert, list[bytes]()

    def cut(store: Keystore, key_type: bytes, seed: bytes) -> bytes:
        if stored:
            raise OSError(5, "power cut")
        stored.append(key_type)
        return insert(store, key_type, seed)

    monkeypatch.setattr(Keystore, "insert", cut)
    with pytest.raises(OSError, match="power cut"):
        new_keys(paths, GENESIS)
    assert stored == [VRF]
    assert Keystore(paths.keystore).public_keys(SESSION) == []
