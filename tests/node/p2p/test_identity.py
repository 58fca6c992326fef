"""The node key file: made once, private, and refused if it is readable by others."""

import re
import stat
from pathlib import Path

import pytest

from node.p2p.identity import IdentityError, identity_from_seed, load_or_create


def test_created_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "network" / "node.key"
    first = load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create(path).peer_id == first.peer_id
    assert [entry.name for entry in path.parent.iterdir()] == ["node.key"]


def test_open_to_others_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    load_or_create(path)
    path.chmod(0o640)
    with pytest.raises(IdentityError, match="chmod 600"):
        load_or_create(path)


@pytest.mark.parametrize("content", ["", "zz", "00" * 31, "00" * 33])
def test_damaged_is_refused_and_not_overwritten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "node.key"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(IdentityError, match=re.escape(str(path))):
        load_or_create(path)
    assert path.read_text() == content


def test_the_peer_id_follows_from_the_seed() -> None:
    """Vector of libp2p's peer id specification form: identity multihash of an Ed25519 key, base58 12D3KooW..."""
    identity = identity_from_seed(bytes(32))
    assert identity.peer_id == "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
