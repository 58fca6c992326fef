"""Addresses as text."""

import pytest

from node.p2p.addresses import Address, AddressError, parse_address, parse_public_address
from node.p2p.identity import identity_from_seed

IDS = sorted(identity_from_seed(bytes([number]) * 32).peer_id for number in range(1, 6))
LOW, OWN, HIGH = IDS[0], IDS[2], IDS[4]


@pytest.mark.parametrize(
    "text",
    [
        f"/ip4/1.2.3.4/tcp/30333/p2p/{LOW}",
        f"/ip6/2001:db8::1/tcp/1/p2p/{LOW}",
        f"/dns/boot.example/tcp/65535/p2p/{LOW}",
    ],
)
def test_addresses_are_read_and_written_alike(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/ip4/1.2.3.4/tcp/30333",
        f"/ip4/1.2.3.4/udp/30333/p2p/{LOW}",
        f"/ip4/1.2.3.4/tcp/0/p2p/{LOW}",
        f"/ip4/1.2.3.4/tcp/65536/p2p/{LOW}",
        f"/ip4/1.2.3.4/tcp/{'9' * 5000}/p2p/{LOW}",
        f"/ip4/1.2.3.4/tcp/²/p2p/{LOW}",
        f"/ip6/1.2.3.4/tcp/1/p2p/{LOW}",
        f"/ip4/boot.example/tcp/1/p2p/{LOW}",
        f"/dns/1.2.3.4/tcp/1/p2p/{LOW}",
        f"/ip4/1.2.3.4/tcp/1/p2p/{LOW[:-1]}",
        "/ip4/1.2.3.4/tcp/1/p2p/QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG",
        "/ip4/1.2.3.4/tcp/1/p2p/0OIl",
        f"/ip4/1.2.3.4/tcp/1/p2p/{LOW}/p2p-circuit",
    ],
)
def test_not_an_address_of_ours(text: str) -> None:
    with pytest.raises(AddressError):
        parse_address(text)


def test_a_public_address_is_literal_and_names_this_node() -> None:
    wanted = Address(OWN, "1.2.3.4", 30333)
    assert parse_public_address("/ip4/1.2.3.4/tcp/30333", OWN) == wanted
    assert parse_public_address(f"/ip4/1.2.3.4/tcp/30333/p2p/{OWN}", OWN) == wanted
    for text in ("/ip4/0.0.0.0/tcp/1", "/dns/a.example/tcp/1", f"/ip4/1.2.3.4/tcp/1/p2p/{LOW}", "nonsense"):
        with pytest.raises(AddressError, match=f"^--public-addr '{text}' "):  # in the operator's words, without our id
            parse_public_address(text, OWN)
