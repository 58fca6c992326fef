"""Key files: Substrate's layout, private, and never silently replaced by another key."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from error_codes import raises_code
from node.duty.keystore import SESSION, VRF, KeyPair, Keystore
from node.errors import BadInputError

SEED = bytes(range(32))


def test_a_key_comes_back(tmp_path: Path) -> None:
    store = Keystore(tmp_path / "keystore")
    assert store.public_keys(SESSION) == []
    public = store.insert(SESSION, SEED)
    assert store.insert(SESSION, SEED) == public
    assert store.public_keys(SESSION) == [public]
    assert store.public_keys(VRF) == []
    assert store.pair(SESSION, public) == KeyPair.from_seed(SEED)
    assert store.pair(VRF, public) is None


def test_layout_is_substrates(tmp_path: Path) -> None:
    public = Keystore(tmp_path).insert(SESSION, SEED)
    (path,) = tmp_path.iterdir()
    assert path.name == b"ogpu".hex() + public.hex()
    assert json.loads(path.read_text()) == "0x" + SEED.hex()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content", [b"", b"{", b"7", b'"0x00"', b'"zz"', b'"0x' + b"11" * 32 + b'"', b"[" * 1000, b"x" * 5000, b"\xff\xfe"]
)
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    store = Keystore(tmp_path)
    public = store.insert(SESSION, SEED)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    with pytest.raises(BadInputError):
        store.pair(SESSION, public)
    assert path.read_bytes() == content


def test_a_file_open_to_others_or_a_link_is_refused(tmp_path: Path) -> None:
    store = Keystore(tmp_path / "a")
    public = store.insert(SESSION, SEED)
    (path,) = (tmp_path / "a").iterdir()
    for mode in (0o644, 0o640, 0o620, 0o601):
        path.chmod(mode)
        with pytest.raises(BadInputError, match="chmod 600"):
            store.pair(SESSION, public)
    path.chmod(0o600)
    target = tmp_path / "target"
    path.rename(target)
    path.symlink_to(target)
    with raises_code(BadInputError, "not_a_plain_file"):
        store.pair(SESSION, public)


def test_a_secret_does_not_print() -> None:
    text = repr(KeyPair.from_seed(SEED)) + str(KeyPair.from_seed(SEED).seed) + f"{KeyPair.from_seed(SEED).secret}"
    assert SEED.hex() not in text
    assert repr(SEED) not in text
