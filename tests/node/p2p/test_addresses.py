"""The address book: what may be dialled, when, and what is forgotten."""

import random

import pytest

from node.p2p.addresses import (
    MAX_BACKOFF_SECONDS,
    MAX_LEARNED,
    MAX_LEARNED_FAILURES,
    Address,
    AddressBook,
    AddressError,
    parse_address,
)
from node.p2p.identity import identity_from_seed

IDS = sorted(identity_from_seed(bytes([number]) * 32).peer_id for number in range(1, 6))
LOW, OWN, HIGH = IDS[0], IDS[2], IDS[4]


def book(*, allow_private: bool = True) -> AddressBook:
    return AddressBook(OWN, random.Random(1), allow_private=allow_private)


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


def test_the_lower_id_dials_first() -> None:
    addresses = book()
    addresses.add(Address(LOW, "9.9.9.1", 1), 0.0, given=True)
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, given=True)
    assert [address.peer_id for address in addresses.due(0.0)] == [HIGH]
    assert {address.peer_id for address in addresses.due(1.0)} == {LOW, HIGH}


def test_failures_double_the_wait_up_to_a_bound_and_never_forget_a_given_address() -> None:
    addresses = book()
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, given=True)
    waits = []
    now = 0.0
    for _ in range(40):
        addresses.on_failed(HIGH, now)
        until = addresses._entries[HIGH].due_at
        waits.append(until - now)
        now = until
    assert waits[0] < waits[2] < waits[4]
    assert max(waits) <= MAX_BACKOFF_SECONDS * 1.25
    addresses.on_connected(HIGH, now)
    addresses.on_lost(HIGH, now)
    assert addresses.due(now + 1.0)


def test_learned_addresses_that_never_answer_are_forgotten() -> None:
    addresses = book()
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, given=False)
    for _ in range(MAX_LEARNED_FAILURES + 1):
        addresses.on_failed(HIGH, 0.0)
    assert len(addresses) == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "fe80::1", "boot.example"])
def test_learned_hosts_must_be_public_outside_a_devnet(host: str) -> None:
    addresses = book(allow_private=False)
    assert not addresses.add(Address(HIGH, host, 1), 0.0, given=False)
    assert addresses.add(Address(HIGH, host, 1), 0.0, given=True)


def test_nobody_overwrites_what_the_operator_gave_or_names_us_to_ourselves() -> None:
    addresses = book()
    addresses.add(Address(HIGH, "9.9.9.2", 1), 0.0, given=True)
    assert not addresses.add(Address(HIGH, "6.6.6.6", 1), 0.0, given=False)
    assert not addresses.add(Address(OWN, "6.6.6.6", 1), 0.0, given=True)
    assert addresses.due(1.0) == [Address(HIGH, "9.9.9.2", 1)]


def test_the_book_is_bounded() -> None:
    addresses = book()
    for number in range(MAX_LEARNED + 10):
        addresses.add(Address(f"peer{number}", "9.9.9.9", 1), 0.0, given=False)
    assert len(addresses) == MAX_LEARNED
    addresses.on_failed("peer0", 0.0)
    assert addresses.add(Address("late", "9.9.9.9", 1), 0.0, given=False)
    assert len(addresses) == MAX_LEARNED
