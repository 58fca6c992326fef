import pytest

from runtime.cryptography.signing import domain

GENESIS = bytes(range(32))


def test_layout() -> None:
    assert domain(b"vrf", GENESIS, b"body") == b"ogpu/1/vrf\0\0\0\0\0" + GENESIS + b"body"
    assert domain(b"notarise", GENESIS, b"") == b"ogpu/1/notarise" + GENESIS


def test_no_two_kinds_chains_or_bodies_share_a_message() -> None:
    messages = {
        domain(kind, genesis, body)
        for kind in (b"a", b"ab", b"abcdefgh", b"b")
        for genesis in (GENESIS, bytes(32))
        for body in (b"", b"a", b"\0")
    }
    assert len(messages) == 4 * 2 * 3


@pytest.mark.parametrize("kind", [b"", b"ninebytes", b"a\0", b"A", b"a/b", "ä".encode()])
def test_malformed_kinds_are_refused(kind: bytes) -> None:
    with pytest.raises(ValueError, match="kind"):
        domain(kind, GENESIS, b"")


def test_malformed_genesis_is_refused() -> None:
    with pytest.raises(ValueError, match="genesis"):
        domain(b"vrf", GENESIS[:31], b"")
